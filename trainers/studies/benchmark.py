"""Enters a model into the benchmark: CIFAR-100, OpenOOD's near and far sets, SCOD.

The metrics become `<folder>/<name>/metrics.json`, from which `benchmark_page` makes its rows.
"""

import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from s2d_tf import __version__, data, files, models, zoo
from s2d_tf.evaluation import answers, run_evaluation
from s2d_tf.evaluation import detectors as detectors_lib
from s2d_tf.evaluation.evaluator import Gathered, gather
from s2d_tf.evaluation.exported import ExportedModel
from s2d_tf.zoo.layout import METRICS

from .near_far import near_far_metrics, near_far_sets
from .results import public
from .shift_study import open_any

DATASET = "cifar100"
FOLDER = "benchmark"
"""Where entries are in a folder of results."""


def enter(
    model: str | models.Predictor | ExportedModel,
    results: str | pathlib.Path,
    name: str | None = None,
    data_dir: str | None = None,
    detectors: str | tuple = (),
    batch_size: int = 256,
    log: Callable[[str], None] = print,
    dataset: str = DATASET,
    ood: Iterable[str] | None = None,
) -> pathlib.Path:
    """Evaluates a model under the benchmark's protocol and keeps its metrics.

    Out-of-distribution sets that are not on this machine are skipped with a line; the page says how
    many of a mean's sets were evaluated.

    Args:
        model: a `models.Predictor` or an `ExportedModel` of the dataset's classes; or, as text, a
            run directory, the name, folder or address of a zoo entry, or an exported model.
        results: folder of results; the entry is in `benchmark/NAME` in it.
        name: what the model is called on the page; default: that of the run, entry or export.
        data_dir: TFDS folder.
        detectors: post-hoc detectors to fit on the training images, see `detectors.choose`. An
            exported model answers no features, so it takes none.
        batch_size: images per forward pass.
        log: function that gets lines for a person.
        dataset: what a predictor or an exported model was trained on.
        ood: names of its out-of-distribution sets; None: OpenOOD's.

    Returns:
        Path of the metrics.

    Raises:
        ValueError: the model has other classes, or a predictor has no name.

    Example:

    ```python
    evaluation.benchmark.enter(model, "results", name="my network")
    evaluation.benchmark_page.write("results")
    ```
    """
    opened, cache = None, None
    if isinstance(model, (str, pathlib.Path)):
        model, label, cache, opened = open_any(str(model))
        name = name or label
    if not name or "/" in name:
        raise ValueError(
            f"name: expected a text without '/' for the entry, received {name!r}. Pass name=."
        )
    folder = pathlib.Path(results) / FOLDER / name
    log(f"evaluating {name}")
    shared: dict[str, Any] = {"data_dir": data_dir, "batch_size": batch_size, "log": log}
    if opened is not None:
        more = {each: each for each in _sets(opened.recipe.source_dataset)}
        found, gathered = run_evaluation.evaluate_opened(
            opened, cache_dir=cache, more=more, detectors=detectors, **shared
        )
        zoo.Run.create(folder, opened.recipe, opened.seeds[0], opened.split)
    else:
        _check_classes(model, dataset)
        sets = _sets(dataset) if ood is None else list(ood)
        gathered = _gather(model, dataset, sets, detectors, **shared)
        found = gathered.metrics() | _facts(model, gathered)
    found |= {"entry/name": name, "entry/dataset": gathered.dataset}
    found |= near_far_metrics(gathered)
    files.write_json(folder / METRICS, public(found))
    return folder / METRICS


def _sets(dataset):
    return [name for names in near_far_sets(dataset).values() for name in names]


def _check_classes(model, dataset):
    expected = data.info(dataset).num_classes
    if model.num_classes != expected:
        raise ValueError(
            f"model: expected {expected} classes for {dataset}, received {model.num_classes}. "
            "Only models of this dataset can enter."
        )


def _gather(model, dataset, sets, detectors, data_dir, batch_size, log):
    if isinstance(model, ExportedModel):
        if detectors:
            raise ValueError(
                f"detectors: expected none for an exported model, received {detectors!r}. Enter "
                "the run or the predictor."
            )
        gathered = _gather_exported(model, dataset, sets, data_dir, batch_size)
    else:
        gathered = gather(
            model,
            dataset,
            sets,
            data_dir,
            batch_size=batch_size,
            skip_missing=True,
            detectors=detectors_lib.choose(detectors, model, log),
        )
    for each, why in gathered.missing.items():
        log(f"skipped {each}: {why}")
    return gathered


def _gather_exported(model, dataset, sets, data_dir, batch_size):
    scored, missing, facts = {}, {}, {}
    for each in (dataset, *sets):
        try:
            inputs, labels = data.load_arrays(each, "test", data_dir)
        except data.MissingDataError as error:
            if each == dataset:
                raise
            missing[each] = str(error)
            continue
        scored[each] = model.score(inputs, labels, batch_size)
        facts[each] = {"images": len(labels), "fingerprint": data.fingerprint(inputs, labels)}
    known = scored.pop(dataset)
    return Gathered(dataset, known, scored, missing, facts, 0.0, 0.0, {}, {}, model.class_names)


def _facts(model, gathered):
    known = {
        f"data/{name}/{key}": fact[key] for name, fact in gathered.facts.items() for key in fact
    }
    if isinstance(model, models.Predictor):
        known["cost/parameters"] = model.num_parameters
    missing = {f"data/{name}/missing": why for name, why in gathered.missing.items()}
    return {
        **known,
        **missing,
        "run/weights": answers.identity(model),
        "versions/s2d_tf": __version__,
    }
