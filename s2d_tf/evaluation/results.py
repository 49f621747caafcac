"""The numbers of finished runs, read from their directories without TensorFlow."""

import dataclasses
import pathlib

from s2d_tf import files, recipes, storage
from s2d_tf.evaluation import views
from s2d_tf.paper import published
from s2d_tf.storage import is_run  # noqa: F401
from s2d_tf.storage.layout import INTERVALS, METRICS


@dataclasses.dataclass(frozen=True)
class Result:
    """One evaluated run."""

    directory: pathlib.Path
    recipe: recipes.Recipe
    seed: int
    split: str
    metrics: dict
    intervals: dict

    @property
    def variant(self):
        """The method, with the number of members where it is not the usual 5: `ensemble_10`."""
        members = None if self.recipe.draws == "point" else self.recipe.num_members
        return published.variant(self.recipe.method, members)

    @property
    def title(self):
        """The method's name for people."""
        size = self.variant.removeprefix(self.recipe.method).lstrip("_")
        return f"{self.recipe.title} of {size}" if size else self.recipe.title

    @property
    def trained_on(self):
        return self.recipe.dataset

    @property
    def missing_data(self):
        """Data sets that were not on the machine when this run was evaluated."""
        parts = (key.split("/") for key in self.metrics)
        return [part[1] for part in parts if part[0] == "data" and part[-1] == "missing"]


def collect(directories):
    """The results of runs, of their members and of the views (`views`) that were evaluated.

    The same weights are never counted twice, whether a directory is named twice or a single run is
    also a member of an ensemble. Plain files are passed over: `runs/*` may hold logs too.
    """
    found, seen = [], set()
    paths = [pathlib.Path(directory) for directory in directories]
    for directory in [p for p in paths if not p.is_file()] or paths:
        run = storage.Run.open(directory)
        if not (run.directory / METRICS).is_file():
            raise FileNotFoundError(
                f"{run.directory} has no {METRICS}: run `s2d evaluate {run.directory}` first."
            )
        members = _evaluated_members(run)
        parts = [run, *members, *(view for part in [run, *members] for view in views.held(part))]
        for part in parts:
            result = _read(part)
            identity = result.metrics.get("run/weights", part.directory.resolve())
            if identity not in seen:
                seen.add(identity)
                found.append(result)
    return found


def public(metrics):
    """The metrics without what concerns only the machine that measured them: its folders."""
    return {
        key: "not at hand" if key.endswith("/missing") else value for key, value in metrics.items()
    }


def by_variant(results):
    """`{method or method_size: [Result]}`, seeds in order, in the order of the paper's rows."""
    order = list(dict.fromkeys(published.METHODS.values()))

    def place(result):
        method = result.recipe.method
        return order.index(method) if method in order else len(order), result.variant, result.seed

    grouped = {}
    for result in sorted(results, key=place):
        grouped.setdefault(result.variant, []).append(result)
    return grouped


def groups(results):
    """Results that may be compared: `{(architecture, trained_on): [Result]}`."""
    grouped = {}
    for result in results:
        grouped.setdefault((result.recipe.architecture, result.trained_on), []).append(result)
    return grouped


def for_claims(results):
    """`{method: [metrics]}` as `claims.check_all` takes it.

    Ensemble distillation appears once more under its temperature, `end_t2`.
    """
    found = {name: [r.metrics for r in part] for name, part in by_variant(results).items()}
    for result in results:
        if result.recipe.method == "end":
            temperature = f"end_t{result.recipe.model.temperature:g}"
            found.setdefault(temperature, []).append(result.metrics)
    return found


def _evaluated_members(run):
    held = [d for d in views.own_member_directories(run) if (d / METRICS).is_file()]
    return [storage.Run.open(directory) for directory in held]


def _read(run):
    intervals = run.directory / INTERVALS
    return Result(
        directory=run.directory,
        recipe=run.recipe,
        seed=run.seed,
        split=run.split,
        metrics=files.read_json(run.directory / METRICS),
        intervals=files.read_json(intervals) if intervals.is_file() else {},
    )
