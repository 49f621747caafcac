"""What a recipe is made of, and what its values may be. Needs no TensorFlow."""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import Any

from s2d_tf import _types, data, files
from s2d_tf._types import Array, PathLike, Shape
from s2d_tf.errors import UserError

SECTIONS = ("data", "training", "model")
MAX_SIDE = 1024
OBJECTIVES = {
    "soft_cross_entropy": ("SoftCrossEntropy", "temperature", "scale_student"),
    "dirichlet_negative_log_likelihood": ("DirichletNegativeLogLikelihood", "temperature"),
    "dirichlet_kl_divergence": ("DirichletKLDivergence", "reverse"),
    "dirichlet_fisher_distance": ("DirichletFisherDistance", "teacher_kind", "temperature"),
    "normal_kl_divergence": ("NormalKLDivergence",),
}
"""What students learn by: a class of `losses`, and the numbers of the recipe that it takes."""


class RecipeError(UserError):
    """A recipe's name or file is wrong."""


@dataclasses.dataclass(frozen=True)
class DataRecipe:
    """What the network sees; `mean` and `stddev` are of raw pixels, one number for each channel.

    Example:

    >>> recipes.DataRecipe(mean=(127.0,), stddev=(64.0,), batch_size=64).augmentation
    'none'
    """

    mean: tuple
    stddev: tuple
    batch_size: int
    augmentation: str = "none"
    padding: str = "mean"
    max_shift: int = 4
    resolutions: tuple = ()
    resolution_milestones: tuple = ()


@dataclasses.dataclass(frozen=True)
class TrainingRecipe:
    """How the weights move. Warm-up and milestones: epochs, or below 1 fractions of them all.

    With the optimizer "muon", `learning_rate` is that of convolution kernels, and `sgd_ratio` times
    that the rate of all else; `momentum` is of all else. With "adam" there is no `momentum`.

    Example:

    >>> recipes.TrainingRecipe(epochs=200, learning_rate=0.1).schedule
    'steps'
    """

    epochs: int
    learning_rate: float
    schedule: str = "steps"
    milestones: tuple = ()
    factor: float = 0.1
    warmup: float = 0.0
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0
    optimizer: str = "sgd"
    sgd_ratio: float = 6.0
    muon_momentum: float = 0.6


@dataclasses.dataclass(frozen=True)
class ModelRecipe:
    """Numbers of the networks and their losses; each method uses those that concern it.

    A `distribution_weight` adds a soft cross-entropy to a student's objective, which it weighs.

    Example:

    >>> recipes.ModelRecipe(temperature=1.0).num_samples
    5
    """

    dropout: float = 0.0
    num_samples: int = 5
    noise_stddev: float | tuple = 0.1
    temperature: float = 1.5
    student_weight: float = 1.28e-4
    proxy: str = "newton"
    student_loss: str = "kl"
    reverse: bool = False
    num_draws: int = 50
    initial_scale: float = 0.5
    teacher_kind: str = "dirichlet"
    scale_student: bool = True
    distribution_weight: float | None = None


@dataclasses.dataclass(frozen=True)
class Start:
    """Begin from another method's weights, at a fraction of its epochs.

    Attributes:
        method: whose weights.
        at: after which fraction of its epochs, above 0 and at most 1.

    Example:

    >>> recipes.Start("s2d", at=0.5)
    Start(method='s2d', at=0.5)
    """

    method: str
    at: float = 1.0


@dataclasses.dataclass(frozen=True)
class OwnData:
    """What a recipe must know of images that are in no registry, to be used without them.

    Where the images are is no part of it.

    Attributes:
        image_shape: height, width and channels.
        class_names: one for each class.
        mean, stddev: of the training images' raw pixels, one number for each channel.
        images: number of training images.
        fingerprint: their hash.

    Example:

    >>> own = recipes.OwnData((8, 8, 1), ("cat", "dog"), (127.0,), (64.0,), 8, "0" * 64)
    >>> own.class_names
    ('cat', 'dog')
    """

    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    stddev: tuple[float, ...]
    images: int
    fingerprint: str


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All that defines a run, resolved: written to every run directory as `recipe.json`.

    Example:

    >>> recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    >>> recipe.method, recipe.num_classes
    ('s2d', 8)
    >>> recipe.replace(training={"epochs": 1}).training.epochs
    1
    """

    architecture: str
    method: str
    dataset: str
    title: str
    backbone: str
    arguments: dict
    source_dataset: str
    num_classes: int
    data: DataRecipe
    training: TrainingRecipe
    model: ModelRecipe
    learns: str | None = None
    heads: int = 1
    draws: str = "point"
    num_members: int = 1
    member: str | None = None
    teachers: str | None = None
    objective: str | None = None
    start: Start | None = None
    parameters: int | None = None
    out_of_distribution: tuple = dataclasses.field(default=(), compare=False)  # trains nothing
    detection_score: str | None = None
    own_data: OwnData | None = None

    @property
    def name(self) -> str:
        return f"{self.architecture}.{self.method}.{self.dataset}"

    @property
    def train_arguments(self) -> str:
        """What `s2d train` takes to train this recipe."""
        return f"{self.architecture}.{self.method} --data=FOLDER" if self.own_data else self.name

    @property
    def image_shape(self) -> Shape:
        """Height, width and channels of the images."""
        return (self.own_data or data.info(self.source_dataset)).image_shape

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """One name for each class, where they are known."""
        return (self.own_data or data.info(self.source_dataset)).class_names

    def load_arrays(
        self, split: str, data_dir: PathLike | None = None, folder: PathLike | None = None
    ) -> tuple[Array, Array]:
        """Images and labels of a split of the recipe's data.

        Args:
            split: see `data.load_arrays`.
            data_dir: TFDS folder, of registered data.
            folder: where own images are.
        """
        own = self.own_data
        if own is None:
            return data.load_arrays(self.source_dataset, split, data_dir)
        if folder is None:
            raise data.MissingDataError(
                f"{self.name}: expected the folder of its images, received none. Pass "
                "--data=FOLDER."
            )
        opened = data.open_folder(folder, image_shape=own.image_shape, class_names=own.class_names)
        return opened.load_arrays(split)

    def sibling(self, method: str) -> Recipe:
        """The recipe of another method on the same network and data."""
        from s2d_tf.zoo import recipes

        network = f"{self.architecture}.{method}"
        if self.own_data is not None:
            return recipes.resolve_own(network, self.dataset, self.own_data)
        return recipes.resolve(f"{network}.{self.dataset}")

    @property
    def member_recipe(self) -> Recipe:
        """What each member of a deep ensemble trains: the ensemble's own numbers."""
        numbers = {name: getattr(self, name) for name in ("arguments", "data", "training", "model")}
        return self.sibling(self.member or "").replace(**numbers)

    def replace(self, **changes: Any) -> Recipe:
        """A copy with other values; `training=`, `model=` and `data=` take dicts of changes."""
        for section in SECTIONS:
            if isinstance(changes.get(section), dict):
                changes[section] = dataclasses.replace(getattr(self, section), **changes[section])
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        if self.own_data is None:  # As before there was any: hashes of recipes stay.
            del values["own_data"]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Recipe:
        """Reads what `to_dict` wrote, checking every name, type and range."""
        kept = _without_removed(values) if isinstance(values, dict) else values
        recipe = files.read_record(cls, kept, "recipe", RecipeError)
        for name, (holds, expected) in RULES.items():
            value = operator.attrgetter(name)(recipe)
            each = value if isinstance(value, tuple) else (value,)
            is_missing = value == () and name in NEVER_EMPTY
            RecipeError.unless(
                value is None or (not is_missing and all(map(holds, each))),
                f"{name}: expected {expected}, received {value!r}. Correct the value.",
            )
        return recipe


def _one_of(names):
    return lambda value: value in names, f"one of {', '.join(names)}"


def _number(holds, expected):
    kinds = (int, float)
    return lambda v: isinstance(v, kinds) and math.isfinite(v) and holds(v), expected


_COUNT = _number(lambda value: value >= 1, "at least 1")
_POSITIVE = _number(lambda value: value > 0, "above 0")
_NOT_NEGATIVE = _number(lambda value: value >= 0, "not below 0")
_INNER_FRACTION = _number(lambda value: 0 < value < 1, "in (0, 1)")
_FRACTION = _number(lambda value: 0 <= value < 1, "in [0, 1)")

NEVER_EMPTY = ("data.mean", "data.stddev", "model.noise_stddev")

RULES = {
    "own_data": (
        lambda value: (
            len(value.image_shape) == 3
            and all(1 <= size <= MAX_SIDE for size in value.image_shape)
            and len(value.mean) == len(value.stddev) == value.image_shape[-1]
            and len(set(value.class_names)) == len(value.class_names)
        ),
        f"three sizes from 1 to {MAX_SIDE}, statistics of each channel, and different class names",
    ),
    "num_classes": _number(lambda value: value >= 2, "at least 2"),
    "num_members": _COUNT,
    "heads": _COUNT,
    "learns": _one_of(("labels", "self", "teachers")),
    "draws": _one_of(("point", "dropout", "swag", "ensemble")),
    "objective": _one_of(OBJECTIVES),
    "detection_score": _one_of(("confidence", "total", "data", "knowledge")),
    "data.mean": _number(math.isfinite, "one number for each channel"),
    "data.stddev": _POSITIVE,
    "data.batch_size": _COUNT,
    "data.augmentation": _one_of(("none", *_types.AUGMENTATIONS)),
    "data.padding": _one_of(_types.PADDINGS),
    "data.max_shift": _NOT_NEGATIVE,
    "data.resolutions": _INNER_FRACTION,
    "data.resolution_milestones": _INNER_FRACTION,
    "training.epochs": _COUNT,
    "training.learning_rate": _POSITIVE,
    "training.schedule": _one_of(("steps", "cosine", "linear", "constant")),
    "training.milestones": _POSITIVE,
    "training.factor": _POSITIVE,
    "training.warmup": _NOT_NEGATIVE,
    "training.momentum": _FRACTION,
    "training.optimizer": _one_of(("sgd", "muon", "adam")),
    "training.sgd_ratio": _POSITIVE,
    "training.muon_momentum": _FRACTION,
    "training.weight_decay": _NOT_NEGATIVE,
    "model.dropout": _FRACTION,
    "model.num_samples": _COUNT,
    "model.noise_stddev": _NOT_NEGATIVE,
    "model.temperature": _POSITIVE,
    "model.student_weight": _NOT_NEGATIVE,
    "model.proxy": _one_of(_types.FIT_METHODS),
    "model.student_loss": _one_of(_types.STUDENT_LOSSES),
    "model.num_draws": _COUNT,
    "model.initial_scale": _POSITIVE,
    "model.teacher_kind": _one_of(_types.TEACHER_KINDS),
    "model.distribution_weight": _NOT_NEGATIVE,
    "start": (lambda value: 0 < value.at <= 1, "at in (0, 1]"),
}
"""What a value, or each value of a tuple, must be."""

REMOVED: dict[str, Any] = {
    "data.held_out": 0,
    "data.label_noise": None,
    "model.student_draws": "independent",
    "model.concentration_temperature": 1.0,
    "model.detach_scale": False,
    "stands_on": None,
}
"""Fields of version 0.1, with the values that had no effect; `None` was not written."""


def _without_removed(values):
    """The values without fields of version 0.1 that are gone, if they had no effect."""
    kept = {k: dict(v) if isinstance(v, dict) else v for k, v in values.items()}
    for name, default in REMOVED.items():
        section, _, field = name.rpartition(".")
        table = kept.get(section) if section else kept
        value = table.pop(field, default) if isinstance(table, dict) else default
        RecipeError.unless(
            value == default,
            f"{name}: expected a recipe of this version, received {value!r:.80}, which s2d_tf "
            "0.2 removed. Install s2d_tf 0.1 to use it.",
        )
    return kept
