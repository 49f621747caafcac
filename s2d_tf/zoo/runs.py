"""A run directory: the names of its files, what was trained, and how far it is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import re
from typing import TYPE_CHECKING

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.zoo.recipe_fields import REMOVED, Recipe

if TYPE_CHECKING:
    from s2d_tf.models import Predictor
    from s2d_tf.posthoc import Step

# The files and folders, in the order in which they appear.
RECIPE = "recipe.json"
LOCK = ".lock"
LOG = "log.csv"
CHECKPOINTS = "checkpoints"
SNAPSHOT = "snapshots/epoch_{:03d}.safetensors"
"""Weights after an epoch, from which other methods start."""
TENSORBOARD = "tensorboard"
TEACHER_LOGITS = "teacher_logits.npy"
SUMMARY = "summary.json"
FINAL = "final.safetensors"
METRICS = "metrics.json"
INTERVALS = "intervals.json"
PREDICTIONS = "predictions"
STEPS = "steps"
"""Fitted post-hoc steps, such as `0_knn.safetensors`, in the order in which they stack."""
MEMBER = "member_"
"""How the names of an ensemble's member runs begin."""
VIEW = "as_"
"""How the names of the folders begin in which a run's weights are evaluated as another method."""

_STEP = re.compile(r"(\d{1,2})_[A-Za-z0-9_]+\.safetensors")


class RunError(UserError):
    """A run directory is missing, unfinished, in use, or another recipe's."""


def is_run(where: PathLike) -> bool:
    """Whether a path is that of a run directory.

    Example:

    >>> zoo.is_run("run"), zoo.is_run("pictures")
    (True, False)
    """
    return (pathlib.Path(where) / RECIPE).is_file()


@dataclasses.dataclass(frozen=True)
class Run:
    """A run directory and what its `recipe.json` says.

    Attributes:
        directory: where it is.
        recipe: what is trained, and how.
        seed: of the weights and the order of the data.
        split: what it is trained on.
        data: the folder of images where own data was last found, which may move.

    Example:

    >>> run = zoo.Run.open("run")
    >>> run.finished, run.seed, run.recipe.method
    (True, 0, 's2d')
    """

    directory: pathlib.Path
    recipe: Recipe
    seed: int
    split: str = "train"
    data: str | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", pathlib.Path(self.directory))

    def write(self) -> Run:
        """Writes the `recipe.json`, over one that may be there; makes the directory."""
        place = {} if self.data is None else {"data": str(self.data)}
        facts = {"name": self.recipe.name, "seed": self.seed, "split": self.split, **place}
        files.write_json(self.directory / RECIPE, facts | {"recipe": self.recipe.to_dict()})
        return self

    @classmethod
    def open(cls, directory: PathLike) -> Run:
        """Opens an existing run directory."""
        path = pathlib.Path(directory) / RECIPE
        RunError.unless(
            is_run(directory),
            f"{directory}: expected a run directory with a {RECIPE}, received none. Pass the "
            "--workdir of `s2d train`.",
        )
        try:
            facts = files.read_json(path)
            seed = files.read_record(int, facts["seed"], "seed")
            split = files.read_record(str, facts["split"], "split")
            recipe = Recipe.from_dict(facts["recipe"])
            return cls(path.parent, recipe, seed, split, facts.get("data"))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RunError(
                f"{path}: expected the record of a run, received an invalid one: "
                f"{str(error).rstrip('.')}. Restore it, or train in another --workdir."
            ) from None

    @property
    def members(self) -> list[Run]:
        """The runs of an ensemble's members."""
        return [Run.open(directory) for directory in self.member_directories]

    @property
    def member_directories(self) -> list[pathlib.Path]:
        """Where an ensemble's members are, or will be."""
        count = self.recipe.num_members if self.recipe.draws == "ensemble" else 0
        return [self.member_directory(i) for i in range(count)]

    def member_directory(self, index: int) -> pathlib.Path:
        return self.home / f"{MEMBER}{index}"

    @property
    def home(self) -> pathlib.Path:
        """Where the weights are: a view has the weights of the run that contains it."""
        parent = self.directory.resolve().parent
        is_view = self.directory.name.startswith(VIEW) and is_run(parent)
        return parent if is_view else self.directory

    @property
    def finished(self) -> bool:
        """Whether the final weights exist (for an ensemble: those of all members)."""
        folders = self.member_directories or [self.home]
        return all((folder / FINAL).is_file() for folder in folders)

    def weights(self, at: float = 1.0) -> pathlib.Path:
        """Path of the final weights, or of the snapshot after a fraction of the epochs."""
        if at == 1.0:
            return self.home / FINAL
        return self.directory / SNAPSHOT.format(snapshot_epoch(self.recipe, at))

    @property
    def steps(self) -> list[str]:
        """Names of the files of its fitted steps, in the order in which they stack."""
        folder = self.directory / STEPS
        names = [p.name for p in folder.glob("*") if not p.name.startswith(files.PARTIAL)]
        places = {int(found[1]): found[0] for found in map(_STEP.fullmatch, names) if found}
        RunError.unless(
            sorted(places) == list(range(len(names))),
            f"{folder}: expected files 0_NAME.safetensors, 1_NAME.safetensors, ..., received "
            f"{sorted(names)[:5]}. Remove the folder and fit the steps again.",
        )
        return [places[index] for index in range(len(names))]

    def predictor(self) -> Predictor:
        """The trained predictor."""
        from s2d_tf.zoo import loading

        return loading.open_run(self).predictor

    @property
    def fingerprint(self) -> str:
        """What identifies this run, so that no other run's checkpoint is used for it."""
        recipe = self.recipe.to_dict()
        for name, value in REMOVED.items():
            if value is not None:  # as version 0.1 wrote it, so that its runs keep theirs
                section, field = name.split(".")
                recipe[section][field] = value
        # Evaluation trains nothing: a set that zoo/datasets got since 0.1 makes no other run.
        named = recipe["out_of_distribution"]
        recipe["out_of_distribution"] = [name for name in named if name != "cifar10"]
        facts = {"seed": self.seed, "split": self.split, "recipe": recipe}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def step_file(index: int, step: Step) -> str:
    """The file of the step at a place in the stack, such as `0_knn.safetensors`."""
    return f"{index}_{step.name or type(step).__name__}.safetensors"


def snapshot_epoch(recipe: Recipe, at: float) -> int:
    """The epoch after which the snapshot at a fraction of the run is taken."""
    return max(1, round(at * recipe.training.epochs))
