"""A first convolution that decorrelates image patches, fitted to images and then frozen."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from s2d_tf._types import Array, ArrayLike, Shape

# Added to the eigenvalues, so that directions without variance are not blown up.
EIGENVALUE_FLOOR = 5e-4

PATCH = 2


@keras.saving.register_keras_serializable(package="s2d_tf")
class PatchWhitening(keras.layers.Conv2D):
    """A frozen 2x2 convolution whose outputs are uncorrelated with unit variance.

    Its filters are the eigenvectors of the covariance of all 2x2 patches, each divided by the
    square root of its eigenvalue, and their negatives: an activation that cuts one sign off loses
    nothing. A fresh layer holds zeros and is not `fitted`; `adapt` or a weights file fits it.

    Args:
        **kwargs: `name` and other arguments of a Keras layer.

    Example:

    >>> images = np.random.default_rng(0).normal(size=(64, 8, 8, 3)).astype("float32")
    >>> stem = backbones.whitening.PatchWhitening()
    >>> stem.adapt(images)
    >>> stem(images).shape
    TensorShape([64, 7, 7, 24])
    """

    def __init__(self, **kwargs: Any) -> None:
        # The convolution's own arguments follow from the images' channels, in `build`.
        own = {"filters", "kernel_size", "use_bias", "kernel_initializer", "trainable"}
        kwargs = {key: kwargs[key] for key in kwargs if key not in own}
        super().__init__(1, PATCH, use_bias=False, kernel_initializer="zeros", **kwargs)
        self.trainable = False

    def build(self, input_shape: Shape) -> None:
        self.filters = 2 * PATCH * PATCH * input_shape[-1]
        super().build(input_shape)

    @property
    def fitted(self) -> bool:
        """Whether the filters are set; a network without them sees nothing."""
        return self.built and bool(np.any(keras.ops.convert_to_numpy(self.kernel)))

    def adapt(self, images: ArrayLike) -> None:
        """Fits the filters.

        Args:
            images: array `[n, height, width, channels]`, normalized as the layer will see them; a
                few thousand are plenty.
        """
        images = np.asarray(images, "float64")
        if not self.built:
            self.build((None, *images.shape[1:]))
        self.kernel.assign(whitening_filters(images))


def whitening_filters(images: Array) -> Array:
    """Whitening filters `[2, 2, channels, 8 * channels]` of images `[n, h, w, channels]`."""
    channels = images.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(images, (PATCH, PATCH), axis=(1, 2))
    # [n, rows, columns, channels, PATCH, PATCH] -> one patch a row, in a kernel's order
    patches = windows[:, ::PATCH, ::PATCH].transpose(0, 1, 2, 4, 5, 3)
    patches = patches.reshape(-1, PATCH * PATCH * channels)
    values, vectors = np.linalg.eigh(np.cov(patches, rowvar=False))
    filters = vectors / np.sqrt(values + EIGENVALUE_FLOOR)
    filters = filters[:, ::-1]  # the largest variance first
    filters = np.concatenate([filters, -filters], axis=1)
    return filters.reshape(PATCH, PATCH, channels, -1).astype("float32")
