"""A loaded version of a model, and the folder in which newer ones appear."""

import logging
import pathlib
import re
import threading

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from s2d_tf.export import operations, warmup
from s2d_tf.export.versions import versions
from s2d_tf.serving import protocol
from s2d_tf.serving.errors import RequestError, bad_request

_LOG = logging.getLogger("s2d_tf.serving")


class Servable:
    """One version of an exported model, checked against the list of operations, then loaded.

    Args:
        directory: the version folder.
    """

    def __init__(self, directory):
        directory = pathlib.Path(directory)
        self.version = int(directory.name)
        (meta_graph,) = operations.check(directory).meta_graphs
        self.signature_defs = {
            name: definition
            for name, definition in meta_graph.signature_def.items()
            if not name.startswith("__")
        }
        self._loaded = tf.saved_model.load(str(directory))
        self._inputs = {
            name: [
                protocol.Input(key, tf.dtypes.as_dtype(info.dtype).name, _shape(info.tensor_shape))
                for key, info in definition.inputs.items()
            ]
            for name, definition in self.signature_defs.items()
        }
        self._warm_up()

    def predict(self, body, limits):
        """The answer to a predict request, both as bytes."""
        request = protocol.parse(body)
        if request.signature_name not in self._inputs:
            raise bad_request(
                f"signature_name: expected one of {sorted(self._inputs)}, received "
                f"{request.signature_name!r}."
            )
        inputs = protocol.arrays(request, self._inputs[request.signature_name], limits)
        return protocol.response(self.run(request.signature_name, inputs), request.rows)

    def run(self, signature_name, inputs):
        """Dict of output arrays for a dict of input arrays."""
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        try:
            outputs = self._loaded.signatures[signature_name](**tensors)
            return {name: value.numpy() for name, value in outputs.items()}
        except tf.errors.InvalidArgumentError as error:
            raise bad_request(_readable(error.message)) from None

    def metadata(self):
        """The signatures as TF Serving describes them."""
        return {
            name: {
                "inputs": {key: _describe(info) for key, info in definition.inputs.items()},
                "outputs": {key: _describe(info) for key, info in definition.outputs.items()},
                "method_name": definition.method_name,
                "defaults": {},
            }
            for name, definition in self.signature_defs.items()
        }

    def _warm_up(self):
        images = [i for i in self._inputs.get("serving_default", ()) if i.name == "images"]
        if images and None not in images[0].shape[1:]:
            shape = images[0].shape[1:]
            for signature, name, value in warmup.requests(shape, self._inputs, batch_sizes=(1,)):
                self.run(signature, {name: value})


class Servables:
    """The newest version in a model's folder, replaced when a newer one appears.

    A version that cannot be loaded is reported once, and the one before it stays.

    Args:
        directory: the model's folder.
        poll_seconds: how often to look for a newer version.
    """

    def __init__(self, directory, poll_seconds=2.0):
        self.directory = pathlib.Path(directory).expanduser()
        self.poll_seconds = poll_seconds
        self.current = None
        self._tried = 0
        self._stopped = threading.Event()
        found = versions(self.directory)
        if not found:
            raise ValueError(
                f"Expected a folder with versions of a model (1, 2, ...), received "
                f"{self.directory}: `s2d export NAME_OR_RUN {self.directory}` writes one."
            )
        self._load(found[-1])

    def get(self, version=None):
        """The current servable; `version` must be its number, if given."""
        servable = self.current
        if version not in (None, str(servable.version)):
            raise RequestError(
                404, f"Expected version {servable.version}, which is loaded, received {version}."
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
        self.current = Servable(self.directory / str(version))
        _LOG.warning("version %d is loaded", version)


def _describe(info):
    """A `TensorInfo` message as JSON has it: 64-bit numbers are text."""
    dims = [{"size": str(dim.size), "name": dim.name} for dim in info.tensor_shape.dim]
    return {
        "dtype": types_pb2.DataType.Name(info.dtype),
        "tensor_shape": {"dim": dims, "unknown_rank": info.tensor_shape.unknown_rank},
        "name": info.name,
    }


def _shape(proto):
    return tuple(None if dim.size < 0 else dim.size for dim in proto.dim)


def _readable(message):
    """The line of TensorFlow's message that says what was wrong, without nodes and functions."""
    found = re.search(r"([^\n]+)\n\s*\[\[\{\{node", message)
    text = found.group(1) if found else message.split("\n")[0]
    text = re.sub(r"\{\{function_node [^}]*\}\}\s*", "", text)
    if text.startswith("assertion failed: "):
        text = " ".join(re.findall(r"\[(.*?)\](?= \[|$)", text))
    return text.strip()
