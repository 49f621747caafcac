"""Metrics under shift: corrupted versions of a test set, condition by condition.

One condition is in memory at a time. What is kept of it is `answers.ExampleScores`, in a file of
its own, so that a run that was stopped continues with the next condition.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
from tqdm import tqdm

from s2d_tf import data, metrics, models
from s2d_tf.data import location
from s2d_tf.evaluation import answers as answers_lib
from s2d_tf.evaluation.answers import ExampleScores
from s2d_tf.evaluation.exported import ExportedModel
from s2d_tf.evaluation.sources import checked_name, class_numbers

from ..datasets import MAIN_CORRUPTIONS

DATASET = "cifar100_c_generated"
CLEAN = "clean"
# Raised when answers would be others for the same model and images.
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Condition:
    """One version of the test set.

    Attributes:
        name: corruption and severity, such as "fog_3", or "clean".
        read: opens its inputs and labels.
        identity: what decides them, for the names of cached answers.
    """

    name: str
    read: Callable[[], tuple[np.ndarray, np.ndarray]]
    identity: str

    @property
    def severity(self) -> int:
        return severity_of(self.name)


@dataclasses.dataclass(frozen=True)
class Shift:
    """A model's answers under all conditions.

    Attributes:
        name: what keys begin with: the dataset's name.
        answers: `{condition: ExampleScores}`, the clean test set first.

    Example:

    >>> own = {"clean": (images, labels), "dark_1": (images // 2, labels)}
    >>> shift = evaluation.evaluate_shift(model, own, name="mine")
    >>> list(shift.answers), "mine.dark_1/nll" in shift.metrics()
    (['clean', 'dark_1'], True)
    """

    name: str
    answers: dict[str, ExampleScores]

    @property
    def averaged(self) -> list[str]:
        """Conditions that means are taken over: of the published corruptions only the main ones."""
        shifted = [name for name in self.answers if name != CLEAN]
        main = [name for name in shifted if _corruption(name) in MAIN_CORRUPTIONS]
        return main or shifted

    @property
    def scores(self) -> list[str]:
        """Names of the uncertainties."""
        return list(next(iter(self.answers.values())).scores)

    def metrics(self) -> dict[str, float]:
        """Flat dict of floats.

        Returns:
            For each condition `NAME.fog_3/accuracy`, `/nll`, `/ece`, `/error_auroc/U` (of wrong
            answers) and `/uncertainty/U` (its mean in nats), for each uncertainty `U`. The same
            with `NAME.severity_3` and `NAME` for the means over the main corruptions.
            `NAME/shift_correlation/U` is the rank correlation of mean uncertainty and error rate
            over all conditions, the clean one included: 1 where uncertainty always rises as
            accuracy falls.
        """
        own = {name: each.metrics() for name, each in self.answers.items()}
        found = {f"{self.name}.{name}/{key}": v for name in own for key, v in own[name].items()}
        levels = sorted({severity_of(name) for name in self.averaged})
        for level in levels:
            at = [own[name] for name in self.averaged if severity_of(name) == level]
            found |= _means(f"{self.name}.severity_{level}", at)
        found |= _means(self.name, [own[name] for name in self.averaged])
        for score in self.scores if len(own) > 1 else ():
            uncertainty = [each[f"uncertainty/{score}"] for each in own.values()]
            errors = [1.0 - each["accuracy"] for each in own.values()]
            value = metrics.rank_correlation(uncertainty, errors)
            found[f"{self.name}/shift_correlation/{score}"] = value
        return found


def evaluate_shift(
    model: models.Predictor | ExportedModel,
    conditions: str | Mapping[str, tuple] = DATASET,
    images: int | None = None,
    data_dir: str | os.PathLike | None = None,
    cache_dir: str | os.PathLike | None = None,
    batch_size: int = 256,
    name: str = "shift",
    progress: bool = False,
) -> Shift:
    """Answers of a model on corrupted versions of its test set.

    Args:
        model: a `models.Predictor`, or an `ExportedModel`.
        conditions: "cifar100_c_generated", "cifar100_c" (the published archive), or data of your
            own: `{"clean": (x, y), "blur_1": (x, y), ...}`, where names end in the severity.
        images: take only the first ones of each condition, for a quick look; None: all.
        data_dir: TFDS folder.
        cache_dir: folder for the answers. The same call continues there after a kill. None keeps
            nothing.
        batch_size: examples per forward pass; it does not change the answers.
        name: what keys begin with where the conditions are your own.
        progress: whether to show a bar on a terminal.

    Returns:
        `Shift`, whose `metrics()` is a flat dict.

    Raises:
        ValueError: the names of conditions have no severity, or the model has other classes.

    Example:

    >>> own = {"clean": (images, labels), "dark_1": (images // 2, labels)}
    >>> found = evaluation.evaluate_shift(model, own).metrics()
    >>> found["shift.dark_1/accuracy"] == found["shift/accuracy"]
    True
    """
    if images is not None and images < 2:
        raise ValueError(f"images: expected at least 2, received {images!r}. Omit it for all.")
    if isinstance(conditions, str):
        name, opened = conditions, _registered(conditions, images, data_dir, model)
    else:
        name, opened = checked_name(name), _own(conditions, images)
    model_key, made = answers_lib.identity(model) if cache_dir else "", {}
    for each in tqdm(opened, desc=name, unit=" conditions", disable=None if progress else True):
        path = None
        if cache_dir:
            facts = f"{_FORMAT} {model_key} {each.identity} {each.name} {images}"
            key = hashlib.sha256(facts.encode()).hexdigest()[:20]
            path = pathlib.Path(cache_dir) / "shift" / f"{name}.{each.name}.{key}.safetensors"
        found = path and ExampleScores.load(path)
        if not found:
            inputs, labels = each.read()
            found = ExampleScores.of(answers_lib.score_model(model, inputs, labels, batch_size))
            if path:
                found.save(path)
        made[each.name] = found
    return Shift(name, made)


def severity_of(condition: str) -> int:
    """3 of "fog_3", 0 of "clean"; another name is a ValueError."""
    if condition == CLEAN:
        return 0
    corruption, _, level = condition.rpartition("_")
    if not corruption or not level.isdecimal():
        raise ValueError(
            f"conditions: expected {CLEAN!r} and names that end in their severity, such as "
            f"'fog_3', received {condition!r}. Rename it."
        )
    return int(level)


def _corruption(condition):
    return condition.rpartition("_")[0]


def _registered(dataset, images, data_dir, model):
    info = data.info(dataset)
    if not info.conditions:
        raise ValueError(
            f"conditions: expected a dataset with conditions, such as {DATASET!r}, received "
            f"{dataset!r}. Pass your own as {{'clean': (x, y), 'blur_1': (x, y)}}."
        )
    if model.num_classes != info.num_classes:
        raise ValueError(
            f"model: expected {info.num_classes} classes for {dataset}, received "
            f"{model.num_classes}. Pass conditions of your own data."
        )
    from ..datasets import corrupted

    folder = location.resolve_data_dir(data_dir)
    if images is None:
        data.fetch(dataset, folder)  # All at once: on several cores, and with a bar of its own.
    count = images or info.splits["test"]
    same = corrupted.identity(dataset, folder)

    def read(name):
        if name == CLEAN:
            pixels, labels = data.load_arrays("cifar100", "test", folder)
            return pixels[:count], labels[:count]
        return corrupted.read_first(f"{dataset}.{name}", count, folder)

    return [
        Condition(name, functools.partial(read, name), same) for name in (CLEAN, *info.conditions)
    ]


def _own(conditions, images):
    made = []
    for name in sorted(conditions, key=lambda each: each != CLEAN):
        severity_of(name)
        inputs, labels = conditions[name]
        inputs, labels = inputs[:images], class_numbers(labels, len(inputs), name)[:images]
        content = data.Content()
        content.update(inputs, labels)
        identity = f"{content.inputs} {content.fingerprint}"
        made.append(Condition(name, functools.partial(tuple, (inputs, labels)), identity))
    if not any(each.severity for each in made):
        raise ValueError(
            "conditions: expected at least one besides the clean one, received "
            f"{sorted(conditions)}. Add one such as 'blur_1'."
        )
    return made


def _means(stem, parts):
    keys = dict.fromkeys(key for part in parts for key in part)
    held = {key: [part[key] for part in parts if key in part] for key in keys}
    return {f"{stem}/{key}": float(np.mean(values)) for key, values in held.items()}
