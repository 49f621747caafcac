"""Backbones: functional Keras models from normalized inputs to features, no head."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.backbones.densenet_bc import densenet_bc
from s2d_tf.backbones.fast_resnet import fast_resnet
from s2d_tf.backbones.wide_resnet import wide_resnet

__all__ = ["densenet_bc", "fast_resnet", "wide_resnet"]
