"""All metrics of a trained run or zoo entry, with what they were made from."""

from __future__ import annotations

import datetime
import importlib.metadata
import pathlib
import platform
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from s2d_tf import __version__, files, zoo
from s2d_tf._types import PathLike
from s2d_tf.data import location
from s2d_tf.evaluation import cost, intervals, names, run_data, views
from s2d_tf.evaluation import detectors as detectors_lib
from s2d_tf.evaluation.evaluator import gather, scaled_metrics
from s2d_tf.evaluation.predictions import predict, weights_hash
from s2d_tf.evaluation.scoring import score
from s2d_tf.zoo import networks, steps
from s2d_tf.zoo.layout import INTERVALS, MEMBER, METRICS, PREDICTIONS

if TYPE_CHECKING:
    from s2d_tf.evaluation import tables
    from s2d_tf.evaluation.evaluator import Gathered
    from s2d_tf.zoo import TrainedModel, Run

PACKAGES = ("tensorflow", "keras", "numpy", "scikit-learn")
NAMED = "named score"


def evaluate_run(
    directory: PathLike,
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    bootstrap: int = 0,
    log: Callable[[str], Any] = print,
    method: str | None = None,
    members: int | None = None,
    folder: PathLike | None = None,
    ood: Iterable[str] = (),
    detectors: Iterable[str] = (),
) -> dict:
    """Evaluates a finished run and writes `metrics.json` into it.

    An ensemble's members are evaluated too, each with a `metrics.json` of its own: their
    predictions are needed anyhow, and they are the seeds of the single-model rows of every table.

    Args:
        directory: the run directory.
        data_dir: TFDS folder. Out-of-distribution datasets that are not available are skipped.
        batch_size: images per forward pass.
        bootstrap: number of resamples for confidence intervals (`intervals.json`); 0 makes none.
        log: function that gets lines for a person.
        method, members: evaluate the same weights as another method, or with another number of
            members, see `views`; the files then go into a folder of that name in the run.
        folder: where the images of a run on own data are now; None: where they were.
        ood: more out-of-distribution data: registered names, and folders of images.
        detectors: names of post-hoc detectors, or "all"; see `detectors.choose`.

    Returns:
        Flat dict of metrics as of `evaluate`, with facts such as `"cost/parameters"` and
        `"versions/keras"`.

    Raises:
        ValueError: the run's weights cannot be evaluated as `method` or with `members`.

    Example:

    >>> found = evaluation.evaluate_run("run", log=lambda line: None)
    >>> "digits/nll" in found, pathlib.Path("run/metrics.json").is_file()
    (True, True)
    """
    run = zoo.Run.open(directory)
    viewed = views.view(run, method, members)
    if viewed == run:
        for member in run.members:
            evaluate_run(
                member.directory,
                data_dir,
                batch_size,
                0,
                log,
                folder=folder,
                ood=ood,
                detectors=detectors,
            )
    out = views.directory(run, viewed)
    log(f"evaluating {out}")
    # Steps were fitted on the run's own way to draw members.
    opened = zoo.open_run(viewed, with_steps=viewed == run)
    cache = cache_directory(run)
    known = run_data.known(run, folder)
    more = run_data.remembered(out, run.recipe) | run_data.named(ood)
    found, gathered = evaluate_opened(
        opened, data_dir, cache, batch_size, log, known, more, detectors
    )
    zoo.Run.create(out, viewed.recipe, run.seed, run.split, run.data)
    before = files.read_json(out / METRICS) if (out / METRICS).is_file() else {}
    found["run/test_readings"] = before.get("run/test_readings", 0) + 1
    files.write_json(out / METRICS, found)
    if bootstrap:
        log(f"resampling {bootstrap:,} times")
        held = intervals.of_gathered(gathered, num_resamples=bootstrap)
        files.write_json(out / INTERVALS, held)
    return found


def evaluate_entry(
    where: PathLike,
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Callable[[str], Any] = print,
    folder: PathLike | None = None,
    ood: Iterable[str] = (),
    detectors: Iterable[str] = (),
) -> dict:
    """Evaluates a zoo entry.

    Args:
        where: its name, folder or address, see `zoo.open_model`.
        data_dir, batch_size, log, ood, detectors: as for `evaluate_run`.
        folder: folder of images with the entry's classes to evaluate on in place of its dataset.

    Returns:
        The flat dict of metrics, as `evaluate_run`.

    Example:

    >>> found = evaluation.evaluate_entry("wrn_10_2_s2.s2d.digits", log=lambda line: None)
    >>> found["digits/accuracy"] > 0.9
    True
    """
    opened = zoo.open_model(where)
    cache = location.cache_dir() / PREDICTIONS / opened.name
    known, more = pathlib.Path(folder) if folder else None, run_data.named(ood)
    return evaluate_opened(opened, data_dir, cache, batch_size, log, known, more, detectors)[0]


def evaluate_opened(
    opened: TrainedModel,
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Callable[[str], Any] = print,
    known: pathlib.Path | None = None,
    more: dict[str, str | pathlib.Path] | None = None,
    detectors: Iterable[str] = (),
) -> tuple[dict, Gathered]:
    """All metrics of a `zoo.TrainedModel`, and the `Gathered` behind them.

    Args:
        opened: the model.
        data_dir, cache_dir, batch_size, log, detectors: as for `evaluate_run`.
        known: folder of its images, as a `pathlib.Path`; None: the recipe's registered dataset.
        more: `{name: name or pathlib.Path}` of OOD data that the recipe does not name.
    """
    predictor, recipe = opened.predictor, opened.recipe
    own_images = known is None or recipe.own_data is not None
    held_out = opened.split == "train_without_validation" and own_images
    dataset, more = run_data.name_of(recipe, known), more or {}
    own: dict[str, Any] = {"name": dataset, "data_dir": data_dir, "cache_dir": cache_dir}
    own["batch_size"] = batch_size
    ood = {name: name for name in recipe.out_of_distribution} | more
    chosen = detectors_lib.choose(detectors, predictor, log)
    gathered = gather(
        predictor,
        known or dataset,
        ood,
        skip_missing=True,
        detectors=chosen,
        training=opened.split,
        **own,
    )
    for name, reason in gathered.missing.items():
        registered = f"not available (`s2d data {name}` says how to get it)"
        log(f"skipped {name}: {registered if ood[name] == name else reason}")
    validation = predict(predictor, known or dataset, "validation", **own) if held_out else None
    began = time.monotonic()
    found = gathered.metrics() | _scaled(dataset, gathered.known, validation)
    for reading, (scored, _) in gathered.readings.items():
        read = validation and validation.read_as(predictor.readings[reading])
        other = _scaled(dataset, scored, read)
        found |= {names.reading_key(reading, key): value for key, value in other.items()}
    metric_seconds = time.monotonic() - began
    reference = networks.build_network(recipe.sibling("individual"))
    milliseconds, ratio = cost.inference_time(opened.predictor, reference)
    found |= {
        "cost/parameters": predictor.num_parameters,
        "cost/inference_ms": milliseconds,
        "cost/relative_inference_time": ratio,
        "run/temperature_fitted_on": "validation" if held_out else "other half of test",
        **({"run/detectors_fitted_on": opened.split} if chosen else {}),
        **{
            f"run/step_{i}": " fitted on ".join(filter(None, (own["step"], own["fitted_on"])))
            for i, own in enumerate(steps.summaries(predictor))
        },
        "run/num_members": predictor.num_members,
        "run/weights": weights_hash(predictor),
        **{
            f"data/{name}/{key}": fact[key] for name, fact in gathered.facts.items() for key in fact
        },
        **{f"data/{name}/missing": reason for name, reason in gathered.missing.items()},
        **run_data.folder_facts(more),
        "run/name": opened.name,
        "run/seed": opened.seeds[0],
        "run/split": opened.split,
        "versions/s2d_tf": __version__,
        "versions/python": platform.python_version(),
        **{f"versions/{name}": importlib.metadata.version(name) for name in PACKAGES},
        "versions/machine": f"{platform.system()} {platform.machine()}",
        "time/forward_seconds": round(gathered.forward_seconds, 3),
        "time/score_seconds": round(gathered.score_seconds, 3),
        "time/detector_seconds": round(gathered.detector_seconds, 3),
        "time/metric_seconds": round(metric_seconds, 3),
        "time/evaluated_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return found, gathered


def _scaled(dataset, known, validation):
    return scaled_metrics(dataset, known, score(validation) if validation else None)


def gather_run(
    directory: PathLike,
    data_dir: PathLike | None = None,
    folder: PathLike | None = None,
) -> Gathered:
    """`Gathered` of a finished run, from its cached predictions where it has them.

    Args:
        directory, data_dir: as for `evaluate_run`.
        folder: where the images of a run on own data are now; None: where they were.
    """
    run = zoo.Run.open(directory)
    opened = zoo.open_run(run)
    ood = {name: name for name in run.recipe.out_of_distribution}
    return gather(
        opened.predictor,
        run_data.known(run, folder) or run.recipe.source_dataset,
        ood | run_data.remembered(run.directory, run.recipe),
        data_dir,
        cache_dir=cache_directory(run),
        skip_missing=True,
        name=run.recipe.source_dataset,
    )


def compare_runs(
    first: PathLike,
    second: PathLike,
    data_dir: PathLike | None = None,
    num_resamples: int = intervals.NUM_RESAMPLES,
    folder: PathLike | None = None,
) -> tables.Table:
    """Compares two runs example by example: is the difference more than chance?

    Args:
        first, second: run directories.
        data_dir: TFDS folder.
        num_resamples: number of bootstrap resamples of the test examples, in pairs.
        folder: where the images of runs on own data are now; None: where they were.

    Returns:
        Table of the differences, first minus second, with paired 95% intervals. If both recipes
        name a score for detection, "named score" compares the one's with the other's.

    Raises:
        ValueError: the runs were tested on different examples.

    Example:

    >>> table = evaluation.compare_runs("run", "run", num_resamples=50)
    >>> table.rows[0][1].text
    'Acc'
    """
    one, other = (gather_run(each, data_dir, folder) for each in (first, second))
    named = [zoo.Run.open(each).recipe.detection_score for each in (first, second)]
    notes = []
    if None not in named:
        for each, key in zip((one, other), map(str, named), strict=True):
            for scored in (each.known, *each.unknown.values()):
                scored.scores[NAMED] = scored.scores[key]
        titles = [names.score_title(str(key)).lower() for key in named]
        notes = [f"{NAMED.capitalize()}: {titles[0]} of the first, {titles[1]} of the second."]
    found = intervals.of_gathered(one, other, num_resamples)
    return intervals.difference_table(found, f"{first} minus {second}", num_resamples, notes)


def cache_directory(run: Run) -> pathlib.Path:
    """Where a run's predictions are: an ensemble and its members share those of the ensemble."""
    home = run.home.resolve()
    if home.name.startswith(MEMBER) and zoo.is_run(home.parent):
        home = home.parent
    return home / PREDICTIONS
