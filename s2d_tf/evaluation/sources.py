"""What a model can be evaluated on: a registered dataset, arrays or a `tf.data.Dataset`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf import data as datasets
from s2d_tf._types import PathLike


@dataclasses.dataclass(frozen=True)
class Source:
    """Examples under a name, read from the beginning as often as needed.

    Attributes:
        name: begins the keys of the metrics.
        split: of a registered dataset; "" of others.
        batches: function that begins a pass over `(inputs, labels)`: NumPy arrays, or lists and
            dicts of them, and int64 class numbers, -1 where there is none. Each batch has the size
            that the data came in.
        class_names: one for each class, where they are known.
    """

    name: str
    split: str
    batches: Callable[[], Iterator[tuple]]
    class_names: tuple[str, ...] | None = None

    def content(self) -> datasets.Content:
        """The hashes and labels of all examples."""
        content = datasets.Content()
        for inputs, labels in self.batches():
            content.update(inputs, labels)
        return content

    def take(self, indices: Iterable[int]) -> list:
        """The inputs with these indices, in that order."""
        wanted, start = set(map(int, indices)), 0
        found: dict[int, Any] = {}
        for inputs, labels in self.batches():
            here = range(start, start + len(labels))
            found |= {
                i: tf.nest.map_structure(lambda array, at=i - start: array[at], inputs)
                for i in wanted.intersection(here)
            }
            start = here.stop
        return [found[int(i)] for i in indices]


def open_source(
    data: Any,
    name: str | None = None,
    split: str = "test",
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    image_shape: tuple[int | None, ...] | None = None,
    class_names: Sequence[str] | None = None,
    labeled: bool = False,
) -> Source:
    """Makes a `Source` of anything that can be evaluated.

    Args:
        data: the name of a registered dataset; `(x, y)`; inputs alone, for out-of-distribution
            data; or a `tf.data.Dataset` of `(x, y)` or of inputs, batched or not. As in Keras
            several inputs are a dict or a list, and a tuple is `(x, y)`. Labels are class numbers
            or one-hot rows. A `pathlib.Path` is a folder of images, see `data.open_folder`.
        name: of the data; a registered dataset has its own.
        split: of a registered dataset or a folder.
        data_dir: TFDS folder.
        batch_size: size of the batches of an unbatched `tf.data.Dataset`.
        image_shape: of the model's images, if it takes images; tells whether a dataset without
            labels is batched, and what the images of a folder become.
        class_names: of the model, one for each of its classes.
        labeled: whether a folder has a subfolder for each class; else all images in it are taken.
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, str):
        arrays = datasets.load_arrays(data, split, data_dir)
        return Source(name or data, split, lambda: iter([arrays]), datasets.info(data).class_names)
    name = checked_name(name or "")
    if isinstance(data, os.PathLike) and (not image_shape or None in image_shape):
        raise ValueError(
            f"{name}: expected a model of images of a fixed size for the folder {data}, received "
            f"one of the image shape {image_shape}. Pass arrays or a tf.data.Dataset."
        )
    if isinstance(data, os.PathLike) and labeled:
        shape: Any = image_shape  # Of three sizes, as was checked.
        known = tuple(class_names) if class_names else None
        folder = datasets.open_folder(data, image_shape=shape, class_names=known)
        arrays = folder.load_arrays(split)
        return Source(name, split, lambda: iter([arrays]), folder.class_names)
    if isinstance(data, os.PathLike):
        data = datasets.load_images(data, image_shape)
    if isinstance(data, tf.data.Dataset):
        return Source(name, "", _passes(data, name, batch_size, image_shape))
    inputs, labels = _pair(data, name)
    inputs = _arrays(inputs)
    sizes = {len(array) for array in tf.nest.flatten(inputs)}
    if len(sizes) != 1 or sizes == {0}:
        raise ValueError(
            f"{name}: expected arrays of the same length, at least 1, received lengths "
            f"{sorted(sizes)}. Pass one row of each for every example."
        )
    (count,) = sizes
    arrays = inputs, class_numbers(labels, count, name)
    return Source(name, "", lambda: iter([arrays]))


def facts_of(predictor: Any) -> dict:
    """What `open_source` can use of a model."""
    return {name: getattr(predictor, name, None) for name in ("image_shape", "class_names")}


def checked_name(name: str) -> str:
    """The name, if keys of metrics can begin with it."""
    if not isinstance(name, str) or not name or "/" in name:
        raise ValueError(
            f"name: expected a text without '/', since keys are 'name/metric', received {name!r}."
            " Choose another."
        )
    return name


def class_numbers(labels: Any, count: int, name: str) -> np.ndarray:
    """Labels as int64 `[count]`: class numbers as they are, of one-hot rows the place of the one.

    `None` is -1 for every example.
    """
    if labels is None:
        return np.full([count], -1, np.int64)
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] > 1:
        if not (np.isin(labels, (0, 1)).all() and (labels.sum(axis=-1) == 1).all()):
            raise ValueError(
                f"{name}, labels: expected class numbers or one-hot rows, received other rows of "
                f"{labels.shape[1]} numbers. Choose a class for each, such as labels.argmax(-1)."
            )
        labels = labels.argmax(axis=-1)
    labels = labels.reshape(-1) if labels.shape[1:] == (1,) else labels
    whole = np.issubdtype(labels.dtype, np.integer)
    if labels.shape != (count,) or not (whole or (labels == np.round(labels)).all()):
        raise ValueError(
            f"{name}, labels: expected {count} class numbers, one for each example, received "
            f"{labels.dtype} of shape {labels.shape}. Pass whole numbers, as many as examples."
        )
    return labels.astype(np.int64)


def _pair(data, name):
    if not isinstance(data, tuple):
        return data, None
    if len(data) not in (1, 2):
        raise ValueError(
            f"{name}: expected (x, y), received a tuple of {len(data)}. Pass several inputs as a "
            "list or a dict; sample weights do not count in an evaluation."
        )
    return data if len(data) == 2 else (*data, None)


def _arrays(inputs):
    """Inputs as NumPy arrays; a list is several inputs if its elements are arrays."""
    if isinstance(inputs, dict):
        return {key: _arrays(part) for key, part in inputs.items()}
    several = isinstance(inputs, (list, tuple)) and all(np.ndim(part) for part in inputs)
    if several and all(hasattr(part, "shape") for part in inputs):
        return [_arrays(part) for part in inputs]
    return np.asarray(inputs)


def _passes(dataset, name, batch_size, image_shape):
    if _is_unbatched(dataset.element_spec, image_shape):
        dataset = dataset.batch(batch_size)

    def batches():
        for element in dataset.as_numpy_iterator():
            inputs, labels = _pair(element, name)
            inputs = list(inputs) if isinstance(inputs, tuple) else inputs
            count = len(tf.nest.flatten(inputs)[0])
            yield inputs, class_numbers(labels, count, name)

    return batches


def _is_unbatched(spec, image_shape):
    inputs, *labels = spec if isinstance(spec, tuple) else (spec,)
    rank = getattr(getattr(inputs, "shape", None), "rank", None)
    if image_shape and rank is not None:
        return rank == len(image_shape)
    return bool(labels) and labels[0].shape.rank == 0
