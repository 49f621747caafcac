"""What happens under shift? Corrupted versions of a test set, condition by condition."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import stats
from tqdm.auto import tqdm

from s2d_tf import data, metrics, zoo
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import intervals, tables
from s2d_tf.evaluation.names import LONG_NAMES, METRICS, UNCERTAINTIES, dataset_title, format_value
from s2d_tf.evaluation.tables import metric_keys, metric_table, uncertainty_keys
from s2d_tf.metrics import checks

from ..datasets import MAIN_CORRUPTIONS
from .result_tables import twins_table
from .results import Question, Result, by_title, by_variant

DATASET = "cifar100_c_generated"
CLEAN = "clean"
# Resamples that are handled at once: their counts of 10,000 images take 5 MB.
_STEP = 64


@dataclasses.dataclass(frozen=True)
class ExampleScores:
    """What is kept of one condition: small enough for a hundred of them.

    Attributes:
        correct: bool `[n]`, whether the most probable class is the label.
        log_prob: float64 `[n]`, log-probability of the label.
        scores: `{uncertainty: float64 [n]}`, larger is more uncertain.
    """

    correct: np.ndarray
    log_prob: np.ndarray
    scores: dict[str, np.ndarray]

    def metrics(self, counts: np.ndarray | None = None) -> dict[str, Any]:
        """`accuracy`, `nll`, `ece`; `uncertainty/U`, its mean, and `error_auroc/U` of each score.

        Where all answers are right, or all wrong, no score can tell them apart: no `error_auroc`.

        Args:
            counts: how often each example was drawn, `[resamples, n]`; then the values are
                `[resamples]`.
        """

        def mean(values):
            return values.mean() if counts is None else counts @ values / len(values)

        right, confidence = self.correct, np.exp(-self.scores["confidence"])
        gaps = metrics.calibration_gaps(confidence, right, counts=counts)
        found = {"accuracy": mean(right), "nll": -mean(self.log_prob)}
        found["ece"] = np.abs(gaps).sum(axis=-1)
        found |= {f"uncertainty/{name}": mean(own) for name, own in self.scores.items()}
        if 0 < right.sum() < len(right):
            drawn = () if counts is None else (counts[:, right], counts[:, ~right])
            for name, own in self.scores.items():
                ranking = metrics.Ranking(own[right], own[~right])
                found[f"error_auroc/{name}"] = ranking.auroc(*drawn)
        return found


@dataclasses.dataclass(frozen=True)
class Shift:
    """A model's answers under all conditions.

    Attributes:
        name: what keys begin with: the dataset's name.
        answers: `{condition: ExampleScores}`, the clean test set first.

    Example:

    >>> own = {"clean": (images, labels), "dark_1": (images // 2, labels)}
    >>> shift = studies.evaluate_shift(model, own, name="mine")
    >>> list(shift.answers), "mine.dark_1/nll" in shift.metrics()
    (['clean', 'dark_1'], True)
    """

    name: str
    answers: dict[str, ExampleScores]

    @property
    def averaged(self) -> list[str]:
        """Conditions that means are taken over: of the published corruptions only the main ones."""
        shifted = [name for name in self.answers if name != CLEAN]
        main = [name for name in shifted if name.rpartition("_")[0] in MAIN_CORRUPTIONS]
        return main or shifted

    def metrics(self, counts: np.ndarray | None = None) -> dict[str, Any]:
        """Flat dict of floats.

        Args:
            counts: how often each image was drawn, `[resamples, n]`; then the values are
                `[resamples]`.

        Returns:
            For each condition `NAME.fog_3/accuracy`, `/nll`, `/ece`, `/error_auroc/U` (of wrong
            answers) and `/uncertainty/U` (its mean in nats), for each uncertainty `U`. The same
            with `NAME.severity_3` and `NAME` for the means over the main corruptions.
            `NAME/shift_correlation/U` is the rank correlation of mean uncertainty and error rate
            over all conditions, the clean one included: 1 where uncertainty always rises as
            accuracy falls.
        """
        own = {name: each.metrics(counts) for name, each in self.answers.items()}
        found = {f"{self.name}.{name}/{key}": v for name in own for key, v in own[name].items()}
        for level in sorted({_severity(name) for name in self.averaged}):
            at = [own[name] for name in self.averaged if _severity(name) == level]
            found |= _means(f"{self.name}.severity_{level}", at)
        found |= _means(self.name, [own[name] for name in self.averaged])
        errors = np.array([1.0 - each["accuracy"] for each in own.values()])
        for score in next(iter(self.answers.values())).scores if len(own) > 1 else ():
            uncertainty = np.array([each[f"uncertainty/{score}"] for each in own.values()])
            found[f"{self.name}/shift_correlation/{score}"] = _correlation(uncertainty, errors)
        return {key: float(v) for key, v in found.items()} if counts is None else found


def evaluate_shift(
    model: Any,
    conditions: str | Mapping[str, tuple] = DATASET,
    images: int | None = None,
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    name: str = "shift",
    progress: bool = False,
) -> Shift:
    """Evaluates a model on corrupted versions of its test set.

    Args:
        model: a `models.Predictor`.
        conditions: "cifar100_c_generated", "cifar100_c" (the published archive), or data of your
            own: `{"clean": (x, y), "blur_1": (x, y), ...}`, where names end in the severity.
        images: take only the first ones of each condition, for a quick look; None: all.
        data_dir: TFDS folder.
        cache_dir: folder for the predictions, 4 MB for 10,000 images of 100 classes. The same call
            continues there after a kill. None keeps nothing.
        batch_size: examples per forward pass; it does not change the answers.
        name: what keys begin with where the conditions are your own.
        progress: whether to show a bar on a terminal.

    Returns:
        `Shift`, whose `metrics()` is a flat dict.

    Raises:
        UserError: the names of conditions have no severity, or the model has other classes.

    Example:

    >>> own = {"clean": (images, labels), "dark_1": (images // 2, labels)}
    >>> found = studies.evaluate_shift(model, own).metrics()
    >>> found["shift.dark_1/accuracy"] == found["shift/accuracy"]
    True
    """
    from s2d_tf import evaluation  # Here: tables of finished studies need no TensorFlow.

    if isinstance(conditions, str):
        name, opened = conditions, _registered(conditions, images, data_dir, model)
    else:
        names = sorted(conditions, key=lambda name: name != CLEAN)
        opened = {key: lambda pair=conditions[key]: pair for key in names}
    UserError.unless(
        any(map(_severity, opened)),
        "conditions: expected at least one besides the clean one, received "
        f"{sorted(opened)}. Add one such as 'blur_1'.",
    )
    answers = {}
    shared: dict[str, Any] = {
        "cache_dir": cache_dir and pathlib.Path(cache_dir) / "shift",
        "batch_size": batch_size,
    }
    for key, read in tqdm(opened.items(), desc=name, disable=None if progress else True):
        pair = tuple(part[:images] for part in read())
        scored = evaluation.score(evaluation.predict(model, pair, name=f"{name}.{key}", **shared))
        labels = checks.as_labels(scored.labels, *scored.log_probs.shape)
        log_prob = scored.log_probs[np.arange(len(labels)), labels]
        answers[key] = ExampleScores(~scored.errors, log_prob, scored.scores)
    return Shift(name, answers)


def shift_intervals(
    first: Shift, second: Shift | None = None, num_resamples: int = 1_000, seed: int = 0
) -> dict[str, dict[str, float]]:
    """95% intervals of the means over conditions, and of the rank correlations.

    A resample draws images, and takes each with all of its corrupted versions and with both models'
    answers: so comparisons are paired, and conditions that share their images are not taken for
    independent evidence.

    Args:
        first: answers of a model.
        second: answers of another on the same images: then the intervals are of the differences,
            first minus second, for the uncertainties that both have.
        num_resamples: number of bootstrap resamples of the test images.
        seed: integer; the same seed gives the same intervals.

    Returns:
        `{"NAME/nll": {"estimate", "low", "high", "level"}, ...}`.

    Raises:
        UserError: the two have other conditions or numbers of images.

    Example:

    >>> labels = np.arange(len(images)) % 3
    >>> own = {"clean": (images, labels), "dark_1": (images // 2, labels)}
    >>> shift = studies.evaluate_shift(model, own)
    >>> found = studies.shift_intervals(shift, num_resamples=50)
    >>> found["shift/accuracy"]["low"] <= found["shift/accuracy"]["high"]
    True
    """
    pair = [shift for shift in (first, second) if shift is not None]
    sizes = [{name: len(own.correct) for name, own in shift.answers.items()} for shift in pair]
    UserError.unless(
        sizes[0] == sizes[-1] and len(set(sizes[0].values())) <= 1,
        "second: expected the same conditions with as many images each, received "
        f"{len(sizes[-1])} conditions of {sorted(set(sizes[-1].values()))} images instead of "
        f"{len(sizes[0])} of {sorted(set(sizes[0].values()))}. Evaluate both in the same way.",
    )
    drawn = [_resamples(shift, num_resamples, seed) for shift in pair]
    found = {}
    for key in (key for key in drawn[0] if key in drawn[-1]):
        interval = intervals.percentiles(drawn, key)
        if key.endswith("/ece"):
            interval = intervals.basic(interval, may_be_negative=second is not None)
        found[key] = dataclasses.asdict(interval)
    return found


def _resamples(shift, num_resamples, seed):
    """`{key: [1 + num_resamples]}` of what is compared, the test set itself first."""
    size = len(next(iter(shift.answers.values())).correct)
    counts = intervals.draw_counts(size, num_resamples, (seed, 0), _STEP)
    drawn = [shift.metrics(block) for block in counts]
    keys = [k for k in drawn[0] if k.startswith(f"{shift.name}/") and "/uncertainty/" not in k]
    return {key: np.concatenate([part[key] for part in drawn]) for key in keys}


def ask(
    opened: zoo.TrainedModel,
    dataset: str = DATASET,
    images: int | None = None,
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Callable = print,
) -> tuple[dict, Shift]:
    """Metrics of a model under all conditions of a dataset, and its answers.

    Args:
        opened: the model.
        dataset: a dataset with conditions.
        images: take only the first ones of each condition; None: all.
        data_dir: TFDS folder.
        batch_size: images per forward pass.
        log: function that gets lines for a person.
    """
    from s2d_tf import __version__, evaluation

    cache = evaluation.cache_directory(opened)
    shift = evaluate_shift(
        opened.predictor, dataset, images, data_dir, cache, batch_size, progress=True
    )
    facts = {
        "shift/images": len(shift.answers[CLEAN].correct),
        "shift/conditions": len(shift.answers),
        "run/weights": evaluation.weights_hash(opened.predictor),
        "versions/s2d_tf": __version__,
    }
    return shift.metrics() | facts, shift


def show(results: list[Result], folder: pathlib.Path) -> list:
    """Curves against severity, means, metrics at each severity, and accuracy by corruption."""
    named, recipe, parts = by_title(results), results[0].recipe, []
    keys = [key for seeds in named.values() for each in seeds for key in each]
    datasets = dict.fromkeys(k.split("/")[0] for k in keys if "/shift_correlation/" in k)
    for dataset in datasets:
        plots = folder / "plots" / f"{recipe.architecture}_trained_on_{recipe.dataset}"
        parts += [*_draw(named, dataset, plots), *_tables(named, dataset)]
        ends = ("accuracy", "nll", "ece", "error_auroc/total", "shift_correlation/total")
        # One seed has no spread and claims nothing.
        twice = [r for part in by_variant(results).values() if len(part) > 1 for r in part]
        twins = twins_table(twice, [f"{dataset}/{end}" for end in ends]) if twice else None
        parts += [twins] if twins else []
    return parts


def _severity(condition):
    """3 of "fog_3", 0 of "clean"."""
    corruption, _, level = condition.rpartition("_")
    UserError.unless(
        condition == CLEAN or (corruption and level.isdecimal()),
        f"conditions: expected {CLEAN!r} and names that end in their severity, such as "
        f"'fog_3', received {condition!r}. Rename it.",
    )
    return 0 if condition == CLEAN else int(level)


def _registered(dataset, images, data_dir, model):
    """`{condition: function that reads it}` of a registered dataset."""
    info = data.info(dataset)
    UserError.unless(
        info.conditions,
        f"conditions: expected a dataset with conditions, such as {DATASET!r}, received "
        f"{dataset!r}. Pass your own as {{'clean': (x, y), 'blur_1': (x, y)}}.",
    )
    UserError.unless(
        model.num_classes == info.num_classes,
        f"model: expected {info.num_classes} classes for {dataset}, received "
        f"{model.num_classes}. Pass conditions of your own data.",
    )
    from ..datasets import cifar100_c

    folder, count = data.resolve_data_dir(data_dir), images or info.splits["test"]
    if images is None:
        data.fetch(dataset, folder)  # All at once: on several cores, and with a bar of its own.
    return {CLEAN: lambda: data.load_arrays("cifar100", "test", folder)} | {
        name: lambda name=name: cifar100_c.read_first(f"{dataset}.{name}", count, folder)
        for name in info.conditions
    }


def _means(stem, parts):
    """Means of the parts that have a metric; a resample without errors has no AUROC of them."""
    keys = dict.fromkeys(key for part in parts for key in part)
    held = {key: [part[key] for part in parts if key in part] for key in keys}
    return {f"{stem}/{key}": np.nanmean(values, axis=0) for key, values in held.items()}


def _correlation(first, second):
    """Spearman's over the first axis, ties averaged, 0 where one is constant."""
    first, second = (stats.rankdata(values, axis=0) for values in (first, second))
    first, second = (values - values.mean(axis=0) for values in (first, second))
    norm = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    return np.where(norm > 0, (first * second).sum(axis=0) / np.where(norm > 0, norm, 1.0), 0.0)


def _conditions(named, dataset):
    """`(corruption, severity)` of all conditions that any model has."""
    found: dict[tuple[str, int], None] = {}
    for key in (key for seeds in named.values() for each in seeds for key in each):
        stem, _, metric = key.partition("/")
        corruption, _, level = stem.removeprefix(f"{dataset}.").rpartition("_")
        if metric == "accuracy" and stem.startswith(f"{dataset}.") and corruption:
            found[corruption, int(level)] = None
    return [pair for pair in found if pair[0] != "severity"]


def _severities(named, dataset):
    """`(stem of the key, severity)` of the clean test set and each severity."""
    levels = sorted({level for _, level in _conditions(named, dataset)})
    return [(f"{dataset}.{CLEAN}", 0), *((f"{dataset}.severity_{n}", n) for n in levels)]


def _tables(named, dataset):
    title, found = dataset_title(dataset), _conditions(named, dataset)
    corruptions = dict.fromkeys(corruption for corruption, _ in found)
    images = sorted({int(m["shift/images"]) for s in named.values() for m in s if m})
    notes = [
        f"{len(corruptions)} corruptions; means are over the main ones at all severities. "
        f"{' and '.join(f'{n:,}' for n in images)} test images.",
        "AUROC of errors: whether wrong answers are more uncertain than right ones. Uncertainty "
        "rises with errors: rank correlation of mean uncertainty and error rate over all "
        "conditions and the clean test set; 1 where it always rises as accuracy falls.",
    ]
    keys = metric_keys(dataset, ("accuracy", "nll", "ece"), "Mean")
    by = {f"{dataset}/{m}": METRICS[m].title for m in ("error_auroc", "shift_correlation")}
    made = [metric_table(named, keys | uncertainty_keys(by), f"{title}: means", notes)]
    for metric in ("accuracy", "nll", "ece", "error_auroc/total"):
        columns = {f"{s}/{metric}": ("Severity", str(n)) for s, n in _severities(named, dataset)}
        score = " by total uncertainty" if "/" in metric else ""
        heading = f"{title}: {METRICS[metric.split('/')[0]].title}{score} against severity"
        made.append(metric_table(named, columns, heading))
    rows = []
    for corruption in corruptions:
        own = [f"{dataset}.{c}_{level}/accuracy" for c, level in found if c == corruption]
        held = [[m[k] for m in seeds for k in own if k in m] for seeds in named.values()]
        cells = [format_value(own[0], float(np.mean(each))) if each else "" for each in held]
        rows.append([corruption.replace("_", " "), *cells])
    caption = f"{title}: accuracy by corruption, mean over severities and seeds"
    return [*made, tables.make(caption, ["Corruption", *named], [rows])]


def _draw(named, dataset, folder):
    """Curves against severity as `(path, title, caption)`: performance, and each uncertainty."""
    from s2d_tf.evaluation import figures

    shown = ("accuracy", "nll", "ece", "error_auroc/total")
    performance = {METRICS[name.split("/")[0]].title: name for name in shown}
    means = {LONG_NAMES[name]: f"uncertainty/{name}" for name in UNCERTAINTIES[1:]}
    about = f"Mean over the main corruptions of {dataset_title(dataset)}; 0 is the clean test set."
    for chosen, file, heading, more in (
        (performance, "performance", "Performance against severity", " AUROC by total."),
        (means, "uncertainty", "Uncertainty against severity", " In nats."),
    ):
        panels: dict[str, dict] = {title: {} for title in chosen}
        for title, metric in chosen.items():
            scale = METRICS[metric.split("/")[0]].scale
            keys = {f"{s}/{metric}": n for s, n in _severities(named, dataset)}
            for label, seeds in named.items():
                held = {k: [m[k] for m in seeds if k in m] for k in keys}
                points = [(keys[k], scale * np.mean(v)) for k, v in held.items() if v]
                panels[title] |= {label: tuple(zip(*points, strict=True))} if points else {}
        path = folder / f"shift_{file}_{dataset}.png"
        if any(panels.values()):
            yield figures.curves(panels, path, "Severity"), heading, about + more


QUESTION = Question("shift", "Under shift", ask, show, shift_intervals)
