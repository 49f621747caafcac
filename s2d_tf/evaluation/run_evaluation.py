"""All metrics of a trained run or zoo entry, with what they were made from."""

import datetime
import importlib.metadata
import platform
import time

from s2d_tf import __version__, files, storage
from s2d_tf.data import location
from s2d_tf.evaluation import cost, intervals, views
from s2d_tf.evaluation.evaluator import gather, scaled_metrics
from s2d_tf.evaluation.predictions import predict, weights_hash
from s2d_tf.evaluation.scoring import score
from s2d_tf.recipes import build
from s2d_tf.storage.layout import INTERVALS, MEMBER, METRICS, PREDICTIONS

PACKAGES = ("tensorflow", "keras", "numpy", "scikit-learn")


def evaluate_run(
    directory,
    data_dir=None,
    batch_size=256,
    bootstrap=0,
    log=print,
    method=None,
    members=None,
    engine="auto",
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
        engine: what computes the predictions, as for `Predictor.predict_members`.

    Returns:
        The flat dict.
    """
    run = storage.Run.open(directory)
    viewed = views.view(run, method, members)
    if viewed == run:
        for member in run.members:
            evaluate_run(member.directory, data_dir, batch_size, 0, log, engine=engine)
    out = views.directory(run, viewed)
    log(f"evaluating {out}")
    opened, cache = storage.open_run(viewed), cache_directory(run)
    found, gathered = evaluate_opened(opened, data_dir, cache, batch_size, log, engine)
    storage.Run.create(out, viewed.recipe, run.seed, run.split)
    before = files.read_json(out / METRICS) if (out / METRICS).is_file() else {}
    found["run/test_readings"] = before.get("run/test_readings", 0) + 1
    files.write_json(out / METRICS, found)
    if bootstrap:
        log(f"resampling {bootstrap:,} times")
        files.write_json(out / INTERVALS, intervals.of_gathered(gathered, num_resamples=bootstrap))
    return found


def evaluate_entry(where, data_dir=None, batch_size=256, log=print, engine="auto") -> dict:
    """The flat dict of a zoo entry: its name, folder or address, see `storage.open_model`."""
    opened = storage.open_model(where)
    folder = location.cache_dir() / PREDICTIONS / opened.name
    return evaluate_opened(opened, data_dir, folder, batch_size, log, engine)[0]


def evaluate_opened(
    opened, data_dir=None, cache_dir=None, batch_size=256, log=print, engine="auto"
):
    """All metrics of a `storage.Opened`, and the `Gathered` behind them."""
    predictor, recipe = opened.predictor, opened.recipe
    held_out = opened.split == "train_without_validation"
    dataset = recipe.source_dataset
    shared = {"data_dir": data_dir, "cache_dir": cache_dir, "batch_size": batch_size}
    shared["engine"] = engine
    gathered = gather(predictor, dataset, recipe.out_of_distribution, skip_missing=True, **shared)
    for name in gathered.missing:
        log(f"skipped {name}: not available (`s2d data {name}` says how to get it)")
    validation = score(predict(predictor, dataset, "validation", **shared)) if held_out else None
    began = time.monotonic()
    found = gathered.metrics() | scaled_metrics(dataset, gathered.known, validation)
    metric_seconds = time.monotonic() - began
    reference = build.build_network(recipe.sibling("individual"))
    milliseconds, ratio = cost.inference_time(predictor, reference)
    found |= {
        "cost/parameters": predictor.num_parameters,
        "cost/inference_ms": milliseconds,
        "cost/relative_inference_time": ratio,
        "run/temperature_fitted_on": "validation" if held_out else "other half of test",
        "run/num_members": predictor.num_members,
        "run/engine": gathered.engine or "predictions from the cache",
        "run/weights": weights_hash(predictor),
        **{
            f"data/{name}/{key}": fact[key] for name, fact in gathered.facts.items() for key in fact
        },
        **{f"data/{name}/missing": reason for name, reason in gathered.missing.items()},
        "run/name": opened.name,
        "run/seed": opened.seeds[0],
        "run/split": opened.split,
        "versions/s2d_tf": __version__,
        "versions/python": platform.python_version(),
        **{f"versions/{name}": importlib.metadata.version(name) for name in PACKAGES},
        "versions/machine": f"{platform.system()} {platform.machine()}",
        "time/forward_seconds": round(gathered.forward_seconds, 3),
        "time/score_seconds": round(gathered.score_seconds, 3),
        "time/metric_seconds": round(metric_seconds, 3),
        "time/evaluated_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    return found, gathered


def gather_run(directory, data_dir=None):
    """`Gathered` of a finished run, from its cached predictions where it has them."""
    run = storage.Run.open(directory)
    return gather(
        run.predictor(),
        run.recipe.source_dataset,
        run.recipe.out_of_distribution,
        data_dir,
        cache_dir=cache_directory(run),
        skip_missing=True,
    )


def compare_runs(first, second, data_dir=None, num_resamples=intervals.NUM_RESAMPLES):
    """Table of the differences of two runs on the same images, with paired 95% intervals."""
    gathered = [gather_run(directory, data_dir) for directory in (first, second)]
    found = intervals.of_gathered(*gathered, num_resamples)
    return intervals.difference_table(found, f"{first} minus {second}", num_resamples)


def cache_directory(run):
    """Where a run's predictions are: an ensemble and its members share those of the ensemble."""
    home = run.home.resolve()
    if home.name.startswith(MEMBER) and storage.is_run(home.parent):
        home = home.parent
    return home / PREDICTIONS
