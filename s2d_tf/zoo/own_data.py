"""Recipes for images of one's own: what has to be known of a folder, and its images again."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from absl import logging

from s2d_tf import data
from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes as registry
from s2d_tf.zoo.recipe_fields import OwnData, Recipe

CHUNK_IMAGES = 256


def from_folder(name: str, path: str | os.PathLike, image_size: int | None = None) -> Recipe:
    """The recipe of `architecture.method` on a folder of images, of which it reads all.

    Args:
        name: `architecture.method`.
        path: the folder; see `data.open_folder`.
        image_size: height and width; `None` chooses.
    """
    registry.check_network(name)
    folder = data.open_folder(path, image_size)
    counts = {split: len(files) for split, files in folder.files.items()}
    shape = "x".join(map(str, folder.image_shape))
    logging.info("reading %s as %s: %s", folder.path, shape, counts)
    for split in ("test", "validation"):
        folder.load_arrays(split)  # A damaged image is an error now and not after the training.
    images, labels = folder.load_arrays("train")
    return registry.resolve_own(name, folder.name, describe(images, labels, folder))


def describe(images: np.ndarray, labels: np.ndarray, folder: data.ImageFolder) -> OwnData:
    """What a recipe must know of the training images of a `data.ImageFolder`."""
    mean, stddev = statistics(images)
    return OwnData(
        image_shape=folder.image_shape,
        class_names=folder.class_names,
        mean=mean,
        stddev=stddev,
        images=len(images),
        fingerprint=data.fingerprint(images, labels),
    )


def statistics(images: np.ndarray) -> tuple[tuple, tuple]:
    """Mean and standard deviation of each channel of raw pixels, to one decimal.

    A channel with less than one gray level of variation has a deviation of 1.
    """
    sums = np.zeros([2, images.shape[-1]])
    for start in range(0, len(images), CHUNK_IMAGES):
        pixels = images[start : start + CHUNK_IMAGES].astype(np.float64)
        sums += [pixels.sum(axis=(0, 1, 2)), (pixels**2).sum(axis=(0, 1, 2))]
    mean, square = sums / (images.size / images.shape[-1])
    stddev = np.sqrt(np.maximum(square - mean**2, 1.0))
    return tuple(mean.round(1).tolist()), tuple(stddev.round(1).tolist())


def load_arrays(
    recipe: Recipe, split: str, data_dir: PathLike | None = None, folder: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a split of a recipe's data.

    Args:
        recipe: the recipe.
        split: see `data.load_arrays`.
        data_dir: TFDS folder, of registered data.
        folder: where own images are.
    """
    if recipe.own_data is None:
        return data.load_arrays(recipe.source_dataset, split, data_dir)
    return open_images(recipe, folder).load_arrays(split)


def open_images(recipe: Recipe, folder: PathLike | None) -> data.ImageFolder:
    """The folder of own images of a recipe, with its image shape and classes."""
    own: Any = recipe.own_data
    if folder is None:
        raise data.MissingDataError(
            f"{recipe.name}: expected the folder of its images, received none. Pass --data=FOLDER."
        )
    return data.open_folder(folder, image_shape=own.image_shape, class_names=own.class_names)
