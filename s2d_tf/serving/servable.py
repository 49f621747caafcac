"""A loaded version of a model, and the folder in which newer ones appear."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import re
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.export import operations, warmup
from s2d_tf.export.version_folders import versions
from s2d_tf.serving import protocol
from s2d_tf.serving.limits import RequestError

if TYPE_CHECKING:
    from s2d_tf.serving.limits import Limits

_LOG = logging.getLogger("s2d_tf.serving")

MAX_COMPILED_SIZE = 256
"""Largest batch with which a model's description can have the model warmed up."""


class Servable:
    """One version of an exported model, checked against the list of operations, then loaded.

    Which strings are texts is in the model's description; those of other signatures have to be image files.

    Args:
        directory: the version folder.

    Attributes:
        version: its number.
        metadata: dict of signature name to its inputs and outputs, as TF Serving describes them.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.version = int(directory.name)
        (meta_graph,) = operations.check(directory).meta_graphs
        self._loaded = tf.saved_model.load(str(directory))
        if not self._loaded.signatures:
            raise ValueError(
                f"{directory}: expected a signature, received a model without any. Export it again."
            )
        self._specs = {
            name: function.structured_input_signature[1]
            for name, function in self._loaded.signatures.items()
        }
        self.metadata = {
            name: json_format.MessageToDict(
                meta_graph.signature_def[name],
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name in self._specs
        }
        self._contract = None
        images = self._specs.get("serving_default", {}).get("images")
        if images is not None and images.dtype == tf.uint8:
            sizes = (1, *_compiled_sizes(directory))
            requests = warmup.image_requests(images.shape[1:], self._specs, (1,), sizes)
        else:
            self._contract = _contract(directory, self._specs.get("serving_default", {}))
            requests = self._contract and warmup.requests(self._contract, self._specs, (1,))
        for signature, inputs in requests or ():
            self.run(signature, inputs)

    def predict(self, body: bytes, limits: Limits) -> tuple[dict[str, np.ndarray], str]:
        """The outputs for the body of a predict request, and the form to send them back in."""
        name, form, values = protocol.parse(body)
        if name not in self._specs:
            raise RequestError(
                f"signature_name: expected one of {sorted(self._specs)}, received {name!r}. Choose "
                "one of these."
            )
        # What a model takes as it was trained is text; files come in a signature of their own.
        has_texts = self._contract is not None and name == "serving_default"
        inputs = protocol.arrays(form, values, self._specs[name], limits, has_texts)
        return self.run(name, inputs), form

    def run(self, signature_name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Dict of output arrays for a dict of input arrays."""
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        try:
            outputs = self._loaded.signatures[signature_name](**tensors)
            return {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.InvalidArgumentError as error:
            raise RequestError(_readable(error.message)) from None


class Servables:
    """The newest version in a model's folder that can be loaded, kept up to date.

    A version that cannot be loaded is reported, and tried again when its files change; until then
    the newest of the others is served. If the folder of the loaded version is removed, the newest
    of the remaining ones takes its place; the last one stays loaded, since a folder that is moved
    or a disk that is away for a moment should not stop a service.

    Args:
        directory: the model's folder.
        poll_seconds: how often to look for changes.

    Attributes:
        current: the loaded `Servable`.
        failed: versions that could not be loaded, with the files that were tried.

    Raises:
        ValueError: `directory` holds no version that can be loaded.

    Example:

    >>> folder = export.save(model, "models/mine")
    >>> serving.Servables("models/mine").current.version
    1
    """

    def __init__(self, directory: PathLike, poll_seconds: float = 2.0) -> None:
        self.directory = pathlib.Path(directory).expanduser()
        self.poll_seconds = poll_seconds
        self.current: Any = None  # never None after the constructor
        self.failed: dict[int, Any] = {}
        self._reason = ""
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        if not versions(self.directory):
            raise ValueError(
                f"{self.directory}: expected a folder with versions of a model (1, 2, ...), "
                f"received none. `s2d export NAME_OR_RUN {self.directory}` writes one."
            )
        self.refresh()
        if self.current is None:
            raise ValueError(
                f"{self.directory}: expected a version that can be loaded, received "
                f"{sorted(self.failed)}. The oldest fails with: {self._reason} "
                f"`s2d export NAME_OR_RUN {self.directory}` writes another."
            )

    @property
    def stopped_watching(self) -> bool:
        """Whether newer versions are no longer looked for, although they should be."""
        return self._watcher is not None and not self._watcher.is_alive()

    def get(self, version: str | None = None) -> Servable:
        """The current servable; `version` must be its number, if given."""
        servable = self.current
        if version not in (None, str(servable.version)):
            raise RequestError(
                f"version: expected {servable.version}, which is loaded, received {version}. Leave "
                "it out for the newest one.",
                404,
            )
        return servable

    def refresh(self) -> None:
        """Loads the newest version that can be loaded, unless it is loaded already."""
        found = versions(self.directory)
        self.failed = {version: tried for version, tried in self.failed.items() if version in found}
        for version in reversed(found):
            if self.current is not None and version == self.current.version:
                return
            if self._load(version):
                return

    def watch(self) -> None:
        """Starts to look for newer versions, until `stop`."""
        self._watcher = threading.Thread(target=self._poll, name="versions", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        self._stopped.set()

    def _poll(self):
        while not self._stopped.wait(self.poll_seconds):
            try:
                self.refresh()
            except Exception as error:  # such as too many open files: that passes
                _LOG.error("cannot look for versions: %s", error)

    def _load(self, version):
        """Whether a version could be loaded; not tried again while its files stay as they are."""
        folder = self.directory / str(version)
        found = _files(folder)
        if self.failed.get(version) == found:
            return False
        try:
            self.current = Servable(folder)
        except Exception as error:
            # Whatever it is, another version can answer.
            self.failed[version] = found
            self._reason = _readable(str(error)).rstrip(".") + "."
            _LOG.error("version %d could not be loaded: %s", version, self._reason)
            return False
        self.failed.pop(version, None)
        _LOG.warning("version %d is loaded", version)
        return True


def _contract(directory, specs):
    """What a model of other inputs than raw pixels takes, by its description.

    SavedModels that others wrote have none. They may take numbers, which are known by their type;
    but nobody knows which strings are texts. And the file may still be on its way.
    """
    from s2d_tf.models.contract import Contract  # with Keras, which models of pixels do without

    path = directory / "assets" / "model.json"
    if not path.is_file() and any(spec.dtype == tf.string for spec in specs.values()):
        raise ValueError(
            f"{path}: expected the description of a model of strings, received none. Export the "
            "model with `s2d export`."
        )
    if not path.is_file():
        return None
    try:
        contract = Contract.from_dict(files.read_json(path)["inputs"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected the description of a model with its inputs, received another: "
            f"{error!r}. Export the model again."
        ) from None
    names = [tensor.name for tensor in contract.tensors]
    if set(names) != set(specs):
        raise ValueError(
            f"{path}: expected the inputs {sorted(specs)}, received {sorted(names)}. Export the "
            "model again."
        )
    return contract


def _compiled_sizes(directory):
    """Batch sizes that XLA compiles for when they first come, by the model's description."""
    try:
        sizes = files.read_json(directory / "assets" / "model.json")["xla_batch_sizes"]
        sizes = [size for size in sizes if type(size) is int and 0 < size <= MAX_COMPILED_SIZE]
        return sizes[: warmup.MAX_COMPILED_SIZES]
    except (OSError, ValueError, KeyError, TypeError):  # It has none, or is not ours.
        return []


def _files(folder):
    """Names, sizes and times of all files of a version."""
    found = []
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # of a copy that is under way
            facts = path.stat()
            found.append((str(path), facts.st_size, facts.st_mtime_ns))
    return found


def _readable(message):
    """The line of TensorFlow's message that says what was wrong, without nodes and functions."""
    found = re.search(r"([^\n]+)\n\s*\[\[\{\{node", message)
    text = found.group(1) if found else message.split("\n")[0]
    text = re.sub(r"\{\{function_node [^}]*\}\}\s*", "", text)
    if text.startswith("assertion failed: "):
        text = " ".join(re.findall(r"\[(.*?)\](?= \[|$)", text))
    return text.strip()
