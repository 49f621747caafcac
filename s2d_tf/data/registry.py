"""The names of the datasets and one small record of facts about each."""

import dataclasses
import difflib
from collections.abc import Mapping

from s2d_tf.trainers.datasets import clinc150, corruption_names

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
CIFAR100_CLASSES = (
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

_CIFAR = "Krizhevsky, Learning multiple layers of features from tiny images, 2009"
_SVHN = "Netzer et al., Reading digits in natural images with unsupervised feature learning, 2011"
_TINY = "Le and Yang, Tiny ImageNet visual recognition challenge, 2015"
_ODIN = "Liang, Li and Srikant, Enhancing the reliability of OOD image detection, ICLR 2018"
_LSUN = "Yu et al., LSUN: construction of a large-scale image dataset, 2015; " + _ODIN
_DIGITS = "Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998"
_CORRUPTED = "Hendrycks and Dietterich, Benchmarking neural network robustness, ICLR 2019"
_OPENOOD = "Zhang et al., OpenOOD v1.5: enhanced benchmark for OOD detection, 2023"
_MNIST = "LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998"
_DTD = "Cimpoi et al., Describing textures in the wild, CVPR 2014"
_PLACES = "Zhou et al., Places: a 10 million image database for scene recognition, TPAMI 2017"
_CLINC = "Larson et al., An evaluation dataset for intent classification, EMNLP 2019 (CC BY 3.0)"
_PHOTOS = "Photographs china.jpg and flower.jpg (CC BY) of scikit-learn's sample images"


@dataclasses.dataclass(frozen=True)
class DatasetInfo:
    """What is known of a dataset before any file of it is opened; `data.info` returns it.

    Attributes:
        name: the name that `load` takes.
        image_shape: (height, width, channels) of the uint8 images; () for texts.
        num_classes: number of classes of the labels; 0 where every label is -1.
        class_names: one name per class, or None where they are not known in advance.
        splits: images in each split of the official dataset. A folder may hold fewer splits.
        role: what the dataset is for in the experiments.
        source: where the images come from: "tfds", "tiny_imagenet", "odin", "openood", "corrupted",
            "clinc150" or "embedded".
        citation: author, title and year.
        conditions: what may follow the name and a dot, as in "cifar100_c_generated.fog_3".

    Example:

    >>> record = data.info("digits")
    >>> record.image_shape, record.num_classes
    ((8, 8, 1), 8)
    """

    name: str
    image_shape: tuple[int, int, int] | tuple[()]
    num_classes: int
    class_names: tuple[str, ...] | None
    splits: Mapping[str, int]
    role: str
    source: str
    citation: str
    conditions: tuple[str, ...] = ()


_RGB = (32, 32, 3)
_FULL = {"train": 50_000, "test": 10_000}
_TEN = tuple("0123456789")
_BOTH = "in distribution: training and test"
_OOD = "out of distribution"
_ALL = (
    DatasetInfo("cifar100", _RGB, 100, CIFAR100_CLASSES, _FULL, _BOTH, "tfds", _CIFAR),
    DatasetInfo("cifar10", _RGB, 10, CIFAR10_CLASSES, _FULL,
                "in distribution or near out of distribution", "tfds", _CIFAR),
    DatasetInfo("svhn_cropped", _RGB, 10, _TEN, {"train": 73_257, "test": 26_032},
                _OOD, "tfds", _SVHN),
    *(DatasetInfo(f"tiny_imagenet_{variant}", _RGB, 200, None, {"train": 100_000, "test": 10_000},
                  _OOD, "tiny_imagenet", _TINY) for variant in ("resize", "crop")),
    *(DatasetInfo(f"odin_{name}_{variant}", _RGB, 0, None, {"test": 10_000}, _OOD, "odin", citation)
      for variant in ("resize", "crop")
      for name, citation in (("lsun", _LSUN), ("tiny_imagenet", f"{_TINY}; {_ODIN}"))),
    DatasetInfo("digits", (8, 8, 1), 8, _TEN[:8], {"train": 160, "test": 1_283},
                _BOTH, "embedded", _DIGITS),
    DatasetInfo("digits_heldout", (8, 8, 1), 2, _TEN[8:], {"test": 354},
                f"near {_OOD}", "embedded", _DIGITS),
    DatasetInfo("digits_photos", (8, 8, 1), 0, None, {"test": 1_000},
                f"far {_OOD}", "embedded", _PHOTOS),
    *(DatasetInfo(name, _RGB, 100, CIFAR100_CLASSES, {"test": 10_000},
                  f"corrupted test images, {kind}", "corrupted", f"{_CIFAR}; {_CORRUPTED}",
                  conditions)
      for name, kind, conditions in (
          ("cifar100_c_generated", "generated", corruption_names.GENERATED),
          ("cifar100_c", "as published", corruption_names.PUBLISHED),
      )),
    *(DatasetInfo(f"openood_{name}", _RGB, 0, None, {"test": size}, f"{distance} {_OOD}",
                  "openood", f"{citation}; {_OPENOOD}")
      for name, size, distance, citation in (
          ("tiny_imagenet", 6_526, "near", _TINY),
          ("mnist", 70_000, "far", _MNIST),
          ("textures", 5_640, "far", _DTD),
          ("places365", 33_773, "far", _PLACES),
      )),
    DatasetInfo("clinc150", (), 150, clinc150.CLASSES,
                {"train": 15_000, "validation": 3_000, "test": 4_500},
                _BOTH, "clinc150", _CLINC),
    DatasetInfo(clinc150.OUT_OF_SCOPE, (), 0, None,
                {"train": 100, "validation": 100, "test": 1_000},
                f"near {_OOD}", "clinc150", _CLINC),
)  # fmt: skip
_REGISTRY = {record.name: record for record in _ALL}


def names() -> tuple[str, ...]:
    """The names of all datasets.

    Example:

    >>> "cifar100" in data.names()
    True
    """
    return tuple(sorted(_REGISTRY))


def conditions(name: str) -> tuple[str, ...]:
    """The full names of all conditions of a dataset, such as "cifar100_c_generated.fog_3".

    Args:
        name: one of `names()`; those without conditions give an empty tuple.

    Example:

    >>> data.conditions("cifar100_c_generated")[:2]
    ('cifar100_c_generated.gaussian_noise_1', 'cifar100_c_generated.gaussian_noise_2')
    """
    return tuple(f"{name}.{condition}" for condition in info(name).conditions)


def info(name: str) -> DatasetInfo:
    """The record of the dataset `name`; an unknown one is a ValueError with the near names.

    Example:

    >>> data.info("cifar100").num_classes
    100
    """
    base, dot, condition = str(name).partition(".")
    record = _REGISTRY.get(base)
    if record is None or (dot and not record.conditions):
        raise ValueError(
            f"dataset: expected one of {', '.join(names())}, received "
            f"{name!r}.{_hint(name, names()) or ' Choose one of these.'}"
        )
    if not dot:
        return record
    if condition not in record.conditions:
        reason = corruption_names.NOT_GENERATED.get(condition.rpartition("_")[0])
        if reason:
            raise ValueError(
                f"{base}: expected a condition that can be generated, received {condition!r}. It "
                f"is not available: {reason}."
            )
        raise ValueError(
            f"{base}: expected a corruption and a severity such as {record.conditions[0]!r}, "
            "received "
            f"{condition!r}.{_hint(condition, record.conditions) or ' See data.conditions.'}"
        )
    return dataclasses.replace(record, name=name, conditions=())


def _hint(name, known):
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    return f" Did you mean {' or '.join(near)}?" if near else ""
