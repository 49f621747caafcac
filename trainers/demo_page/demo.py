"""What the demo page shows: models side by side, and examples of what they know and do not.

Its numbers are predictions, their rank among known inputs, and thresholds by risk.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from s2d_tf import data, posthoc, uncertainty, zoo
from s2d_tf.errors import UserError
from s2d_tf.evaluation import names, runs_and_entries
from s2d_tf.models import Predictor

DEFAULT = ("wrn_10_2_s2.individual.digits", "wrn_10_2_s2.s2d.digits")
"""Shipped with their data, so that the demo needs neither network nor downloads."""
MAX_MODELS = 4
EXAMPLES = 2000
"""Known examples, at most, behind the distributions and the thresholds."""
UNKNOWN_EXAMPLES = 500
SCORES = ("total", "data", "knowledge")
RISKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
CONFIDENCE = 0.95
BINS = 36
LEAST = 1e-6  # nats, where the axis of uncertainties begins at the earliest
TYPICAL, HARD, UNKNOWN = 8, 4, 4
"""Samples on the page: known, known with the highest uncertainty, of each unknown dataset."""
_TITLES = {"individual": "Plain classifier", "s2d": "S2D classifier"}


@dataclasses.dataclass(frozen=True)
class Demo:
    """Models side by side, and what they are compared on.

    Attributes:
        models: `{title: predictor}`; all take the same inputs, images of one size or texts, and
            have the same classes.
        known: `(inputs, labels)` like those that the models were trained on, but not among them.
            Distributions and thresholds come from these; `None` leaves both out.
        unknown: `{name: inputs}` that belong to none of the classes.
        data_name: what to call the known inputs.
        note: why examples are missing.
        fills: whether known images fill their frame, so that drawings are enlarged to fill it, too.

    Example:

    >>> demo = Demo({"mine": zoo.load("wrn_10_2_s2.s2d.digits")})
    >>> demo.kind
    'image'
    """

    models: dict[str, Predictor]
    known: tuple[np.ndarray, np.ndarray] | None = None
    unknown: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    data_name: str = "known inputs"
    note: str = ""
    fills: bool = False

    def __post_init__(self) -> None:
        UserError.unless(
            1 <= len(self.models) <= MAX_MODELS,
            f"models: expected 1 to {MAX_MODELS}, which a page has room for, received "
            f"{len(self.models)}. Choose which to show.",
        )
        first, *others = self.models.values()
        same = [first.contract.fits(other.contract) for other in others]
        classes = {(each.num_classes, *(each.class_names or ())) for each in self.models.values()}
        UserError.unless(
            all(same) and len(classes) <= 1,
            "models: expected the same inputs and classes for all, received models of "
            f"different ones as {list(self.models)}. Show them one by one.",
        )
        UserError.unless(
            self.kind,
            "models: expected a model of images of one size with pixels from 0 to 255, or of "
            f"texts, received one of {self.contract.tensors}. Use `predict_uncertainty`.",
        )

    @property
    def contract(self) -> Any:
        """What all models take."""
        return next(iter(self.models.values())).contract

    @property
    def kind(self) -> str | None:
        """What goes in: "image", "text", or `None` for what the page has no way to enter."""
        contract = self.contract
        if contract.takes_raw_pixels and None not in contract.image.shape:
            return "image" if contract.image.shape[-1] in (1, 3) else None
        return "text" if [each.dtype for each in contract.tensors] == ["string"] else None

    @property
    def class_names(self) -> list[str]:
        """One for each class; numbers where the models have no names."""
        model = next(iter(self.models.values()))
        return [str(name) for name in model.class_names or range(model.num_classes)]


def open_demo(
    where: Sequence[str | os.PathLike] = (),
    data_dir: str | None = None,
    folder: str | os.PathLike | None = None,
    examples: int = EXAMPLES,
) -> Demo:
    """Opens models by name and looks for the data of the first.

    Args:
        where: zoo entries or run directories, as `zoo.open_model` takes them. A single entry
            of the zoo is shown beside its twin, a plain classifier beside S2D. Default: `DEFAULT`.
        data_dir: TFDS folder.
        folder: images of a run on own data, if they have moved.
        examples: known examples to read, at most.

    Returns:
        The `Demo`; without examples, and with a note that says why, where the data is not
        available.

    Example:

    >>> demo = open_demo(["wrn_10_2_s2.s2d.digits"])
    >>> list(demo.models), len(demo.known[0])
    (['Plain classifier', 'S2D classifier'], 1283)
    """
    chosen = _with_twin(list(where) or list(DEFAULT))
    opened = [zoo.open_model(each) for each in chosen]
    titles = [_TITLES.get(each.recipe.method, each.recipe.title) for each in opened]
    if len(set(titles)) < len(titles):
        titles = [f"{title} ({place})" for title, place in zip(titles, chosen, strict=True)]
    models = {title: each.predictor for title, each in zip(titles, opened, strict=True)}
    recipe, run = opened[0].recipe, opened[0].run
    try:
        place = runs_and_entries.own_folder(run, folder) if run is not None else None
        inputs, labels = recipe.load_arrays("test", data_dir, place)
    except data.MissingDataError as error:
        return Demo(models, note=f"No distribution and no threshold: {error}")
    unknown, missing = {}, []
    for name in recipe.out_of_distribution:
        try:
            found, _ = data.load_arrays(name, "test", data_dir)
            unknown[names.dataset_title(name)] = _some(UNKNOWN_EXAMPLES, found)[0]
        except data.MissingDataError:
            missing.append(names.dataset_title(name))
    return Demo(
        models,
        known=_some(examples, inputs, labels),
        unknown=unknown,
        data_name=names.dataset_title(recipe.source_dataset),
        note=f"Not available on this machine: {', '.join(missing)}." if missing else "",
        fills=recipe.source_dataset == "digits",
    )


def _with_twin(where):
    """A single zoo entry with its twin, if that has weights; anything else as it is."""
    if len(where) != 1 or where[0] not in zoo.names(pretrained=True):
        return where
    architecture, method, dataset = where[0].split(".")
    pair = next((pair for pair in names.TWINS.items() if method in pair), ("individual", method))
    found = [f"{architecture}.{each}.{dataset}" for each in pair]
    return found if set(found) <= set(zoo.names(pretrained=True)) else where


def _some(count, *arrays):
    """At most `count` examples, evenly spaced, since some datasets are sorted by class."""
    size = len(arrays[0])
    chosen = np.linspace(0, size - 1, min(count, size)).astype(int)
    return tuple(array[chosen] for array in arrays)


@dataclasses.dataclass(frozen=True)
class Sample:
    """An example to choose on the page: its input, its group, and its class where it has one."""

    input: np.ndarray | str
    group: str
    truth: str | None = None


class Content:
    """What the page shows of a `Demo`, computed from its examples once.

    Args:
        demo: the models and examples.
    """

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        self._known = self._unknown = None
        if demo.known is not None:
            inputs, self._labels = demo.known
            self._known = self._predict(inputs)
        if demo.unknown:
            self._unknown = self._predict(np.concatenate(list(demo.unknown.values())))

    def _predict(self, inputs):
        return [model.predict_uncertainty(inputs) for model in self.demo.models.values()]

    def predict(self, inputs: np.ndarray) -> list[dict]:
        """One prediction of each model for one input, as JSON values.

        `below` is the share of known inputs with a lower uncertainty. `added` is what fitted
        steps return.
        """
        found = []
        for index, values in enumerate(self._predict(inputs)):
            answer = {key: value[0] for key, value in values.items()}
            below = self._known and {
                name: float(np.mean(self._known[index][name] < answer[name])) for name in SCORES
            }
            scores = {name: float(answer[name]) for name in uncertainty.SCORES}
            added = answer.keys() - {"probs", "label", *scores}
            plain = {name: self._plain(answer[name]) for name in sorted(added)}
            found.append(
                {"probs": answer["probs"].tolist(), **scores, "below": below, "added": plain}
            )
        return found

    def describe(self) -> dict:
        """All that the page needs before the first answer, as JSON values."""
        demo, edges = self.demo, self._edges
        return {
            "kind": demo.kind,
            "classes": demo.class_names,
            "data_name": demo.data_name,
            "note": demo.note,
            "examples": 0 if demo.known is None else len(self._labels),
            "unknown": list(demo.unknown),
            "shape": list(demo.contract.image.shape) if demo.kind == "image" else None,
            "draw": self._drawing(),
            "risks": list(RISKS),
            "confidence": CONFIDENCE,
            "axis": [float(edges[0]), float(edges[-1])],
            "models": [self._model(i, *each) for i, each in enumerate(demo.models.items())],
            "samples": [
                {"group": sample.group, "truth": sample.truth}
                | ({"text": str(sample.input)} if demo.kind == "text" else {})
                for sample in self.samples
            ],
        }

    @functools.cached_property
    def samples(self) -> list[Sample]:
        """Known ones of all classes, those that the last model is least certain of, unknown ones.

        The last one, since that is S2D where the models are a pair.
        """
        demo, chosen = self.demo, []
        if demo.known and self._known:
            inputs, names = demo.known[0], demo.class_names
            certain = np.argsort(self._known[-1]["total"])
            groups = {"Known": self._typical(certain), "Known, but hard": certain[: -HARD - 1 : -1]}
            chosen += [
                Sample(inputs[i], group, names[self._labels[i]] if self._labels[i] >= 0 else None)
                for group, indices in groups.items()
                for i in indices
            ]
        for name, inputs in demo.unknown.items():
            chosen += [Sample(each, name) for each in _some(UNKNOWN, inputs)[0]]
        return chosen

    def _typical(self, certain):
        """Of up to `TYPICAL` classes, the example in the middle of the order `certain`."""
        (classes,) = _some(TYPICAL, np.unique(self._labels))
        found = [certain[self._labels[certain] == each] for each in classes]
        return [indices[len(indices) // 2] for indices in found]

    def _model(self, index, title, model):
        scores = SCORES if model.decomposes else ("total",)
        return {
            "title": title,
            "name": str((model.metadata or {}).get("name", "")),
            "decomposes": model.decomposes,
            "parameters": model.num_parameters,
            "members": model.num_members,
            "known": self._counts(self._known, index, scores),
            "unknown": self._counts(self._unknown, index, scores),
            "rules": {name: self._rules(index, name) for name in scores},
        }

    def _rules(self, index, score):
        """For each risk, above which score to abstain; `None` where no threshold keeps to it."""
        if not self._known or (self._labels < 0).any():
            return None
        errors = self._known[index]["probs"].argmax(axis=-1) != self._labels
        rule = functools.partial(posthoc.choose_threshold, self._known[index][score], errors)
        chosen = [rule(risk, CONFIDENCE) for risk in RISKS]
        return [
            each and dict(zip(("threshold", "coverage"), each, strict=False)) for each in chosen
        ]

    def _counts(self, predictions, index, scores):
        """Shares of inputs in each bin of the axis."""
        if not predictions:
            return None
        values = {name: predictions[index][name].clip(*self._edges[[0, -1]]) for name in scores}
        return {
            name: (np.histogram(each, self._edges)[0] / len(each)).round(5).tolist()
            for name, each in values.items()
        }

    @functools.cached_property
    def _edges(self):
        """Edges of the bins, evenly spaced by their logarithm: most uncertainties are near 0."""
        answers = (self._known or []) + (self._unknown or [])
        values = np.concatenate([*(each[name] for each in answers for name in SCORES), [1e-4]])
        lowest = np.quantile(values[values > LEAST], 0.02)
        first = np.clip(np.floor(np.log10(lowest)), np.log10(LEAST), -2)
        return np.geomspace(10.0**first, np.log(len(self.demo.class_names)), BINS + 1)

    def _drawing(self):
        """How to draw an input by hand: only gray images, with light ink where most is dark."""
        demo = self.demo
        if demo.kind != "image" or demo.contract.image.shape[-1] != 1:
            return None
        light = demo.known is None or np.mean(demo.known[0]) < 128
        return {"ink": 255 if light else 0, "fill": demo.fills}

    def _plain(self, value):
        """A step's value as JSON; a set as the names of its classes."""
        if not value.ndim:
            return value.item()
        return [self.demo.class_names[i] for i in np.flatnonzero(value)]
