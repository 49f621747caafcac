"""The signatures of an exported model: what it takes, what it answers, and what it rejects.

Everything that does not depend on the request is computed once: weights, draws, dropout masks. A
traced prediction is split into operations that follow from the inputs and operations that do not.
The second part runs here, and its results become constants. So an exported SWAG model does not draw
its weights again for each request, nor Monte Carlo dropout its masks; every machine uses the same
draws; and no random operation is left that another runtime may not have. (TensorFlow's own
`convert_variables_to_constants_v2` leaves random operations in the graph.)
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf.data import image_files
from s2d_tf.export import operations
from s2d_tf.models import Predictor
from s2d_tf.models.contract import Contract

OUTPUTS = {"probabilities": "probs", "confidence": "confidence"} | {
    f"{name}_uncertainty": name for name in ("total", "data", "knowledge")
}
"""Names of the answers beside `label`, each with its name in `uncertainty.NAMES`."""

TOLERANCE = 1e-3
"""By how much of the range a number may be outside of it: pixels that were scaled and rounded."""

WARMUP_SIZES = (1, 8, 32)
MAX_WARMUP_VALUES = 1 << 20
"""Warm-up batches of more than one example have at most this many values: the file stays small."""

MAX_CONSTANT_BYTES = 1 << 29
"""Larger models keep their arrays in variables: a graph with its constants is one message, which
cannot exceed 2 GB."""


class Signatures(tf.Module):
    """A predictor's signatures, with everything that they need and nothing else.

    Neither Keras nor this package is needed to run what `tf.saved_model.save` makes of it.

    Args:
        model: a `models.Predictor`.
        reject: whether numbers that the model does not take, and predictions that are not numbers,
            fail the request; runtimes other than TensorFlow have no such operation.
    """

    def __init__(self, model: Predictor, reject: bool = True) -> None:
        super().__init__()
        self.contract, self.reject = model.contract, reject
        # Lookup tables are saved with the graph that uses them.
        self.tables = [
            value
            for layer in model._flatten_layers()
            for value in vars(layer).values()
            if isinstance(value, tf.saved_model.experimental.TrackableResource)
        ]
        self.specs = tf.nest.flatten(self.contract.specs())
        call, self.weights = freeze(lambda *tensors: self._predict(model, tensors), *self.specs)
        # One body that all signatures call, so that the network is in the file once.
        self._answer = tf.function(call, input_signature=self.specs, autograph=False)

    def functions(self) -> dict[str, Callable]:
        """Dict of signature name to `tf.function`, for `tf.saved_model.save`.

        A model of raw pixels takes them as bytes, as numbers and in files. Any other model takes
        what it was trained on: nobody knows how a file would become that.
        """
        signatures = {"serving_default": (self.serve, self.specs)}
        if self.contract.takes_raw_pixels:
            (images,) = self.specs
            *size, channels = images.shape[1:]
            as_bytes = tf.TensorSpec(images.shape, tf.uint8, name=images.name)
            signatures = {
                "serving_default": (self.serve, [as_bytes]),
                "serve_float": (self.serve, self.specs),
            }
            if channels in image_files.CHANNELS and None not in size:
                in_files = tf.TensorSpec([None], tf.string, name="image_bytes")
                signatures["serve_encoded"] = self.serve_encoded, [in_files]
        return {
            name: tf.function(function, input_signature=specs, autograph=False)
            for name, (function, specs) in signatures.items()
        }

    def serve(self, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        """The inputs as the model takes them; what it does not take fails the request."""
        declared = zip(tensors, self.specs, self.contract.tensors, strict=True)
        return self._answer(*(self._checked(*each) for each in declared))

    def serve_encoded(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """JPEG or PNG files of any size."""
        (image,) = self.contract.tensors
        return self._answer(image_files.decode_batch(image_bytes, image.shape))

    def _predict(self, model, tensors):
        """The dict of answers for a batch of inputs, as the network takes them."""
        member_logits, added = model.served_outputs(self.contract.pack(tensors))
        member_logits = tf.cast(member_logits, tf.float32)
        if self.reject:  # so that no NaN is ever sent
            message = f"{_expected(self.contract.tensors[0])}, but their answer is not a number"
            member_logits = tf.debugging.check_numerics(member_logits, message)
        found = uncertainty.from_members(model.kind, member_logits)
        answers = {output: found[name] for output, name in OUTPUTS.items()}
        label = tf.argmax(found["probs"], axis=-1, output_type=tf.int64)
        return {"label": label, **answers, **added}

    def _checked(self, tensor, spec, declared):
        # Servers do not compare a request with the signature's shape, and a convolutional network
        # would answer for images of any size.
        tensor = tf.ensure_shape(tensor, spec.shape)
        if tensor.dtype != spec.dtype:  # bytes, which are all pixels
            return tf.cast(tensor, spec.dtype)
        if self.reject and tensor.dtype.is_floating:
            tensor = tf.debugging.check_numerics(tensor, _expected(declared))
        if not self.reject or not declared.bounded:
            return tensor
        low, high = declared.range
        lowest, highest = tf.reduce_min(tensor), tf.reduce_max(tensor)
        margin = TOLERANCE * (high - low) if tensor.dtype.is_floating else 0
        is_within = image_files.require(
            (lowest >= tf.cast(low - margin, tensor.dtype))
            & (highest <= tf.cast(high + margin, tensor.dtype)),
            f"{_expected(declared)}, received values from",
            lowest,
            "to",
            highest,
        )
        with tf.control_dependencies([is_within]):
            return tf.identity(tensor)


def _expected(tensor):
    """The beginning of an error about an input's values."""
    what = "pixels" if tensor.is_image else "numbers"
    bounds = " in [{:g}, {:g}]".format(*(tensor.range or ())) if tensor.bounded else ""
    return f"{tensor.name}: expected {what}{bounds}"


def warmup_requests(
    contract: Contract, signature_names: Iterable[str]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Requests of a few batch sizes for each signature, by its name, with the inputs by theirs.

    TF Serving runs them before a new version gets real ones: otherwise the first request waits for
    the graph's start-up. A model of inputs of free size has none.
    """
    shapes: list[Any] = [tensor.shape for tensor in contract.tensors]
    if any(None in shape for shape in shapes):
        return
    most = MAX_WARMUP_VALUES // sum(int(np.prod(shape)) for shape in shapes)
    for count in (size for size in WARMUP_SIZES if size <= max(1, most)):
        flat = contract.flatten(contract.sample(count))
        inputs = dict(zip((each.name for each in contract.tensors), flat, strict=True))
        if contract.takes_raw_pixels:
            ((name, images),) = inputs.items()
            inputs = {name: images.astype(np.uint8)}
            yield "serve_float", {name: images.astype(np.float32)}
            if "serve_encoded" in signature_names:
                for encode in (tf.io.encode_jpeg, tf.io.encode_png):
                    encoded = [encode(image).numpy() for image in inputs[name]]
                    yield "serve_encoded", {"image_bytes": np.array(encoded, object)}
        yield "serving_default", inputs


def prediction_log(model_name: str, signature_name: str, inputs: dict[str, np.ndarray]) -> bytes:
    """A `tensorflow.serving.PredictionLog` message with one predict request, serialized.

    It is written field by field, since the package that defines it is heavy and not otherwise
    needed.
    """
    # By the field numbers of TF Serving's prediction_log.proto, predict.proto and model.proto.
    request = _field(1, _field(1, model_name.encode()) + _field(3, signature_name.encode()))
    for name, value in inputs.items():  # PredictRequest: model_spec, a map of inputs
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))  # PredictionLog.predict_log.request


def _field(number, content):
    """A length-delimited field of the protocol buffers' wire format."""
    length, encoded = len(content), bytearray([number << 3 | 2])
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*encoded, length]) + content


def freeze(function: Callable, *specs: tf.TensorSpec) -> tuple[Callable, list[tf.Variable]]:
    """A function of some tensors whose graph holds only what depends on them.

    Values that are not arrays, such as the lists of a recurrent layer, are computed in each call.
    A variable that is read inside a loop or branch stays a variable.

    Args:
        function: traceable; takes these tensors and returns a dict of tensors.
        *specs: `tf.TensorSpec` of each.

    Returns:
        A function that, called within a `tf.function`, returns what `function` does, and the
        variables that it needs: whoever saves it has to keep them. Lookup tables remain those of
        `function`.

    Example:

    >>> layer = keras.layers.Dense(3)
    >>> layer.build([None, 4])
    >>> spec = tf.TensorSpec([None, 4], tf.float32)
    >>> call, variables = freeze(lambda x: {"logits": layer(x)}, spec)
    >>> tf.function(call)(tf.zeros([2, 4]))["logits"].shape
    TensorShape([2, 3])
    """
    traced = tf.compat.v1.wrap_function(function, list(specs))
    graph = traced.graph
    given = [tensor.name for tensor in traced.inputs[: len(specs)]]
    captured = {placeholder.name: value for value, placeholder in graph.captures}
    body = _dependent(traced, {*given}, captured)
    needed = {each.name: each for op in body for each in op.inputs if each.op not in body}
    handles = {name: captured[name] for name in needed if needed[name].dtype == tf.resource}
    fixed = [name for name in needed if name not in handles and name not in given]
    values = traced.prune([], [needed[name] for name in fixed])()
    keys = [hashlib.sha256(tf.io.serialize_tensor(each).numpy()).digest() for each in values]
    arrays = _keep(dict(zip(keys, values, strict=True)))  # equal ones once
    definition = _part(graph, {op.name for op in body})

    def call(*tensors):
        current = tf.compat.v1.get_default_graph()
        constants = {key: tf.convert_to_tensor(value) for key, value in arrays.items()}
        known = dict(zip(given, tensors, strict=True))
        known |= {name: current.capture(handle) for name, handle in handles.items()}
        known |= {name: constants[key] for name, key in zip(fixed, keys, strict=True)}
        # TensorFlow drops the bodies of loops and branches with `traced`, which this keeps alive.
        outputs = traced.structured_outputs
        found = tf.graph_util.import_graph_def(
            definition,
            input_map={name: known[name] for name in needed},
            return_elements=[tensor.name for tensor in outputs.values()],
            name="",
        )
        return dict(zip(outputs, found, strict=True))

    variables = [each for each in arrays.values() if isinstance(each, tf.Variable)]
    used = {id(handle) for handle in handles.values()}
    variables += [each for each in graph.variables if id(each.handle) in used]
    return call, variables


def _dependent(traced, given, captured):
    """The operations that run for each request, in the order in which they were made."""
    # Not those that nothing needs, such as the draws of augmentation, which only trains.
    ops = traced.graph.get_operations()
    ends = [tensor.name for tensor in traced.structured_outputs.values()]
    ends += [op.name for op in ops if op.type == "Assert"]
    needed = operations.reach(operations.bodies(traced.graph.as_graph_def()), ends)
    body: dict = {}
    for op in [op for op in ops if ("node", op.name) in needed]:
        made = [tensor.dtype for tensor in op.outputs if tensor.name not in captured]
        opaque = tf.resource in made or tf.variant in made
        after = {*op.control_inputs, *(each.op for each in op.inputs)}
        if opaque or after & body.keys() or any(each.name in given for each in op.inputs):
            body[op] = None
    return body


def _keep(values):
    """Arrays as they are or, where they are too many for one message, as variables."""
    # Shapes, axes and indices have to be constants: other shapes are inferred from them.
    weights = {key for key, each in values.items() if each.dtype.is_floating and each.shape.rank}
    if sum(values[key].numpy().nbytes for key in weights) <= MAX_CONSTANT_BYTES:
        weights = set()
    return {
        key: tf.Variable(each, trainable=False) if key in weights else each.numpy()
        for key, each in values.items()
    }


def _part(graph, names):
    """Some operations as a graph of their own, which takes other tensors from an `input_map`."""
    whole = graph.as_graph_def()
    part = type(whole)(versions=whole.versions)
    part.node.extend(node for node in whole.node if node.name in names)
    # Not those that nothing calls, such as what is left of checks: a reader would reject them.
    called = operations.reach(operations.bodies(whole), names)
    functions = [f for f in whole.library.function if ("function", f.signature.name) in called]
    part.library.function.extend(functions)
    for node in part.node:
        node.input[:] = [each for each in node.input if each[0] != "^" or each[1:] in names]
        # Colocation with nodes that may be gone; gradients of what is no longer trained.
        for attribute in {"_class", "_gradient_op_type"} & set(node.attr):
            del node.attr[attribute]
    return part
