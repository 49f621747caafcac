"""A loaded version of a model, and the folder in which newer ones appear."""

import contextlib
import logging
import pathlib
import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from s2d_tf import export
from s2d_tf._types import PathLike
from s2d_tf.serving import protocol
from s2d_tf.serving.protocol import Limits, RequestError

_LOG = logging.getLogger("s2d_tf.serving")


class Servable:
    """One version of an exported model, as `export.load` reads it.

    Args:
        directory: the version folder.
        trust: as for `export.load`.

    Attributes:
        version: its number.
        metadata: dict of signature name to its inputs and outputs, as TF Serving describes them.
    """

    def __init__(self, directory: pathlib.Path, trust: bool = False) -> None:
        self.version = int(directory.name)
        self._loaded = export.load(directory, trust)
        self._specs = {
            name: function.structured_input_signature[1]
            for name, function in self._loaded.signatures.items()
        }
        self.metadata = {
            name: json_format.MessageToDict(
                definition,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
            )
            for name, definition in self._loaded.definitions.items()
        }
        self._warm_up()

    def predict(self, body: bytes, limits: Limits) -> tuple[dict[str, np.ndarray], str]:
        """The outputs for the body of a predict request, and the form to send them back in."""
        name, form, values = protocol.parse(body)
        RequestError.unless(
            name in self._specs,
            f"signature_name: expected one of {sorted(self._specs)}, received {name!r}. Use "
            "one of these names.",
        )
        # Strings that an exported model was trained on are texts; all others have to be files.
        has_texts = name == "serving_default" and "inputs" in self._loaded.description
        inputs = protocol.arrays(form, values, self._specs[name], limits, has_texts)
        return self.run(name, inputs), form

    def run(self, signature_name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Dict of output arrays for a dict of input arrays."""
        try:
            outputs = self._loaded.signatures[signature_name](
                **{name: tf.constant(value) for name, value in inputs.items()}
            )
            return {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.InvalidArgumentError as error:
            raise RequestError(_readable(error.message)) from None

    def _warm_up(self):
        """Runs each signature once, so that the first request does not wait for its start-up."""
        image = tf.io.encode_png(np.zeros([1, 1, 1], np.uint8)).numpy()
        for name, specs in self._specs.items():
            if not all(spec.shape[1:].is_fully_defined() for spec in specs.values()):
                continue
            text = "text" if name == "serving_default" else image
            inputs = {
                key: np.full(
                    [1, *spec.shape[1:]],
                    text if spec.dtype == tf.string else 0,
                    spec.dtype.as_numpy_dtype,
                )
                for key, spec in specs.items()
            }
            with contextlib.suppress(RequestError):  # Zero may be outside of the model's range.
                self.run(name, inputs)


class Servables:
    """The newest version in a model's folder that can be loaded, kept up to date.

    A version that cannot be loaded is reported, and tried again when its files change; until then
    the newest of the others is served. If the folder of the loaded version is removed, the newest
    of the remaining ones takes its place; the last one stays loaded, since a folder that is moved
    or a disk that is away for a moment should not stop a service.

    Args:
        directory: the model's folder.
        poll_seconds: how often to look for changes.
        trust: as for `export.load`.

    Attributes:
        current: the loaded `Servable`.
        failed: versions that could not be loaded, with the files that were tried and the reason.

    Raises:
        ValueError: `directory` holds no version that can be loaded.

    Example:

    >>> folder = export.save(model, "models/mine")
    >>> serving.Servables("models/mine").current.version
    1
    """

    def __init__(self, directory: PathLike, poll_seconds: float = 2.0, trust: bool = False) -> None:
        self.directory = pathlib.Path(directory).expanduser()
        self.poll_seconds = poll_seconds
        self.trust = trust
        self.current: Any = None  # never None after the constructor
        self.failed: dict[int, Any] = {}
        self.refresh()
        if self.current is None:
            received = [f"{version} ({reason})" for version, (_, reason) in self.failed.items()]
            raise ValueError(
                f"{self.directory}: expected a folder with versions of a model that can be loaded, "
                f"received {', '.join(received) or 'no version'}. "
                f"`s2d export NAME_OR_RUN {self.directory}` writes another."
            )

    def refresh(self) -> None:
        """Loads the newest version that can be loaded, unless it is loaded already."""
        found = export.versions(self.directory)
        self.failed = {version: tried for version, tried in self.failed.items() if version in found}
        for version in reversed(found):
            if self.current is not None and version == self.current.version:
                return
            folder = self.directory / str(version)
            files = _files(folder)
            if self.failed.get(version, [None])[0] == files:  # not tried again as it is
                continue
            try:
                self.current = Servable(folder, self.trust)
            except Exception as error:  # Whatever it is, another version can answer.
                self.failed[version] = files, _readable(str(error))
                _LOG.error("version %d could not be loaded: %s", version, self.failed[version][1])
            else:
                self.failed.pop(version, None)
                _LOG.warning("version %d is loaded", version)
                return

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Looks for newer versions in another thread, as long as the block runs."""
        stopped = threading.Event()

        def poll():
            while not stopped.wait(self.poll_seconds):
                try:
                    self.refresh()
                except Exception as error:  # such as too many open files: that passes
                    _LOG.error("cannot look for versions: %s", error)

        threading.Thread(target=poll, name="versions", daemon=True).start()
        try:
            yield
        finally:
            stopped.set()


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
