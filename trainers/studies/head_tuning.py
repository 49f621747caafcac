"""Choosing settings of a linear head on validation data, with the spread behind the choice."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import s2d_tf._backend  # noqa: F401
from s2d_tf._types import Data

# isort: split
import keras
import numpy as np

from s2d_tf import metrics
from s2d_tf.evaluation.intervals import Interval
from s2d_tf.metrics import checks
from s2d_tf.metrics.statistics import LEVEL

if TYPE_CHECKING:
    from s2d_tf import models


@dataclasses.dataclass(frozen=True)
class Trial:
    """One setting, trained with several seeds.

    Attributes:
        settings: the constructor arguments.
        nll, accuracy: means over the seeds, with Student's intervals over the examples.
        worse: how much its NLL is above that of the best setting, in pairs of examples: where the
            interval holds 0, these examples do not tell the two apart.
        nll_stddev: standard deviation of the NLL over the seeds.
        ece: mean over the seeds.
        auroc: mean over the seeds, by knowledge uncertainty, for each out-of-distribution set.
    """

    settings: dict
    nll: Interval
    accuracy: Interval
    worse: Interval
    nll_stddev: float
    ece: float
    auroc: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Tuning:
    """Trials, the best NLL first.

    Attributes:
        trials: a `Trial` for each setting.
        num_examples: number of validation examples.
        num_seeds: seeds for each setting.

    Example:

    >>> train, held_out = (images[:20], labels[:20]), (images[20:], labels[20:])
    >>> options = {"num_seeds": 1, "epochs": 1, "run_eagerly": True}
    >>> found = evaluation.tune_head(model, train, held_out, [{"temperature": 1.5}], **options)
    >>> found.num_examples, found.num_seeds
    (20, 1)
    """

    trials: tuple[Trial, ...]
    num_examples: int
    num_seeds: int

    def markdown(self) -> str:
        """A table of all trials."""
        names = [*self.trials[0].settings]
        titles = [*names, "NLL", "above the best", "± seeds", "%accuracy", "%ECE"]
        titles += [f"%AUROC {name}" for name in self.trials[0].auroc]
        lines = [
            f"{self.num_examples} validation examples, {self.num_seeds} seeds, "
            f"{LEVEL:.0%} intervals",
            "",
            f"| {' | '.join(titles)} |",
            f"| {' | '.join(['---'] * len(titles))} |",
        ]
        for trial in self.trials:
            cells = [str(trial.settings[name]) for name in names]
            cells += [_cell(trial.nll, 1), _cell(trial.worse, 1), f"{trial.nll_stddev:.3f}"]
            cells += [_cell(trial.accuracy, 100), f"{100 * trial.ece:.2f}"]
            cells += [f"{100 * value:.1f}" for value in trial.auroc.values()]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)


def tune_head(
    model: models.Classifier,
    train: Data,
    validation: Data,
    settings: list[dict],
    num_seeds: int = 3,
    ood: dict | None = None,
    optimizer: Any = "adam",
    epochs: int = 20,
    batch_size: int = 128,
    run_eagerly: bool = False,
) -> Tuning:
    """Trains the linear layer of a model with frozen features once for each setting and seed.

    The features are computed once; the model itself is not changed. Train the chosen setting with
    `model.head_only`, and put it into the model with `take_head`.

    Args:
        model: a `models.Classifier`, such as `S2DClassifier.from_classifier(..., freeze=True)`.
        train, validation: `(inputs, labels)`, labels as class numbers.
        settings: constructor arguments to try, for example
            `[{"temperature": 1.0}, {"temperature": 1.5}]`.
        num_seeds: seeds 0 to `num_seeds - 1` for each setting.
        ood: `{"name": inputs}` that are out of distribution, to see AUROC by knowledge uncertainty.
        optimizer: name, or a Keras optimizer of which each training gets a copy.
        epochs, batch_size, run_eagerly: of each training.

    Returns:
        A `Tuning`; `print(tuning.markdown())` shows it.

    Raises:
        ValueError: the settings do not all name the same arguments.

    Example:

    >>> train, held_out = (images[:20], labels[:20]), (images[20:], labels[20:])
    >>> settings = [{"temperature": 1.0}, {"temperature": 1.5}]
    >>> options = {"num_seeds": 1, "epochs": 1, "run_eagerly": True}
    >>> found = evaluation.tune_head(model, train, held_out, settings, **options)
    >>> len(found.trials), found.num_examples
    (2, 20)
    """
    if not settings or any(set(each) != set(settings[0]) for each in settings):
        raise ValueError(
            "settings: expected dicts with the same keys, at least one, received "
            f"{settings!r:.200}. Give every setting the same keys."
        )
    checks.as_positive_int(num_seeds, "num_seeds")
    features, labels = model.predict_features(train[0]), np.asarray(train[1])
    held, held_labels = model.predict_features(validation[0]), np.asarray(validation[1])
    others = {name: model.predict_features(inputs) for name, inputs in (ood or {}).items()}
    optimizer = keras.optimizers.serialize(keras.optimizers.get(optimizer))
    found = []
    for setting in settings:
        seeds = []
        for seed in range(num_seeds):
            keras.utils.set_random_seed(seed)  # the order of the examples
            head = model.head_only(fresh=True, seed=seed, **setting)
            head.compile(keras.optimizers.deserialize(optimizer), run_eagerly=run_eagerly)
            head.fit(features, labels, batch_size=batch_size, epochs=epochs, verbose=0)
            seeds.append(_measured(head, held, held_labels, others))
        found.append(seeds)
    return _summary(settings, found, len(held_labels), num_seeds)


def _measured(head, held, labels, others):
    """Values of each validation example, and metrics of all, for one seed."""
    answer = head.predict_uncertainty(held)
    probs = answer["probs"].astype(np.float64)
    right = probs[np.arange(len(labels)), labels]
    return {
        "nll": -np.log(np.maximum(right, np.finfo(np.float32).tiny)),
        "accuracy": (probs.argmax(axis=-1) == labels).astype(np.float64),
        "ece": metrics.expected_calibration_error(answer["probs"], labels),
        "auroc": {
            name: metrics.auroc(answer["knowledge"], head.predict_uncertainty(x)["knowledge"])
            for name, x in others.items()
        },
    }


def _summary(settings, found, num_examples, num_seeds):
    values = {
        name: np.array([np.mean([seed[name] for seed in seeds], axis=0) for seeds in found])
        for name in ("nll", "accuracy")
    }
    best = values["nll"].mean(axis=1).argmin()

    def interval(row):
        ends: Any = metrics.mean_interval(row)
        return Interval(*ends)

    trials = [
        Trial(
            settings=dict(setting),
            nll=interval(nll),
            accuracy=interval(accuracy),
            worse=interval(nll - values["nll"][best]),
            nll_stddev=float(np.std([seed["nll"].mean() for seed in seeds], ddof=num_seeds > 1)),
            ece=float(np.mean([seed["ece"] for seed in seeds])),
            auroc={
                name: float(np.mean([seed["auroc"][name] for seed in seeds]))
                for name in seeds[0]["auroc"]
            },
        )
        for setting, seeds, nll, accuracy in zip(
            settings, found, values["nll"], values["accuracy"], strict=True
        )
    ]
    trials.sort(key=lambda trial: trial.nll.estimate)
    return Tuning(tuple(trials), num_examples, num_seeds)


def _cell(interval, scale):
    digits = 3 if scale == 1 else 1
    values = (scale * value for value in (interval.estimate, interval.low, interval.high))
    return "{:.{d}f} [{:.{d}f}, {:.{d}f}]".format(*values, d=digits)
