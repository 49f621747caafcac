"""The metrics of finished runs, read from their directories without TensorFlow."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

from s2d_tf import files, zoo
from s2d_tf._types import PathLike
from s2d_tf.evaluation import names, views
from s2d_tf.zoo.layout import METRICS


@dataclasses.dataclass(frozen=True)
class Result(zoo.Run):
    """One evaluated run, or a view of it: a `zoo.Run` with what was measured.

    Attributes:
        metrics: the flat dict of `evaluate_run`.

    Example:

    >>> (result,) = studies.collect(["run"])
    >>> result.variant, "digits/nll" in result.metrics
    ('s2d', True)
    """

    metrics: dict = dataclasses.field(default_factory=dict)

    @property
    def variant(self) -> str:
        """The method, with the number of members where it is not the usual 5: `ensemble_10`."""
        members = None if self.recipe.draws == "point" else self.recipe.num_members
        return names.variant(self.recipe.method, members)

    @property
    def title(self) -> str:
        """The method's name for people."""
        size = self.variant.removeprefix(self.recipe.method).lstrip("_")
        return f"{self.recipe.title} of {size}" if size else self.recipe.title

    @property
    def missing_data(self) -> list[str]:
        """Datasets that were not on the machine when this run was evaluated."""
        parts = (key.split("/") for key in self.metrics)
        return [part[1] for part in parts if part[0] == "data" and part[-1] == "missing"]


def collect(directories: Iterable[PathLike]) -> list[Result]:
    """The results of runs, of their members and of the views (`views`) that were evaluated.

    The same weights are never counted twice, whether a directory is named twice or a single run is
    also a member of an ensemble. Plain files are passed over: `runs/*` may hold logs too.

    Args:
        directories: run directories: each the `--workdir` of `s2d train`, after `s2d evaluate`.

    Returns:
        A `Result` for each network, ensemble and view.

    Raises:
        FileNotFoundError: a run was not evaluated yet.

    Example:

    >>> [result.title for result in studies.collect(["run"])]
    ['S2D Individual']
    """
    found: dict[Any, Result] = {}
    paths = [pathlib.Path(directory) for directory in directories]
    for directory in [path for path in paths if not path.is_file()] or paths:
        run = zoo.Run.open(directory)
        if not (run.directory / METRICS).is_file():
            raise FileNotFoundError(
                f"{run.directory}: expected an evaluated run, received one without {METRICS}. "
                f"Run `s2d evaluate {run.directory}` first."
            )
        evaluated = [d for d in views.own_member_directories(run) if (d / METRICS).is_file()]
        runs = [run, *map(zoo.Run.open, evaluated)]
        for part in [*runs, *(view for each in runs for view in views.held(each))]:
            result = Result(**vars(part), metrics=files.read_json(part.directory / METRICS))
            identity = result.metrics.get("run/weights", part.directory.resolve())
            found.setdefault(identity, result)
    return list(found.values())


def public(metrics: dict[str, Any]) -> dict[str, Any]:
    """The metrics without what concerns only the machine that measured them: its folders."""
    return {
        key: "not available" if key.endswith("/missing") else value
        for key, value in metrics.items()
        if not (key.startswith("data/") and key.endswith("/folder"))
    }


def by_variant(results: list[Result]) -> dict[str, list[Result]]:
    """`{method or method_size: [Result]}`, seeds in order, methods in the order of all tables."""

    def place(result):
        method = result.recipe.method  # One that is not known comes last.
        return (*names.METHODS, method).index(method), result.variant, result.seed

    grouped: dict[str, list[Result]] = {}
    for result in sorted(results, key=place):
        grouped.setdefault(result.variant, []).append(result)
    return grouped


def by_title(results: list[Result]) -> dict[str, list[dict]]:
    """`{title: [metrics of each seed]}` in the order of all tables."""
    return {part[0].title: [r.metrics for r in part] for part in by_variant(results).values()}


def repeated(results: list[Result]) -> list[Result]:
    """The results of methods with at least two seeds: one has no spread and claims nothing."""
    return [r for part in by_variant(results).values() if len(part) > 1 for r in part]


def ood_names(results: list[Result]) -> list[str]:
    """The OOD datasets that were evaluated: first the recipe's, in its order, then others."""
    measured = [key.split("/")[0] for r in results for key in r.metrics if "/auroc/" in key]
    first = [name for name in results[0].recipe.out_of_distribution if name in measured]
    return list(dict.fromkeys([*first, *measured]))


def groups(results: list[Result]) -> dict[tuple[str, str], list[Result]]:
    """Results that may be compared: `{(architecture, training dataset): [Result]}`.

    Folders of other images that have the same name are told apart by their fingerprints.
    """
    kinds: dict[str, set] = {}
    grouped: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        kinds.setdefault(result.recipe.dataset, set()).add(result.recipe.own_data)
    for result in results:
        recipe = result.recipe
        name = recipe.dataset
        if len(kinds[name]) > 1 and recipe.own_data:
            name = f"{name} ({recipe.own_data.fingerprint[:8]})"
        grouped.setdefault((recipe.architecture, name), []).append(result)
    return grouped
