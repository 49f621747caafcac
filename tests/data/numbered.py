"""Examples that say their own number, and training pipelines of them."""

import numpy as np
import tensorflow as tf

from s2d_tf import data

COUNT, BATCH, EPOCHS = 84, 8, 3
STEPS = COUNT // BATCH
AUGMENTED = {"augmentation": "mirror_shift", "padding": "reflect", "max_shift": 3}
GROWING = {"resolutions": (0.5, 0.75), "resolution_milestones": (0.2, 0.5)}


def examples(count=COUNT, channels=1):
    images = np.random.RandomState(5).randint(0, 256, size=[count, 8, 8, channels])
    return images.astype(np.uint8), np.arange(count) % 7


def train(images=None, labels=None, **options):
    images, labels = (
        given if given is not None else own
        for given, own in zip((images, labels), examples(), strict=True)
    )
    options = {"batch_size": BATCH, "seed": 11, "epochs": EPOCHS, "with_index": True} | options
    return data.train_pipeline(images, labels, **options)


def numpy(dataset):
    return list(dataset.as_numpy_iterator())


def batches(*arrays, **options):
    return numpy(train(*arrays, **options))


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, a, b)
