"""Inputs and a network that the tests of several models share."""

import functools

import keras
import numpy as np

from s2d_tf import models

CLASSES = 3
IMAGES = np.random.default_rng(0).integers(0, 256, [12, 8, 8, 1]).astype(np.uint8)
LABELS = np.arange(12) % CLASSES
PAIRS = np.stack([IMAGES, IMAGES[::-1]], axis=1)
PAIR_LABELS = np.stack([LABELS, LABELS[::-1]], axis=1)


def backbone(channels=1, seed=1):
    images = keras.Input([8, 8, channels])
    initializer = keras.initializers.GlorotUniform(seed=seed)
    x = keras.layers.Dense(6, "tanh", kernel_initializer=initializer)(
        keras.layers.Flatten()(images)
    )
    return keras.Model(images, x)


def compiled(num_heads=1, kind=models.Classifier, **kwargs):
    kwargs = {"mean": [128.0], "stddev": [64.0], "seed": 0, **kwargs}
    model = kind(backbone(num_heads), CLASSES, num_heads=num_heads, **kwargs)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), run_eagerly=True)
    return model


s2d = functools.partial(compiled, kind=models.S2DClassifier)
