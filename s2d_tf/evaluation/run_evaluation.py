"""All metrics of a trained run or zoo entry, with what they were made from."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from s2d_tf import __version__, data, files, zoo
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import detectors as detectors_lib
from s2d_tf.evaluation import intervals, names, tables, views
from s2d_tf.evaluation.evaluator import ModelScores, scaled_metrics, score_datasets
from s2d_tf.evaluation.predictions import predict, score, weights_hash
from s2d_tf.zoo import loading, networks, recipes
from s2d_tf.zoo.runs import INTERVALS, MEMBER, METRICS, PREDICTIONS

if TYPE_CHECKING:
    from s2d_tf import models
    from s2d_tf.zoo import Run, TrainedModel

PACKAGES = ("tensorflow", "keras", "numpy", "scikit-learn")
NAMED = "named score"
REPETITIONS = 10


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
    detectors: str | Iterable[str] = (),
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
        UserError: the run's weights cannot be evaluated as `method` or with `members`.

    Example:

    >>> found = evaluation.evaluate_run("run", log=lambda line: None)
    >>> "digits/nll" in found, pathlib.Path("run/metrics.json").is_file()
    (True, True)
    """
    run = zoo.Run.open(directory)
    viewed = views.view(run, method, members)
    shared: dict[str, Any] = {"folder": folder, "ood": ood, "detectors": detectors}
    if viewed == run:
        for member in run.members:
            evaluate_run(member.directory, data_dir, batch_size, 0, log, **shared)
    out = views.directory(run, viewed)
    log(f"evaluating {out}")
    # Steps were fitted on the run's own way to draw members.
    opened = zoo.open_run(viewed, with_steps=viewed == run)
    found, scored = evaluate_opened(opened, data_dir, None, batch_size, log, out=out, **shared)
    if viewed != run:
        dataclasses.replace(viewed, directory=out).write()
    before = files.read_json(out / METRICS) if (out / METRICS).is_file() else {}
    found["run/test_readings"] = before.get("run/test_readings", 0) + 1
    files.write_json(out / METRICS, found)
    if bootstrap:
        log(f"resampling {bootstrap:,} times")
        files.write_json(out / INTERVALS, scored.intervals(None, bootstrap))
    return found


def evaluate_entry(
    where: PathLike,
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Callable[[str], Any] = print,
    **options: Any,
) -> dict:
    """Evaluates a zoo entry, or anything else that `zoo.open_model` opens; writes nothing.

    Args:
        where: an entry's name, folder or address; or a run directory.
        data_dir, batch_size, log: as for `evaluate_run`.
        **options: `ood` and `detectors`, as for `evaluate_run`; `folder`, a folder of images with
            the model's classes to evaluate on in place of its dataset.

    Returns:
        The flat dict of metrics, as `evaluate_run`.

    Example:

    >>> found = evaluation.evaluate_entry("wrn_10_2_s2.s2d.digits", log=lambda line: None)
    >>> found["digits/accuracy"] > 0.9
    True
    """
    return evaluate_opened(zoo.open_model(where), data_dir, None, batch_size, log, **options)[0]


def evaluate_opened(
    opened: TrainedModel,
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Callable[[str], Any] = print,
    folder: PathLike | None = None,
    ood: Iterable[str] = (),
    detectors: str | Iterable[str] = (),
    out: PathLike | None = None,
) -> tuple[dict, ModelScores]:
    """All metrics of a `zoo.TrainedModel`, and the `ModelScores` behind them.

    Args:
        opened: the model.
        data_dir, batch_size, log, ood, detectors: as for `evaluate_run`.
        cache_dir: folder of predictions; None: that of the run or entry.
        folder: of its images; None: the recipe's registered dataset, or where own data was.
        out: folder whose `metrics.json` names out-of-distribution data to evaluate on again.

    Example:

    >>> opened = zoo.open_model("run")
    >>> found, scored = evaluation.evaluate_opened(opened, log=lambda line: None)
    >>> found["digits/nll"] == scored.metrics()["digits/nll"]
    True
    """
    predictor, recipe = opened.predictor, opened.recipe
    own, more = _data_of(opened, folder, ood, out)
    dataset = own["name"]
    own |= {"data_dir": data_dir, "cache_dir": cache_dir or cache_directory(opened)}
    own |= {"batch_size": batch_size}
    # The validation split of other images was not held out of this training.
    held_out = opened.split == "train_without_validation" and dataset == recipe.source_dataset
    sets = {name: name for name in recipe.out_of_distribution} | more
    chosen = detectors_lib.choose(detectors, predictor, log)
    fitting = {"detectors": chosen, "training": opened.split}
    scored = score_datasets(predictor, ood=sets, skip_missing=True, **fitting, **own)
    for name, reason in scored.missing.items():
        registered = f"not available (`s2d data {name}` says how to get it)"
        log(f"skipped {name}: {registered if sets[name] == name else reason}")
    validation = predict(predictor, split="validation", **own) if held_out else None
    found = scored.metrics()
    found |= scaled_metrics(dataset, scored.known, score(validation) if validation else None)
    reference = networks.build_network(recipe.sibling("individual"))
    milliseconds, ratio = inference_time(predictor, reference)
    found |= {
        "cost/parameters": predictor.num_parameters,
        "cost/inference_ms": milliseconds,
        "cost/relative_inference_time": ratio,
        "run/temperature_fitted_on": "validation" if held_out else "other half of test",
        **({"run/detectors_fitted_on": opened.split} if chosen else {}),
        **{
            f"run/step_{i}": " fitted on ".join(filter(None, (each["step"], each["fitted_on"])))
            for i, each in enumerate(loading.summaries(predictor))
        },
        "run/num_members": predictor.num_members,
        "run/weights": weights_hash(predictor),
        **{f"data/{name}/{key}": fact[key] for name, fact in scored.facts.items() for key in fact},
        **{f"data/{name}/missing": reason for name, reason in scored.missing.items()},
        **{f"data/{n}/folder": str(p) for n, p in more.items() if isinstance(p, pathlib.Path)},
        "run/name": opened.name,
        "run/seed": opened.seeds[0],
        "run/split": opened.split,
        "versions/s2d_tf": __version__,
        "versions/python": platform.python_version(),
        **{f"versions/{name}": importlib.metadata.version(name) for name in PACKAGES},
        "versions/machine": f"{platform.system()} {platform.machine()}",
        "time/forward_seconds": round(scored.seconds, 3),
        "time/evaluated_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return found, scored


def score_run(
    where: PathLike | TrainedModel,
    data_dir: PathLike | None = None,
    folder: PathLike | None = None,
) -> ModelScores:
    """`ModelScores` of a run or an entry, from its cached predictions where it has them.

    Args:
        where: what `zoo.open_model` takes, or returns.
        data_dir: TFDS folder.
        folder: where the images of a run on own data are now; None: where they were.

    Example:

    >>> evaluation.score_run("run").dataset
    'digits'
    """
    opened = where if isinstance(where, zoo.TrainedModel) else zoo.open_model(where)
    own, more = _data_of(opened, folder, (), opened.run and opened.run.directory)
    sets = {name: name for name in opened.recipe.out_of_distribution} | more
    own |= {"data_dir": data_dir, "cache_dir": cache_directory(opened)}
    return score_datasets(opened.predictor, ood=sets, skip_missing=True, **own)


def compare_runs(
    first: PathLike,
    second: PathLike,
    data_dir: PathLike | None = None,
    num_resamples: int = intervals.NUM_RESAMPLES,
    folder: PathLike | None = None,
) -> tables.Table:
    """Compares two models example by example: is the difference more than chance?

    Args:
        first, second: run directories; or names, folders or addresses of zoo entries.
        data_dir: TFDS folder.
        num_resamples: number of bootstrap resamples of the test examples, in pairs.
        folder: where the images of runs on own data are now; None: where they were.

    Returns:
        Table of the differences, first minus second, with paired 95% intervals. If both recipes
        name a score for detection, "named score" compares the one's with the other's.

    Raises:
        UserError: the models were tested on different examples.

    Example:

    >>> table = evaluation.compare_runs("run", "run", num_resamples=50)
    >>> table.rows[0][1].text
    'Acc'
    """
    opened = [zoo.open_model(each) for each in (first, second)]
    scored = [score_run(each, data_dir, folder) for each in opened]
    chosen, notes = [each.recipe.detection_score for each in opened], []
    if None not in chosen:
        for each, key in zip(scored, map(str, chosen), strict=True):
            for part in (each.known, *each.unknown.values()):
                part.scores[NAMED] = part.scores[key]
        titles = [names.score_title(str(key)).lower() for key in chosen]
        notes = [f"{NAMED.capitalize()}: {titles[0]} of the first, {titles[1]} of the second."]
    found = scored[0].intervals(scored[1], num_resamples)
    return tables.difference_table(found, f"{first} minus {second}", num_resamples, notes)


def cache_directory(model: Run | TrainedModel) -> pathlib.Path:
    """Where a model's predictions are: an ensemble and its members share those of the ensemble.

    Example:

    >>> evaluation.cache_directory(zoo.Run.open("run")).name
    'predictions'
    """
    run = getattr(model, "run", model)
    if run is None:
        return data.cache_dir() / PREDICTIONS / model.name
    home = run.home.resolve()
    if home.name.startswith(MEMBER) and zoo.is_run(home.parent):
        home = home.parent
    return home / PREDICTIONS


def own_folder(run: Run, folder: PathLike | None = None) -> pathlib.Path | None:
    """The folder of the images of a run on own data; None of other runs."""
    if run.recipe.own_data is None:
        return None
    place = folder or run.data
    if not place:
        raise data.MissingDataError(
            f"{run.directory}: expected the folder of its images, received none. Pass "
            "--data=FOLDER."
        )
    return pathlib.Path(place)


def inference_time(
    predictor: models.Predictor, reference: models.Predictor, batch_size: int = 64
) -> tuple[float, float]:
    """Milliseconds per example, and how many times those of a reference model.

    The two take turns, so that whatever else the machine does slows both; each repetition gives
    one ratio and the median is taken.

    Args:
        predictor: a `models.Predictor`.
        reference: another that takes the same inputs, usually the individual network.
        batch_size: examples per pass.
    """
    contract = predictor.contract
    inputs = tf.nest.map_structure(
        lambda values, spec: tf.constant(values, spec.dtype),
        contract.sample(batch_size),
        contract.specs(),
    )

    def seconds(function):
        began = time.perf_counter()
        function(inputs).numpy()
        return time.perf_counter() - began

    functions = [tf.function(model.member_logits) for model in (predictor, reference)]
    # The first repetition traces the graphs.
    times = [[seconds(function) for function in functions] for _ in range(1 + REPETITIONS)][1:]
    own = statistics.median(each for each, _ in times)
    return 1000.0 * own / batch_size, statistics.median(each / other for each, other in times)


def _data_of(opened, folder, ood, out):
    """What a model is evaluated on: `dataset` and its `name`, and `{name: name or folder}` of
    out-of-distribution data that the recipe does not name."""
    recipe, name = opened.recipe, opened.recipe.source_dataset
    known = own_folder(opened.run, folder) if opened.run else None
    if known is None and folder:
        known, name = pathlib.Path(folder), recipes.own_name(data.folder_name(folder))
    more = _remembered(out, recipe) if out else {}
    return {"dataset": known or name, "name": name}, more | _named(ood)


def _remembered(directory, recipe):
    """`{name: name or folder}` of the OOD data that a run was evaluated on before."""
    path = pathlib.Path(directory) / METRICS
    metrics = files.read_json(path) if path.is_file() else {}
    held = [key.split("/")[1] for key in metrics if key.endswith("/fingerprint")]
    others = set(held) - {recipe.source_dataset, *recipe.out_of_distribution}
    folders = {name: metrics.get(f"data/{name}/folder") for name in held if name in others}
    return {name: pathlib.Path(place) if place else name for name, place in folders.items()}


def _named(ood):
    """`{name: name or folder}` of what a person names as OOD data."""
    found: dict[str, str | pathlib.Path] = {}
    for each in ood:
        is_name = each.partition(".")[0] in data.names()
        if not is_name and not pathlib.Path(each).expanduser().is_dir():
            raise data.MissingDataError(
                f"ood: expected a dataset's name or a folder of images, received {each!r}. "
                "`s2d data` lists the names."
            )
        name = each if is_name else recipes.own_name(data.folder_name(each))
        if name in found:
            raise UserError(
                f"ood: expected folders with different names, received {name!r} twice. Rename one."
            )
        found[name] = each if is_name else pathlib.Path(each).expanduser().absolute()
    return found
