"""What a model can be evaluated on: a registered dataset, a folder, arrays, a `tf.data.Dataset`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import data as datasets
from s2d_tf import models
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.models import inputs as inputs_lib

# Arrays are one batch: their labels are all checked before the first forward pass.
_ALL = 2**62


@dataclasses.dataclass(frozen=True)
class Source:
    """Examples under a name, read from the beginning as often as needed.

    Attributes:
        name: begins the keys of the metrics.
        split: of a registered dataset or a folder; "" of others.
        data: what `models.inputs.examples` takes.
        contract: what the model takes.
        batch_size: of the batches of an unbatched `tf.data.Dataset`.
    """

    name: str
    split: str
    data: Any
    contract: Any
    batch_size: int = 256

    def batches(self) -> Iterator[tuple]:
        """A pass over `(inputs, labels)`: NumPy arrays, or lists and dicts of them, and int64 class
        numbers, -1 where there is none."""
        size = self.batch_size if isinstance(self.data, tf.data.Dataset) else _ALL
        for inputs, labels in inputs_lib.examples(self.data, self.contract, size):
            inputs = keras.tree.map_structure(np.asarray, inputs)
            count = len(keras.tree.flatten(inputs)[0])
            yield inputs, inputs_lib.class_numbers(labels, count, f"{self.name}, labels")

    def content(self) -> datasets.Content:
        """The hashes and labels of all examples."""
        content = datasets.Content()
        for inputs, labels in self.batches():
            content.update(inputs, labels)
        return content


def open_source(
    model: models.Predictor,
    data: Any,
    name: str | None = None,
    split: str = "test",
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    labeled: bool = False,
) -> Source:
    """Makes a `Source` of anything that can be evaluated.

    Args:
        model: what the data is for.
        data: the name of a registered dataset; `(x, y)`; inputs alone, for out-of-distribution
            data; or a `tf.data.Dataset` of `(x, y)` or of inputs, batched or not. As in Keras
            several inputs are a dict or a list, and a tuple is `(x, y)`. Labels are class numbers
            or one-hot rows. A `pathlib.Path` is a folder of images, see `data.open_folder`.
        name: of the data; a registered dataset has its own.
        split: of a registered dataset or a folder.
        data_dir: TFDS folder.
        batch_size: size of the batches of an unbatched `tf.data.Dataset`.
        labeled: whether a folder has a subfolder for each class; else all images in it are taken.
    """
    if isinstance(data, Source):
        return data
    shape = model.image_shape
    if isinstance(data, str):
        name, data = name or data, datasets.load_arrays(data, split, data_dir)
    elif isinstance(data, os.PathLike):
        if not shape or None in shape:
            raise UserError(
                f"{name}: expected a model of images of a fixed size for the folder {data}, "
                f"received one of the image shape {shape}. Pass arrays or a tf.data.Dataset."
            )
        if labeled:
            known = tuple(model.class_names) if model.class_names else None
            folder = datasets.open_folder(data, image_shape=shape, class_names=known)
            data = folder.load_arrays(split)
        else:
            data, split = datasets.load_images(data, shape), ""
    else:
        split = ""
        if hasattr(data, "__next__"):
            raise UserError(
                f"{name}: expected data that can be read more than once, received "
                f"{type(data).__name__}. Pass arrays or a tf.data.Dataset."
            )
    if not isinstance(name, str) or not name or "/" in name:
        raise UserError(
            f"name: expected a text without '/', since keys are 'name/metric', received {name!r}."
            " Choose another."
        )
    return Source(name, split, data, model.contract, batch_size)
