"""A loaded version of a model, and the folder in which newer ones appear."""

import logging
import pathlib
import re
import threading

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from s2d_tf import engines
from s2d_tf.engines.loaded import inlined
from s2d_tf.export import operations, warmup
from s2d_tf.export.versions import versions
from s2d_tf.serving import protocol
from s2d_tf.serving.limits import RequestError

_LOG = logging.getLogger("s2d_tf.serving")


class Servable:
    """One version of an exported model, checked against the list of operations, then loaded.

    Args:
        directory: the version folder.
        engine: what computes the answers to arrays of pixels, see `engines`. Files are decoded and
            answered by TensorFlow.

    Attributes:
        version: its number.
        metadata: dict of signature name to its inputs and outputs, as TF Serving describes them.
    """

    def __init__(self, directory: pathlib.Path, engine: str = "auto"):
        self._engine = engines.check(engine)
        self._engines = {}
        self.version = int(directory.name)
        (meta_graph,) = operations.check(directory).meta_graphs
        self._loaded = tf.saved_model.load(str(directory))
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
        self._warm_up()

    def predict(self, body, limits):
        """The answer to a predict request, both as bytes."""
        name, form, values = protocol.parse(body)
        if name not in self._specs:
            raise RequestError(
                f"signature_name: expected one of {sorted(self._specs)}, received {name!r}."
            )
        inputs = protocol.arrays(form, values, self._specs[name], limits)
        return protocol.response(self.run(name, inputs), form)

    def run(self, signature_name, inputs):
        """Dict of output arrays for a dict of input arrays."""
        compute = self._engines.get(signature_name)
        if compute is not None and _are_numbers(inputs):
            (value,) = inputs.values()
            answers = compute(value, self._engine)
            if _are_numbers(answers):
                return answers
        # Also where something is not a number: the signature itself says what is wrong.
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        try:
            outputs = self._loaded.signatures[signature_name](**tensors)
            return {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.InvalidArgumentError as error:
            raise RequestError(_readable(error.message)) from None

    def _warm_up(self):
        images = self._specs.get("serving_default", {}).get("images")
        if images is not None and images.shape[1:].is_fully_defined():
            shape = tuple(images.shape[1:])
            for signature in {"serving_default", "serve_float"} & set(self._specs):
                function, spec = inlined(self._loaded.signatures[signature])
                self._engines[signature] = engines.Engine(function, spec, background=True)
            for signature, name, value in warmup.requests(shape, self._specs, batch_sizes=(1,)):
                self.run(signature, {name: value})


class Servables:
    """The newest version in a model's folder, replaced when a newer one appears.

    A version that cannot be loaded is reported once, and the one before it stays.

    Args:
        directory: the model's folder.
        poll_seconds: how often to look for a newer version.
        engine: as for `Servable`.
    """

    def __init__(self, directory, poll_seconds=2.0, engine="auto"):
        self._engine = engines.check(engine)
        self.directory = pathlib.Path(directory).expanduser()
        self.poll_seconds = poll_seconds
        self._stopped = threading.Event()
        found = versions(self.directory)
        if not found:
            raise ValueError(
                f"{self.directory}: expected a folder with versions of a model (1, 2, ...), "
                f"received none. `s2d export NAME_OR_RUN {self.directory}` writes one."
            )
        self._load(found[-1])

    def get(self, version=None):
        """The current servable; `version` must be its number, if given."""
        servable = self.current
        if version not in (None, str(servable.version)):
            raise RequestError(
                f"Expected version {servable.version}, which is loaded, received {version}.", 404
            )
        return servable

    def refresh(self):
        """Looks for a newer version now."""
        newest = max(versions(self.directory), default=0)
        if newest > self._tried:
            try:
                self._load(newest)
            except Exception:
                # Whatever it is, requests go on being answered by the version before.
                _LOG.exception("version %d could not be loaded", newest)

    def watch(self):
        """Starts to look for newer versions, until `stop`."""
        threading.Thread(target=self._poll, name="versions", daemon=True).start()

    def stop(self):
        self._stopped.set()

    def _poll(self):
        while not self._stopped.wait(self.poll_seconds):
            self.refresh()

    def _load(self, version):
        self._tried = version
        self.current = Servable(self.directory / str(version), self._engine)
        _LOG.warning("version %d is loaded", version)


def _are_numbers(arrays):
    floats = (value for value in arrays.values() if value.dtype.kind == "f")
    return all(np.isfinite(value).all() for value in floats)


def _readable(message):
    """The line of TensorFlow's message that says what was wrong, without nodes and functions."""
    found = re.search(r"([^\n]+)\n\s*\[\[\{\{node", message)
    text = found.group(1) if found else message.split("\n")[0]
    text = re.sub(r"\{\{function_node [^}]*\}\}\s*", "", text)
    if text.startswith("assertion failed: "):
        text = " ".join(re.findall(r"\[(.*?)\](?= \[|$)", text))
    return text.strip()
