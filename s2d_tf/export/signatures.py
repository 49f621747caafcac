"""The signatures of an exported model."""

import tensorflow as tf

from s2d_tf.engines.freezing import freeze
from s2d_tf.export import encoded_images
from s2d_tf.export.answers import answer_function


class Signatures(tf.Module):
    """A predictor's signatures, with all that they need and nothing else.

    Neither Keras nor this package is needed to run what `tf.saved_model.save` makes of it.

    Args:
        model: a `models.Predictor`.
        answer: function from float32 images to the dict of answers; default: all uncertainties.
        portable: whether other runtimes than TensorFlow read it.
    """

    def __init__(self, model, answer=None, portable=False):
        super().__init__()
        self.image_shape = tuple(model.image_shape)
        images = tf.TensorSpec([None, *self.image_shape], tf.float32, name="images")
        call, self.weights = freeze(answer or answer_function(model), images, portable)
        # One body that all signatures call, so that the network is in the file once.
        self._answer = tf.function(call, input_signature=[images], autograph=False)

    def functions(self):
        """Dict of signature name to `tf.function`, for `tf.saved_model.save`."""
        shape = [None, *self.image_shape]
        specs = {
            "serving_default": tf.TensorSpec(shape, tf.uint8, name="images"),
            "serve_float": tf.TensorSpec(shape, tf.float32, name="images"),
        }
        if self.image_shape[-1] in encoded_images.CHANNELS:
            specs["serve_encoded"] = tf.TensorSpec([None], tf.string, name="image_bytes")
        return {
            name: tf.function(getattr(self, name), input_signature=[spec], autograph=False)
            for name, spec in specs.items()
        }

    def serving_default(self, images):
        """Raw pixels as bytes."""
        return self._answer(tf.cast(self._checked(images), tf.float32))

    def serve_float(self, images):
        """Raw pixels as numbers in [0, 255]; NaN and infinity fail the request."""
        return self._answer(
            tf.debugging.check_numerics(
                self._checked(images), "images: expected pixels in [0, 255]"
            )
        )

    def serve_encoded(self, image_bytes):
        """JPEG or PNG files of any size."""
        return self._answer(encoded_images.decode_batch(image_bytes, self.image_shape))

    def _checked(self, images):
        # Servers do not compare a request with the signature's shape, and a convolutional network
        # would answer for images of any size.
        return tf.ensure_shape(images, [None, *self.image_shape])
