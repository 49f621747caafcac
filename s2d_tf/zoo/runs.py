"""A run directory: what was trained, how far it is, and the predictor that came out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from typing import TYPE_CHECKING

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.zoo import layout
from s2d_tf.zoo.layout import FINAL, RECIPE
from s2d_tf.zoo.recipe_fields import REMOVED, Recipe

if TYPE_CHECKING:
    from s2d_tf.models import Predictor


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
        if not is_run(directory):
            raise RunError(
                f"{directory}: expected a run directory with a {RECIPE}, received none. Pass the "
                "--workdir of `s2d train`."
            )
        try:
            facts = files.read_json(path)
            recipe, seed, split = (facts[key] for key in ("recipe", "seed", "split"))
            if not (isinstance(recipe, dict) and isinstance(seed, int) and isinstance(split, str)):
                raise ValueError("expected a recipe, a seed and a split, received other types")
            data = str(facts["data"]) if "data" in facts else None
            return cls(directory, Recipe.from_dict(recipe), seed, split, data)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"{path}: expected the record of a run, received another: {str(error).rstrip('.')}."
                " Restore it, or train in another --workdir."
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

    @property
    def home(self) -> pathlib.Path:
        """Where the weights are: a view has the weights of the run that contains it."""
        parent = self.directory.resolve().parent
        is_view = self.directory.name.startswith(layout.VIEW) and is_run(parent)
        return parent if is_view else self.directory

    def member_directory(self, index: int) -> pathlib.Path:
        return self.home / f"{layout.MEMBER}{index}"

    @property
    def finished(self) -> bool:
        """Whether the final weights exist (for an ensemble: those of all members)."""
        if self.recipe.draws != "ensemble":
            return (self.home / FINAL).is_file()
        return all((directory / FINAL).is_file() for directory in self.member_directories)

    def weights(self, at: float = 1.0) -> pathlib.Path:
        """Path of the final weights, or of the snapshot after a fraction of the epochs."""
        if at == 1.0:
            return self.home / FINAL
        return self.directory / layout.SNAPSHOT.format(snapshot_epoch(self.recipe, at))

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
        facts = {"seed": self.seed, "split": self.split, "recipe": recipe}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def snapshot_epoch(recipe: Recipe, at: float) -> int:
    """The epoch after which the snapshot at a fraction of the run is taken."""
    return max(1, round(at * recipe.training.epochs))
