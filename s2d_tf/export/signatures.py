"""The signatures of an exported model: what it takes, what it answers, and what it rejects."""

import re
from collections.abc import Callable

import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf.export import encoded_images
from s2d_tf.export.freezing import freeze
from s2d_tf.models import Predictor

OUTPUTS = {"probabilities": "probs", "confidence": "confidence"} | {
    f"{name}_uncertainty": name for name in ("total", "data", "knowledge")
}
"""Names of the answers beside `label`, each with its name in `uncertainty.NAMES`."""

TOLERANCE = 1e-3
"""By how much of the range a number may be outside of it: pixels that were scaled and rounded."""


def answer_function(model: Predictor, reject: bool = True) -> Callable:
    """The function from a batch of inputs, as the network takes them, to the dict of answers.

    Args:
        model: the predictor.
        reject: whether a prediction that is not a number fails the request, so that no NaN is ever
            sent; runtimes other than TensorFlow have no such operation.
    """

    def answer(inputs):
        member_logits, added = model.served_outputs(inputs)
        member_logits = tf.cast(member_logits, tf.float32)
        if reject:
            message = f"{_expected(model.contract.tensors[0])}, but their answer is not a number"
            member_logits = tf.debugging.check_numerics(member_logits, message)
        found = uncertainty.from_members(model.kind, member_logits)
        label = tf.argmax(found["probs"], axis=-1, output_type=tf.int64)
        answers = {output: found[name] for output, name in OUTPUTS.items()}
        return {"label": label, **answers, **added}

    return answer


class Signatures(tf.Module):
    """A predictor's signatures, with everything that they need and nothing else.

    Neither Keras nor this package is needed to run what `tf.saved_model.save` makes of it.

    Args:
        model: a `models.Predictor`.
        reject: whether numbers that the model does not take fail the request; runtimes other than
            TensorFlow have no such operation.
    """

    def __init__(self, model: Predictor, reject: bool = True) -> None:
        super().__init__()
        answers, contract = answer_function(model, reject), model.contract
        self.contract, self.reject = contract, reject
        _check_names([tensor.name for tensor in contract.tensors])
        # Lookup tables are saved with the graph that uses them.
        self.tables = [
            value
            for layer in model._flatten_layers()
            for value in vars(layer).values()
            if isinstance(value, tf.saved_model.experimental.TrackableResource)
        ]
        self.specs = tf.nest.flatten(contract.specs())
        call, self.weights = freeze(lambda *tensors: answers(contract.pack(tensors)), *self.specs)
        # One body that all signatures call, so that the network is in the file once.
        self._answer = tf.function(call, input_signature=self.specs, autograph=False)

    def functions(self) -> dict[str, Callable]:
        """Dict of signature name to `tf.function`, for `tf.saved_model.save`.

        A model of raw pixels takes them as bytes, as numbers and in files. Any other model takes
        what it was trained on: nobody knows how a file would become that.
        """
        specs = {"serving_default": self.specs}
        functions = {"serving_default": self.serve}
        if self.contract.takes_raw_pixels:
            (images,) = self.specs
            *size, channels = images.shape[1:]
            specs["serving_default"] = [tf.TensorSpec(images.shape, tf.uint8, name=images.name)]
            specs["serve_float"], functions["serve_float"] = self.specs, self.serve
            if channels in encoded_images.CHANNELS and None not in size:
                specs["serve_encoded"] = [tf.TensorSpec([None], tf.string, name="image_bytes")]
                functions["serve_encoded"] = self.serve_encoded
        return {
            name: tf.function(function, input_signature=specs[name], autograph=False)
            for name, function in functions.items()
        }

    def serve(self, *tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        """The inputs as the model takes them; what it does not take fails the request."""
        declared = zip(tensors, self.specs, self.contract.tensors, strict=True)
        return self._answer(*(self._checked(*each) for each in declared))

    def serve_encoded(self, image_bytes: tf.Tensor) -> dict[str, tf.Tensor]:
        """JPEG or PNG files of any size."""
        (image,) = self.contract.tensors
        return self._answer(encoded_images.decode_batch(image_bytes, image.shape))

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
        is_within = encoded_images.require(
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


def _check_names(names):
    """Rejects names of inputs that TensorFlow rejects or changes, in some of its loaders only."""
    wrong = [name for name in names if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)]
    if wrong or len(set(names)) < len(names):
        raise ValueError(
            "model: expected inputs with different names of letters, digits and '_', which a "
            f"signature can have, received {wrong or names}. Build the backbone with such names."
        )
