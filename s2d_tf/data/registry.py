"""Datasets by name: what is known of each, how its splits are opened, and where its files are.

`register` adds a dataset; everything that takes a name finds it then. Nothing here imports NumPy or
TensorFlow before a dataset is opened.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import pathlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from s2d_tf.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


class MissingDataError(UserError, FileNotFoundError):
    """A dataset or split that is not on this machine; the message says how to get it."""


class ArchiveError(UserError):
    """A published file or one of its members is not what it should be."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """The record of a dataset: what is known before any file of it is opened, and how to open it.

    Attributes:
        name: the name that `load` takes.
        title: the name that tables and figures show.
        splits: number of examples in each split of the official dataset. A copy may have fewer.
        load: a function of (name, split, data_dir) that returns inputs and labels as arrays, or
            "module:function", which is imported on first use.
        image_shape: (height, width, channels) of the uint8 images; () for other inputs.
        num_classes: number of classes; 0 where every label is -1.
        class_names: one name per class, or None where they are not known in advance.
        distance: "near" or "far" for out-of-distribution datasets, "" for others.
        citation: author, title and year.
        terms: what its publishers say of its use, in whole sentences; "" where we did not look.
        fetch: a function of (name, data_dir) that downloads or builds the dataset, or
            "module:function"; None where there is nothing to fetch.
        conditions: what may follow the name and a dot, as in "cifar100_c_generated.fog_3". The
            arrays of a dataset with conditions are not kept in memory.

    Example:

    >>> data.info("digits").image_shape
    (8, 8, 1)
    """

    name: str
    title: str
    splits: Mapping[str, int]
    load: Callable[[str, str, pathlib.Path], tuple] | str
    image_shape: tuple[int, int, int] | tuple[()] = ()
    num_classes: int = 0
    class_names: tuple[str, ...] | None = None
    distance: str = ""
    citation: str = ""
    terms: str = ""
    fetch: Callable[[str, pathlib.Path], Any] | str | None = None
    conditions: tuple[str, ...] = ()


_REGISTRY: dict[str, DatasetInfo] = {}


def register(record: DatasetInfo) -> None:
    """Adds a dataset under its name.

    Example:

    >>> data.register(data.DatasetInfo(
    ...     name="uniform_noise", title="Uniform noise", splits={"test": 5}, distance="far",
    ...     load=lambda name, split, data_dir: (np.zeros([5, 8, 8, 1], np.uint8), [-1] * 5)))
    >>> data.load_arrays("uniform_noise", "test")[0].shape
    (5, 8, 8, 1)
    """
    UserError.unless(
        _REGISTRY.setdefault(record.name, record) == record,
        f"name: expected a name that is not taken, received {record.name!r}. Choose another.",
    )


def names() -> tuple[str, ...]:
    """The names of all datasets.

    Example:

    >>> "cifar100" in data.names()
    True
    """
    return tuple(sorted(_REGISTRY))


def info(name: str) -> DatasetInfo:
    """The record of the dataset `name`.

    Example:

    >>> data.info("cifar100").num_classes
    100
    """
    base, dot, condition = str(name).partition(".")
    record = _REGISTRY.get(base)
    if record is None or (dot and condition not in record.conditions):
        known = [f"{base}.{each}" for each in record.conditions] if record else []
        near = difflib.get_close_matches(str(name), known or names(), n=3) or known or names()
        raise UserError(
            f"dataset: expected one of {', '.join(map(repr, near))}, received {name!r}. See "
            "`data.names()`; `import s2d_tf.trainers.datasets` adds those of the laboratory."
        )
    return dataclasses.replace(record, name=name) if dot else record


def load_arrays(
    name: str, split: str, data_dir: str | os.PathLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Reads one split into memory, in an order that is always the same.

    The arrays stay in memory and are shared by all callers, so they are read-only.

    Args:
        name: one of `names()`; for CIFAR-100-C with a condition: "cifar100_c_generated.fog_3".
        split: "train", "test", "validation" (as published, else a fixed, class-balanced tenth of
            train) or "train_without_validation".
        data_dir: TFDS folder; default: the environment variable TFDS_DATA_DIR, else that of TFDS.

    Returns:
        images uint8 [N, H, W, C], or texts [N], and labels int64 [N], -1 where there is no label.

    Example:

    >>> images, labels = data.load_arrays("digits", "train")
    >>> images.shape
    (160, 8, 8, 1)
    """
    known = splits(name)
    UserError.unless(
        split in known,
        f"split: expected one of {', '.join(known)} of {name!r}, received {split!r}.",
    )
    # Mapped from disk: to keep the maps of 90 conditions would keep their pages in memory.
    read = _read.__wrapped__ if info(name).conditions else _read
    return read(name, split, resolve_data_dir(data_dir))


def load(name: str, split: str, data_dir: str | os.PathLike | None = None) -> tf.data.Dataset:
    """One split as an unbatched `tf.data.Dataset` of (image uint8 [H, W, C] or text, label int64).

    Arguments as in `load_arrays`. To train: `train_pipeline`.

    Example:

    >>> image, label = next(iter(data.load("digits", "test").batch(32)))
    """
    import tensorflow as tf

    from s2d_tf.data.pipelines import with_standard_options

    arrays = load_arrays(name, split, data_dir)
    return with_standard_options(tf.data.Dataset.from_tensor_slices(arrays))


def resolve_data_dir(data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """The dataset folder: `data_dir`, else TFDS_DATA_DIR, else the default of TFDS.

    Example:

    >>> data.resolve_data_dir("datasets").name
    'datasets'
    """
    chosen = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    return pathlib.Path(chosen).expanduser().absolute()


def cache_dir() -> pathlib.Path:
    """The folder of results and copies: S2D_CACHE_DIR, else `s2d_tf` in XDG_CACHE_HOME or ~/.cache.

    Example:

    >>> folder = data.cache_dir() / "predictions"
    """
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "s2d_tf")
    return pathlib.Path(os.environ.get("S2D_CACHE_DIR") or home).expanduser().absolute()


def writable_dir(data_dir: pathlib.Path) -> pathlib.Path:
    """Where prepared copies go: `data_dir`, or a folder of the cache when that is read-only.

    A folder without any write bit is left alone even when the user (root) could write to it.

    Example:

    >>> data.writable_dir(pathlib.Path("pictures")).name
    'pictures'
    """
    existing = next(each for each in (data_dir, *data_dir.absolute().parents) if each.exists())
    is_writable = existing.stat().st_mode & 0o222 and os.access(existing, os.W_OK)
    return data_dir if is_writable else cache_dir() / "prepared"


def fetch(name: str, data_dir: str | os.PathLike | None = None) -> None:
    """Downloads or builds a dataset in `data_dir` if it is not there yet.

    Example:

    >>> data.fetch("digits")                               # comes with scikit-learn: does nothing
    """
    record = info(name)
    if record.fetch:
        _function(record.fetch)(name, resolve_data_dir(data_dir))


def splits(name: str) -> tuple[str, ...]:
    """The splits of a dataset, with those that are derived from "train".

    Example:

    >>> data.splits("digits")
    ('train', 'test', 'validation', 'train_without_validation')
    """
    own = tuple(info(name).splits)
    derives = "train" in own and "validation" not in own
    return (*own, "validation", "train_without_validation") if derives else own


@functools.cache
def _read(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np  # Here: names need no NumPy.

    from s2d_tf.data import hashing

    record = info(name)
    if split in record.splits:
        inputs, labels = map(np.asarray, _function(record.load)(name, split, data_dir))
    else:
        inputs, labels = _read(name, "train", data_dir)
        rows = (row.tobytes() for row in inputs)
        held = hashing.smallest_hashes(rows, labels, hashing.VALIDATION_FRACTION)
        chosen = held if split == "validation" else ~held
        inputs, labels = inputs[chosen], labels[chosen]
    UserError.unless(
        labels.shape == inputs.shape[:1],
        f"{name}: expected one label for each example of {split!r}, received inputs "
        f"{list(inputs.shape)} and labels {list(labels.shape)}. Correct its `load`.",
    )
    inputs, labels = inputs.view(), labels.astype(np.int64)
    for array in (inputs, labels):
        array.setflags(write=False)
    return inputs, labels


def _function(function):
    return pkgutil.resolve_name(function) if isinstance(function, str) else function


_CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
_CIFAR100_CLASSES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy",
    "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal",
    "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar",
    "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman",
    "worm",
)  # fmt: skip

_TEN = tuple("0123456789")
_CIFAR_SPLITS = {"train": 50_000, "test": 10_000}
_CIFAR = "Krizhevsky, Learning multiple layers of features from tiny images, 2009"
_CIFAR_TERMS = (
    "The page of the CIFAR datasets asks to cite the report by Krizhevsky (2009) and states no "
    "license."
)
_TINY = "Le and Yang, Tiny ImageNet visual recognition challenge, 2015"
_ODIN = "Liang, Li and Srikant, Enhancing the reliability of OOD image detection, ICLR 2018"
_ODIN_LSUN = f"Yu et al., LSUN: construction of a large-scale image dataset, 2015; {_ODIN}"
_DIGITS = "Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998"
_DIGITS_TERMS = (
    "The digits are scikit-learn's copy of the UCI dataset Optical Recognition of Handwritten "
    "Digits, licensed under CC BY 4.0."
)

_PREPARED = functools.partial(
    DatasetInfo, image_shape=(32, 32, 3), load="s2d_tf.data.builders:load",
    fetch="s2d_tf.data.builders:open_builder",
)  # fmt: skip
_ARCHIVE = functools.partial(_PREPARED, splits={"test": 10_000})
_EMBEDDED = functools.partial(DatasetInfo, image_shape=(8, 8, 1), load="s2d_tf.data.digits:load")

for _record in (
    _PREPARED(name="cifar100", title="CIFAR-100", splits=_CIFAR_SPLITS, num_classes=100,
              class_names=_CIFAR100_CLASSES, citation=_CIFAR, terms=_CIFAR_TERMS),
    _PREPARED(name="cifar10", title="CIFAR-10", splits=_CIFAR_SPLITS, num_classes=10,
              class_names=_CIFAR10_CLASSES, distance="near", citation=_CIFAR, terms=_CIFAR_TERMS),
    _PREPARED(name="svhn_cropped", title="SVHN", splits={"train": 73_257, "test": 26_032},
              num_classes=10, class_names=_TEN, distance="far",
              citation="Netzer et al., Reading digits in natural images with unsupervised feature "
              "learning, 2011"),
    _ARCHIVE(name="tiny_imagenet_resize", title="Tiny ImageNet (resize)", num_classes=200,
             distance="near", citation=_TINY),
    _ARCHIVE(name="tiny_imagenet_crop", title="Tiny ImageNet (crop)", num_classes=200,
             distance="far", citation=_TINY),
    _ARCHIVE(name="odin_lsun_resize", title="LSUN (resize)", distance="far", citation=_ODIN_LSUN),
    _ARCHIVE(name="odin_lsun_crop", title="LSUN (crop)", distance="far", citation=_ODIN_LSUN),
    _ARCHIVE(name="odin_tiny_imagenet_resize", title="Tiny ImageNet (ODIN's resize)",
             distance="near", citation=f"{_TINY}; {_ODIN}"),
    _ARCHIVE(name="odin_tiny_imagenet_crop", title="Tiny ImageNet (ODIN's crop)",
             distance="far", citation=f"{_TINY}; {_ODIN}"),
    _EMBEDDED(name="digits", title="Digits 0 to 7", splits={"train": 160, "test": 1_283},
              num_classes=8, class_names=_TEN[:8], citation=_DIGITS, terms=_DIGITS_TERMS),
    _EMBEDDED(name="digits_heldout", title="Digits 8 and 9", splits={"test": 354}, num_classes=2,
              class_names=_TEN[8:], distance="near", citation=_DIGITS, terms=_DIGITS_TERMS),
    _EMBEDDED(name="digits_photos", title="Photographs", splits={"test": 1_000}, distance="far",
              citation="Photographs china.jpg and flower.jpg (CC BY) of scikit-learn's samples"),
):  # fmt: skip
    register(_record)
