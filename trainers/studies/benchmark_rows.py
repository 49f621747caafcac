"""The rows of the benchmark, read from the JSON files in a folder of results.

Nothing here imports TensorFlow, and nothing is measured.
"""

import csv
import dataclasses
import io
import pathlib
from collections.abc import Iterable

from s2d_tf import files, zoo
from s2d_tf.evaluation import statistics
from s2d_tf.evaluation.names import METRICS
from s2d_tf.zoo.layout import METRICS as METRICS_FILE
from s2d_tf.zoo.layout import RECIPE, SHIFT

from .openood_results import read_openood
from .results import Result, by_variant, groups

OURS, ENTERED, THEIRS = "ours", "entered", "OpenOOD"
_FACTS = ("cost", "run", "data", "versions", "time", "shift", "entry")


@dataclasses.dataclass(frozen=True)
class Row:
    """One number of the benchmark.

    Attributes:
        network, trained_on, method: what was trained.
        detector: the uncertainty or post-hoc score; "" where a metric has none.
        set, metric: our names, as in flat keys.
        seeds: number of trained models.
        mean: a fraction, or nats; spread: two standard deviations, None for one seed.
        parameters, passes, relative_time: cost of a prediction, None where it is not known.
        source: "ours", "entered", or whose numbers they are.
    """

    network: str
    trained_on: str
    method: str
    detector: str
    set: str
    metric: str
    seeds: int | None
    mean: float
    spread: float | None
    parameters: int | None
    passes: int | None
    relative_time: float | None
    source: str


def read(results: str | pathlib.Path) -> tuple[list[Result], list[Row]]:
    """The runs in a folder of results, and the rows of models that have no recipe.

    What several files say of one run, by recipe and seed, is one result; an entry of the zoo is the
    run that it was published from, with rounded weights. Where they differ, `runs` counts.
    """
    results = pathlib.Path(results)
    merged: dict[str, tuple[zoo.Run, dict]] = {}
    entered: dict[str, tuple[str, dict]] = {}
    paths = [*results.rglob(METRICS_FILE), *results.rglob(SHIFT)]
    first = results / "runs"
    for path in sorted(paths, key=lambda path: (not path.is_relative_to(first), path)):
        metrics = files.read_json(path)
        if (path.parent / RECIPE).is_file():
            run = zoo.Run.open(path.parent)
            own, held = merged.get(run.fingerprint, (run, {}))
            merged[run.fingerprint] = own, metrics | held
        else:
            identity = metrics.get("run/weights", str(path.parent))
            label, held = entered.get(identity, (path.parent.name, {}))
            entered[identity] = label, metrics | held
    made = [Result(**vars(run), metrics=metrics) for run, metrics in merged.values()]
    return made, [row for pair in entered.values() for row in _entered_rows(*pair)]


def our_rows(results: Iterable[Result]) -> list[Row]:
    """Rows of runs: means and spread over the seeds of each network, dataset and method."""
    made = []
    for (network, dataset), own in groups(list(results)).items():
        for part in by_variant(own).values():
            recipe, seeds = part[0].recipe, [result.metrics for result in part]
            drawn = recipe.draws in ("ensemble", "dropout", "swag")
            cost = (
                _first(seeds, "cost/parameters"),
                recipe.num_members if drawn else 1,
                _mean(seeds, "cost/relative_inference_time"),
            )
            made += _rows((network, dataset, part[0].title), seeds, cost, OURS)
    return made


def published_rows(results: str | pathlib.Path) -> list[Row]:
    """Rows of OpenOOD's result files in the subfolder `openood`."""
    made: list[Row] = []
    for path in sorted((pathlib.Path(results) / "openood").glob("*.csv")):
        for each in read_openood(path):
            method = f"{each.training}, outlier data" if each.outliers else each.training
            what = each.network, "cifar100", method, each.detector, each.dataset, each.metric
            numbers = None, each.mean, each.two_std
            made.append(Row(*what, *numbers, None, None, None, THEIRS))
    return list(dict.fromkeys(made))


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, numbers to six significant digits."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.name for field in dataclasses.fields(Row))
    for row in rows:
        values = dataclasses.astuple(row)
        writer.writerow(f"{v:.6g}" if isinstance(v, float) else v for v in values)
    return file.getvalue()


def _rows(what, seeds, cost, source):
    keys = dict.fromkeys(key for metrics in seeds for key in metrics if _is_shown(key))
    for key in keys:
        dataset, metric, *score = key.split("/")
        values = [metrics[key] for metrics in seeds if key in metrics]
        mean, spread = statistics.mean_and_two_std(values)
        found = "".join(score), dataset, metric, len(values), mean, spread
        fields = *what, *found, *cost, source
        yield Row(*fields)


def _entered_rows(label, metrics):
    name = metrics.get("entry/name", label)
    what = name, metrics.get("entry/dataset", "not stated"), "entered"
    cost = metrics.get("cost/parameters"), None, None
    return list(_rows(what, [metrics], cost, ENTERED))


def _is_shown(key):
    """Whether a key is a metric of a whole set: not a fact, and not one of 90 conditions."""
    first, *rest = key.split("/")
    return first not in _FACTS and "." not in first and bool(rest) and rest[0] in METRICS


def _first(seeds, key):
    return next((metrics[key] for metrics in seeds if key in metrics), None)


def _mean(seeds, key):
    values = [metrics[key] for metrics in seeds if key in metrics]
    return statistics.mean_and_two_std(values)[0] if values else None
