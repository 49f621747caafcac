"""All metrics of a trained run or zoo entry, with what they were made from."""

from __future__ import annotations

import datetime
import importlib.metadata
import pathlib
import platform
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from s2d_tf import __version__, data, files, metrics, zoo
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import intervals, names, tables
from s2d_tf.evaluation.evaluator import ModelScores, calibration, score_datasets
from s2d_tf.evaluation.example_scores import Scored, choose_detectors, score
from s2d_tf.evaluation.predictions import (
    cache_directory,
    inference_time,
    predict,
    weights_hash,
)
from s2d_tf.zoo import Run, TrainedModel, loading, networks, recipes
from s2d_tf.zoo.runs import INTERVALS, METRICS

PACKAGES = ("tensorflow", "keras", "numpy", "scikit-learn")
NAMED = "named score"
HALVES_SEED = 0


def evaluate_run(
    directory: PathLike,
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    bootstrap: int = 0,
    log: Callable[[str], Any] = print,
    **options: Any,
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
        **options: `folder`, `ood`, `detectors` and `watch`, as for `evaluate_opened`.

    Returns:
        Flat dict of metrics as of `evaluate`, with facts such as `"cost/parameters"` and
        `"versions/keras"`.

    Example:

    >>> found = evaluation.evaluate_run("run", log=lambda line: None)
    >>> "digits/nll" in found, pathlib.Path("run/metrics.json").is_file()
    (True, True)
    """
    run = Run.open(directory)
    if run.home == run.directory:  # A view has the members of its run.
        for member in run.members:
            evaluate_run(member.directory, data_dir, batch_size, 0, log, **options)
    log(f"evaluating {run.directory}")
    found, scored = evaluate_opened(
        zoo.open_run(run), data_dir, None, batch_size, log, out=run.directory, **options
    )
    path = run.directory / METRICS
    before = files.read_json(path) if path.is_file() else {}
    found["run/test_readings"] = before.get("run/test_readings", 0) + 1
    files.write_json(path, found)
    if bootstrap:
        log(f"resampling {bootstrap:,} times")
        files.write_json(run.directory / INTERVALS, scored.intervals(None, bootstrap))
    return found


def evaluate_opened(
    opened: TrainedModel,
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Callable[[str], Any] = print,
    folder: PathLike | None = None,
    ood: Iterable[str] | None = None,
    detectors: str | Iterable[str] = (),
    out: PathLike | None = None,
    **reading: Any,
) -> tuple[dict, ModelScores]:
    """All metrics of a `zoo.TrainedModel`, and the `ModelScores` behind them; writes no metrics.

    Args:
        opened: what `zoo.open_model` returned.
        data_dir, batch_size, log: as for `evaluate_run`.
        cache_dir: folder of predictions; None: that of the run or entry.
        folder: where the images of a run on own data are now; for any other model a folder of
            images with its classes, in place of its dataset. None: the recipe's dataset.
        ood: out-of-distribution data in place of the recipe's: registered names, and folders of
            images.
        detectors: names of post-hoc detectors, or "all".
        out: folder whose `metrics.json` names out-of-distribution data to evaluate on again.
        **reading: `limit` and `watch`, as for `predict`.

    Example:

    >>> opened = zoo.open_model("run")
    >>> found, scored = evaluation.evaluate_opened(opened, log=lambda line: None)
    >>> found["digits/nll"] == scored.metrics()["digits/nll"]
    True
    """
    predictor, recipe = opened.predictor, opened.recipe
    chosen = choose_detectors(detectors, predictor, log)
    own, sets = _data_of(opened, folder, ood, out)
    own |= {
        **reading,
        "data_dir": data_dir,
        "cache_dir": cache_dir or cache_directory(opened),
        "batch_size": batch_size,
    }
    scored = score_datasets(
        predictor,
        ood=sets,
        detectors=chosen,
        training=opened.split,
        skip_missing=True,
        **own,
    )
    for name, reason in scored.missing.items():
        registered = f"not available (`s2d data {name}` says how to get it)"
        log(f"skipped {name}: {registered if sets[name] == name else reason}")
    # The validation split of other images was not held out of this training.
    held_out = opened.split == "train_without_validation" and own["name"] == recipe.source_dataset
    validation = score(predict(predictor, split="validation", **own)) if held_out else None
    reference = networks.build_network(recipe.sibling("individual"))
    milliseconds, ratio = inference_time(predictor, reference)
    found: dict[str, Any] = scored.metrics() | scaled_metrics(
        scored.dataset, scored.known, validation
    )
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
        **{f"data/{n}/folder": str(p) for n, p in sets.items() if isinstance(p, pathlib.Path)},
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


def scaled_metrics(
    dataset: str, scored: Scored, validation: Scored | None = None
) -> dict[str, float]:
    """Metrics after temperature scaling, under keys such as `"cifar100/scaled_nll"`.

    A temperature is fitted on examples that the model was not trained on. A run that was trained on
    all training images has none left; then the test split is cut into two halves and each is scaled
    by the temperature of the other, so that no example helps to choose its own temperature.

    Args:
        dataset: name of the dataset.
        scored: `Scored` of its test split.
        validation: `Scored` of held-out examples, or None for the halves of the test split.

    Returns:
        Flat dict: `temperature` (of the halves the geometric mean), `scaled_nll`, `scaled_ece`,
        `scaled_adaptive_ece`, `scaled_brier`. Accuracy does not change.

    Example:

    >>> scored = evaluation.score(evaluation.predict(model, (images, labels)))
    >>> list(evaluation.scaled_metrics("mine", scored))[:2]
    ['mine/temperature', 'mine/scaled_nll']
    """
    if validation is not None:
        temperature = metrics.fit_temperature(validation.log_probs, validation.labels)
        log_probs = metrics.scale_log_probs(scored.log_probs, temperature)
    else:
        order = np.random.default_rng(HALVES_SEED).permutation(len(scored.labels))
        halves, log_probs, fitted = (order[::2], order[1::2]), scored.log_probs.copy(), []
        for own, other in (halves, halves[::-1]):
            fitted.append(metrics.fit_temperature(scored.log_probs[other], scored.labels[other]))
            log_probs[own] = metrics.scale_log_probs(scored.log_probs[own], fitted[-1])
        temperature = float(np.sqrt(np.prod(fitted)))
    return {
        f"{dataset}/temperature": temperature,
        **calibration(f"{dataset}/scaled_", log_probs, scored.labels),
    }


def score_run(
    where: PathLike | TrainedModel,
    data_dir: PathLike | None = None,
    folder: PathLike | None = None,
    **reading: Any,
) -> ModelScores:
    """`ModelScores` of a run or an entry, from its cached predictions where it has them.

    Args:
        where: what `zoo.open_model` takes, or returns.
        data_dir: TFDS folder.
        folder: where the images of a run on own data are now; None: where they were.
        **reading: `limit` and `watch`, as for `predict`.

    Example:

    >>> evaluation.score_run("run").dataset
    'digits'
    """
    opened = where if isinstance(where, TrainedModel) else zoo.open_model(where)
    own, sets = _data_of(opened, folder, None, opened.run and opened.run.directory)
    own |= {"data_dir": data_dir, "cache_dir": cache_directory(opened), **reading}
    return score_datasets(opened.predictor, ood=sets, skip_missing=True, **own)


def compare_runs(
    first: PathLike,
    second: PathLike,
    data_dir: PathLike | None = None,
    num_resamples: int = intervals.NUM_RESAMPLES,
    folder: PathLike | None = None,
    **reading: Any,
) -> tables.Table:
    """Compares two models example by example: is the difference more than chance?

    Args:
        first, second: run directories; or names, folders or addresses of zoo entries.
        data_dir, folder, **reading: as for `score_run`.
        num_resamples: number of bootstrap resamples of the test examples, in pairs.

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
    scored = [score_run(each, data_dir, folder, **reading) for each in opened]
    chosen, notes = [str(each.recipe.detection_score) for each in opened], []
    if "None" not in chosen:
        for each, key in zip(scored, chosen, strict=True):
            for part in (each.known, *each.unknown.values()):
                part.scores[NAMED] = part.scores[key]
        titles = [names.score_title(key).lower() for key in chosen]
        notes = [f"{NAMED.capitalize()}: {titles[0]} of the first, {titles[1]} of the second."]
    differences = scored[0].intervals(scored[1], num_resamples)
    return tables.difference_table(differences, f"{first} minus {second}", num_resamples, notes)


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


def _data_of(opened, folder, ood, out):
    """What a model is evaluated on: `dataset` and its `name`, and `{name: name or folder}` of
    out-of-distribution data: that of an evaluation before, and `ood`; where that is `None` the
    recipe's, and what the zoo's record of its dataset names by now."""
    recipe, name = opened.recipe, opened.recipe.source_dataset
    known = own_folder(opened.run, folder) if opened.run else None
    if known is None and folder:
        known, name = pathlib.Path(folder), recipes.own_name(data.folder_name(folder))
    now = recipe.sibling("individual").out_of_distribution  # the recipe may be older than some
    usual = (*recipe.out_of_distribution, *now) if ood is None else ()
    sets = {each: each for each in usual}
    path = pathlib.Path(out or "") / METRICS
    before = files.read_json(path) if out and path.is_file() else {}
    for key in before:
        each, fact = key.split("/")[1:] if key.startswith("data/") else ("", "")
        if fact == "fingerprint" and each not in (recipe.source_dataset, *sets):
            place = before.get(f"data/{each}/folder")
            sets[each] = pathlib.Path(place) if place else each
    return {"dataset": known or name, "name": name}, sets | _named(ood or ())


def _named(ood):
    """`{name: name or folder}` of what a person names as OOD data."""
    found: dict[str, str | pathlib.Path] = {}
    for each in ood:
        is_name = each.partition(".")[0] in data.names()
        data.MissingDataError.unless(
            is_name or pathlib.Path(each).expanduser().is_dir(),
            f"ood: expected a dataset's name or a folder of images, received {each!r}. "
            "`s2d data` lists the names.",
        )
        name = each if is_name else recipes.own_name(data.folder_name(each))
        UserError.unless(
            name not in found,
            f"ood: expected folders with different names, received {name!r} twice. Rename one.",
        )
        found[name] = each if is_name else pathlib.Path(each).expanduser().absolute()
    return found
