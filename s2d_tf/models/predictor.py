"""What every model answers: member predictions, and the uncertainties that follow from them."""

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf.models.inputs import check_images


class Predictor(keras.Model):
    """A source of member predictions: the one interface that evaluation and export see.

    A subclass sets `kind`, `num_classes`, `image_shape` and `num_members` and defines
    `member_logits`. The answers never depend on the batch that an image came in.
    """

    kind = "categorical"
    """What a member predicts: "categorical" (its logits are those of class probabilities) or
    "dirichlet" (its logits are log-concentrations)."""

    num_members = 1

    def member_logits(self, images):
        """Member predictions `[members, batch, classes]` for `[batch, height, width, channels]`.

        Deterministic, and traceable in a `tf.function`.
        """
        raise NotImplementedError

    def predict_members(self, x, batch_size=256):
        """The kind of prediction and the stack of all members' logits.

        Args:
            x: images `[n, height, width, channels]`, raw pixels in [0, 255], as an array; or a
                `tf.data.Dataset` of images or of `(images, ...)`, batched or not.
            batch_size: how many images to hold at once; it does not change the answer.

        Returns:
            `(kind, logits)`, `logits` a float32 array `[members, n, classes]`.
        """
        batches = list(self._map_batches(self.member_logits, x, batch_size))
        return self.kind, np.concatenate(batches, axis=1)

    def predict_uncertainty(self, x, batch_size=256):
        """What the model sees, how sure it is, and where its doubt comes from.

        Args:
            x, batch_size: as for `predict_members`.

        Returns:
            Dict of arrays: `probs` `[n, classes]` and, for each image, `confidence` (the largest
            probability), `total`, `data` and `knowledge` uncertainty in nats.
        """
        answers = list(self._map_batches(self._uncertainty, x, batch_size))
        return {key: np.concatenate([answer[key] for answer in answers]) for key in answers[0]}

    def _uncertainty(self, images):
        return uncertainty.from_members(self.kind, self.member_logits(images))

    def _map_batches(self, function, x, batch_size):
        """Streams `function` over the images, so that memory does not grow with their number."""
        compiled = self._compiled(function.__name__)
        seen = 0
        for images in image_batches(x, self.image_shape, batch_size):
            seen += len(images)
            yield keras.tree.map_structure(lambda tensor: tensor.numpy(), compiled(images))
        if not seen:
            raise ValueError("Expected at least one image, received none.")

    def _compiled(self, name):
        # In the instance and unseen by Keras' tracking, so that it goes when the model goes.
        functions = self.__dict__.setdefault("_compiled_functions", {})
        if name not in functions:
            signature = [tf.TensorSpec([None, *self.image_shape], tf.float32)]
            functions[name] = tf.function(getattr(self, name), input_signature=signature)
        return functions[name]


def image_batches(x, image_shape, batch_size):
    """Batches of float32 images from an array or a dataset."""
    if isinstance(x, tf.data.Dataset):
        spec = x.element_spec
        only_images = not isinstance(spec, (tuple, list))
        rank = (spec if only_images else spec[0]).shape.rank
        dataset = x if only_images else x.map(lambda images, *_: images)
        dataset = dataset.batch(batch_size) if rank == len(image_shape) else dataset
    else:
        x = np.asarray(x)
        dataset = (x[i : i + batch_size] for i in range(0, len(x), batch_size))
    for images in dataset:
        images = tf.convert_to_tensor(images)
        check_images(images, image_shape)
        yield tf.cast(images, tf.float32)
