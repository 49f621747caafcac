"""A small residual network that trains in minutes on a CPU.

The network of the public CIFAR-100 speedruns (`AIDDA-Institute/CIFAR-100-speedrun`, after
`KellerJordan/cifar10-airbench`): few, wide layers that keep a processor busy, and an identity-like
start that needs few epochs.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from s2d_tf._types import Array, ArrayLike, Shape, Tensor
from s2d_tf.backbones.batch_norm import BatchNormalization
from s2d_tf.backbones.blocks import layer_seed
from s2d_tf.layers import Dropout

GROUP_FILTERS = (64, 256, 768)
# Each group: the kernel size of its first convolution; kernel sizes and inner filters of its pair.
GROUPS = ((3, (1, 1), 64), (3, (3, 1), 192), (2, (3, 3), 512))

# Short training: the moving averages follow quickly.
BATCH_NORM_MOMENTUM = 0.6
BATCH_NORM_EPSILON = 1e-5

# Keeps the first logits small.
FEATURE_SCALE = 1.25 / 9

# Below this, three halvings would leave no pixel: borders are padded instead of cut.
SMALLEST_CROPPED = 14

# The side of the patches that the stem whitens.
PATCH = 2

# Added to the eigenvalues of the patches, so that directions without variance are not blown up.
EIGENVALUE_FLOOR = 5e-4


@keras.saving.register_keras_serializable(package="s2d_tf")
class IdentityInitializer(keras.initializers.HeUniform):
    """He's uniform initializer with an identity: filter `i` starts by copying input channel `i`."""

    def __call__(self, shape: Shape, dtype: Any = None) -> Tensor:
        height, width, channels, filters = shape
        kernel = super().__call__(shape, dtype)
        eye = keras.ops.eye(channels, filters, dtype=kernel.dtype)
        rows = keras.ops.one_hot(height // 2, height, dtype=kernel.dtype)[:, None, None, None]
        columns = keras.ops.one_hot(width // 2, width, dtype=kernel.dtype)[:, None, None]
        is_copy = keras.ops.arange(filters) < channels
        return keras.ops.where(is_copy, rows * columns * eye, kernel)


def fast_resnet(
    input_shape: Shape = (32, 32, 3),
    width: float = 1.0,
    dropout: float = 0.0,
    synchronized_batch_norm: bool = False,
    seed: int | None = None,
    name: str = "fast_resnet",
) -> keras.Model:
    """Builds the fast residual network without its head.

    A whitening stem (see `PatchWhitening`: fitted by training or `adapt`, then frozen) and three
    groups of a convolution, 2x2 max pooling and a residual pair; batch norm and SiLU after each
    convolution; global maximum plus mean.

    Args:
        input_shape: (height, width, channels) of a normalized float image; height and width may be
            None for free sizes of at least 14 pixels.
        width: what the channels 64, 256, 768 of the three groups are multiplied by.
        dropout: rate between the two convolutions of each residual pair.
        synchronized_batch_norm: whether batch statistics are those of all replicas.
        seed: an integer that fixes initial weights and dropout masks, whatever was built before.
        name: the name of the model.

    Returns:
        A functional `keras.Model`: images `[batch, *input_shape]` -> features
        `[batch, 768 * width]`.

    Example:

    >>> backbone = backbones.fast_resnet(input_shape=(14, 14, 1), width=0.25)
    >>> backbone.output_shape
    (None, 192)
    """
    small = any(size is not None and size < SMALLEST_CROPPED for size in input_shape[:2])
    border = "same" if small else "valid"

    def conv_norm_silu(x, filters, kernel_size, scope, pool=False):
        x = keras.layers.Conv2D(
            round(filters * width),
            kernel_size,
            padding=border if kernel_size == 2 else "same",
            use_bias=False,
            kernel_initializer=IdentityInitializer(seed=layer_seed(seed, f"{scope}_conv")),
            name=f"{scope}_conv",
        )(x)
        if pool:
            x = keras.layers.MaxPooling2D(2, padding=border, name=f"{scope}_pool")(x)
        x = BatchNormalization(
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            scale=False,
            synchronized=synchronized_batch_norm,
            name=f"{scope}_bn",
        )(x)
        return keras.layers.Activation("silu", name=f"{scope}_silu")(x)

    images = keras.Input(input_shape, name="images")
    x = PatchWhitening(padding=border, name="stem")(images)
    x = keras.layers.Activation("silu", name="stem_silu")(x)
    for number, filters in enumerate(GROUP_FILTERS, start=1):
        first_kernel, pair, inner = GROUPS[number - 1]
        scope = f"group{number}"
        x = conv_norm_silu(x, filters, first_kernel, scope, pool=True)
        residual = conv_norm_silu(x, inner, pair[0], f"{scope}_pair1")
        if dropout:
            drop_name = f"{scope}_dropout"
            residual = Dropout(dropout, seed=layer_seed(seed, drop_name), name=drop_name)(residual)
        residual = conv_norm_silu(residual, filters, pair[1], f"{scope}_pair2")
        x = keras.layers.Add(name=f"{scope}_add")([x, residual])
    largest = keras.layers.GlobalMaxPooling2D(name="largest")(x)
    mean = keras.layers.GlobalAveragePooling2D(name="mean")(x)
    pooled = keras.layers.Add(name="pooled")([largest, mean])
    features = keras.layers.Rescaling(FEATURE_SCALE, name="features")(pooled)
    return keras.Model(images, features, name=name)


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
    >>> from s2d_tf.backbones.fast_resnet import PatchWhitening
    >>> stem = PatchWhitening()
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
    # The largest variance first.
    filters = (vectors / np.sqrt(values + EIGENVALUE_FLOOR))[:, ::-1]
    filters = np.concatenate([filters, -filters], axis=1)
    return filters.reshape(PATCH, PATCH, channels, -1).astype("float32")
