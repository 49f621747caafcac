"""The signatures of an exported model, which follow from what it takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

from s2d_tf.export import compiled, encoded_images
from s2d_tf.export.answers import answer_function, no_number
from s2d_tf.export.freezing import freeze

if TYPE_CHECKING:
    from s2d_tf.models import Predictor

TOLERANCE = 1e-3
"""By how much of the range a number may be outside of it: pixels that were scaled and rounded."""


class Signatures(tf.Module):
    """A predictor's signatures, with all that they need and nothing else.

    Neither Keras nor this package is needed to run what `tf.saved_model.save` makes of it.

    Args:
        model: a `models.Predictor`.
        answer: function from a batch of inputs to the dict of answers; default: all uncertainties.
        reject: whether numbers that the model does not take fail the request; other runtimes than
            TensorFlow have no such operation, and the graph is simplified for them.
        xla_batch_sizes: batch sizes for which XLA compiles the network, see `compiled`.
    """

    def __init__(
        self,
        model: Predictor,
        answer: Callable | None = None,
        reject: bool = True,
        xla_batch_sizes: Sequence[int] = (),
    ) -> None:
        super().__init__()
        answers = answer or answer_function(model, reject and not xla_batch_sizes)
        contract = model.contract
        self.contract, self.reject = contract, reject
        _check_names([tensor.name for tensor in contract.tensors])
        # Saved with the graph that looks words up in them.
        self.tables = [
            layer.lookup_table
            for layer in model._flatten_layers()
            if isinstance(getattr(layer, "lookup_table", None), tf.lookup.StaticHashTable)
        ]
        self.specs = tf.nest.flatten(contract.specs())
        call, self.weights = freeze(lambda *tensors: answers(contract.pack(tensors)), *self.specs)
        # One body that all signatures call, so that the network is in the file once.
        self._answer = tf.function(call, input_signature=self.specs, autograph=False)
        if xla_batch_sizes:
            sizes = compiled.check_sizes(xla_batch_sizes, self.specs)
            answer = compiled.by_size(self._answer, sizes, self.specs, no_number(contract))
            self._answer = tf.function(answer, input_signature=self.specs, autograph=False)

    def functions(self) -> dict[str, Callable]:
        """Dict of signature name to `tf.function`, for `tf.saved_model.save`.

        A model of raw pixels takes them as bytes, as numbers and in files. Whatever another model
        takes, it takes as it was trained: nobody knows how a file would become that.
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
        checked = [
            self._checked(tensor, spec, declared)
            for tensor, spec, declared in zip(
                tensors, self.specs, self.contract.tensors, strict=True
            )
        ]
        return self._answer(*checked)

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
            tensor = tf.debugging.check_numerics(tensor, declared.expected)
        if not self.reject or not declared.bounded:
            return tensor
        low, high = declared.range
        lowest, highest = tf.reduce_min(tensor), tf.reduce_max(tensor)
        margin = TOLERANCE * (high - low) if tensor.dtype.is_floating else 0
        suits = encoded_images.require(
            (lowest >= tf.cast(low - margin, tensor.dtype))
            & (highest <= tf.cast(high + margin, tensor.dtype)),
            f"{declared.expected}, received values from",
            lowest,
            "to",
            highest,
        )
        with tf.control_dependencies([suits]):
            return tf.identity(tensor)


def _check_names(names):
    """Rejects names of inputs that TensorFlow rejects or changes, in some of its loaders only."""
    wrong = [name for name in names if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)]
    if wrong or len(set(names)) < len(names):
        raise ValueError(
            "model: expected inputs with different names of letters, digits and '_', which a "
            f"signature can have, received {wrong or names}. Build the backbone with such names."
        )
