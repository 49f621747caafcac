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
from s2d_tf.zoo.recipes import Recipe

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from s2d_tf.models import Predictor


class RunError(UserError):
    """A run directory is missing, unfinished, in use, or another recipe's."""


def is_run(where: PathLike) -> bool:
    """Whether a path is that of a run directory.

    Example:

    >>> storage.is_run("run"), storage.is_run("pictures")
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

    >>> run = storage.Run.open("run")
    >>> run.finished, run.seed, run.recipe.method
    (True, 0, 's2d')
    """

    directory: pathlib.Path
    recipe: Recipe
    seed: int
    split: str = "train"
    data: str | None = dataclasses.field(default=None, compare=False)

    @classmethod
    def create(
        cls,
        directory: PathLike,
        recipe: Recipe,
        seed: int,
        split: str = "train",
        data: str | None = None,
    ) -> Run:
        """Makes the directory, or opens it if it holds the very same run."""
        run = cls(pathlib.Path(directory), recipe, seed, split, data)
        path = run.directory / RECIPE
        if path.exists():
            held = cls.open(directory)
            if held != run and not held.grows_to(run):
                others = ", other numbers" if held.recipe.name == recipe.name else ""
                raise RunError(
                    f"{directory}: expected a new folder or the same run, received another run "
                    f"({held.recipe.name}, seed {held.seed}, split {held.split}{others}). Choose "
                    "another --workdir; nothing was changed."
                )
            if held == run and data in (None, held.data):
                return held
        place = {} if data is None else {"data": str(data)}
        files.write_json(
            path,
            {"name": recipe.name, "seed": seed, "split": split, **place}
            | {"recipe": recipe.to_dict()},
        )
        return run

    def grows_to(self, other: Run) -> bool:
        """Whether another run is this ensemble with more members."""
        members = other.recipe.num_members
        grown = dataclasses.replace(self, recipe=self.recipe.replace(num_members=members))
        larger = members > self.recipe.num_members
        return self.recipe.draws == "ensemble" and larger and grown == other

    @classmethod
    def open(cls, directory: PathLike) -> Run:
        """Opens an existing run directory."""
        directory = pathlib.Path(directory)
        path = directory / RECIPE
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
                f"{path}: expected the record of a run, received a damaged one ({error}). Restore "
                "it, or train in another --workdir."
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
        from s2d_tf.zoo import opening

        return opening.open_run(self).predictor

    @property
    def fingerprint(self) -> str:
        """What identifies this run, so that no other run's checkpoint is used for it."""
        facts = {"seed": self.seed, "split": self.split, "recipe": self.recipe.to_dict()}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def lock(self) -> AbstractContextManager[None]:
        """Holds the directory for this process; a second one is rejected."""
        return files.locked(self.directory / layout.LOCK, RunError)


def snapshot_epoch(recipe: Recipe, at: float) -> int:
    """The epoch after which the snapshot at a fraction of the run is taken."""
    return max(1, round(at * recipe.training.epochs))


def summary(run: Run) -> str:
    """What was trained, how long it took and where it is, for a person.

    Example:

    >>> print(storage.summary(storage.Run.open("run")))
    wrn_10_2_s2.s2d.digits, seed 0: 1 parameters, 0.0 minutes; loss 0.1
      run/final.safetensors
    """
    lines = []
    trained = [d for d in run.member_directories if (d / FINAL).is_file()]
    for part in [Run.open(directory) for directory in trained] or [run]:
        facts = files.read_json(part.directory / layout.SUMMARY)
        logs = ", ".join(f"{k} {v:.4g}" for k, v in facts["last_epoch"].items())
        lines.append(
            f"{facts['name']}, seed {facts['seed']}: {facts['parameters']:,} parameters, "
            f"{facts['training_seconds'] / 60:.1f} minutes; {logs}\n  {part.directory / FINAL}"
        )
    if run.member_directories and not run.finished:
        lines.append(
            f"{len(trained)} of {run.recipe.num_members} members are trained; --member=I trains "
            "another."
        )
    return "\n".join(lines)
