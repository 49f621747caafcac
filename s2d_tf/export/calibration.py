"""Training images that set the ranges of a network in int8."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from s2d_tf import data
from s2d_tf._types import PathLike

if TYPE_CHECKING:
    from s2d_tf.zoo import Opened

COUNT = 512


def calibration_images(
    opened: Opened, folder: PathLike | None = None, data_dir: PathLike | None = None
) -> np.ndarray:
    """A fixed random choice of training images, for `save_onnx(precision="int8")`.

    Args:
        opened: of `storage.open_model`.
        folder: a folder of images; `None` takes the dataset that the model was trained on.
        data_dir: TFDS folder of that dataset.

    Returns:
        uint8 `[images, height, width, channels]`.

    Raises:
        ValueError: the model was trained on a folder, and none is given.

    Example:

    >>> opened = storage.open_model("wrn_10_2_s2.s2d.digits")
    >>> export.calibration_images(opened).shape
    (160, 8, 8, 1)
    """
    if folder:
        images = data.load_images(folder, opened.predictor.image_shape)
    elif opened.recipe.own_data is None:
        images, _ = data.load_arrays(opened.recipe.source_dataset, "train", data_dir)
    else:
        raise ValueError(
            f"calibration: expected the folder of the training images of {opened.name}, received "
            "none. Pass it."
        )
    chosen = np.random.default_rng(0).permutation(len(images))[:COUNT]
    return images[np.sort(chosen)]
