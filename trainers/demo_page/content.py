"""The numbers of the demo page: predictions, their rank among known inputs, thresholds by risk."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from s2d_tf import posthoc, uncertainty

from .demo import Demo

SCORES = ("total", "data", "knowledge")
RISKS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2)
CONFIDENCE = 0.95
BINS = 36
LEAST = 1e-6
"""Where the axis of uncertainties begins at the earliest, in nats."""
TYPICAL, HARD, UNKNOWN = 8, 4, 4
"""Samples on the page: known, known with the highest uncertainty, of each unknown dataset."""


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
            probs, scores = (
                answer.pop("probs"),
                {n: float(answer.pop(n)) for n in uncertainty.SCORES},
            )
            answer.pop("label", None)
            added = {name: self._plain(value) for name, value in answer.items()}
            found.append({"probs": probs.tolist(), **scores, "below": below, "added": added})
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
        if self._known:
            inputs, names = demo.known[0], demo.class_names
            certain = np.argsort(self._known[-1]["total"])
            groups = {"Known": self._typical(certain), "Known, but hard": certain[: -HARD - 1 : -1]}
            chosen += [
                Sample(inputs[i], group, names[self._labels[i]] if self._labels[i] >= 0 else None)
                for group, indices in groups.items()
                for i in indices
            ]
        for name, inputs in demo.unknown.items():
            places = np.linspace(0, len(inputs) - 1, min(UNKNOWN, len(inputs))).astype(int)
            chosen += [Sample(inputs[i], name) for i in places]
        return chosen

    def _typical(self, certain):
        """Of up to `TYPICAL` classes, the example in the middle of the order `certain`."""
        classes = np.unique(self._labels)
        chosen = classes[np.linspace(0, len(classes) - 1, min(TYPICAL, len(classes))).astype(int)]
        found = [certain[self._labels[certain] == each] for each in chosen]
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
        values = self._known[index][score]
        chosen = [posthoc.choose_threshold(values, errors, risk, CONFIDENCE) for risk in RISKS]
        return [
            each and dict(zip(("threshold", "coverage"), each, strict=False)) for each in chosen
        ]

    def _counts(self, predictions, index, scores):
        """Shares of inputs in each bin of the axis."""

        def share(values):
            counts, _ = np.histogram(np.clip(values, self._edges[0], self._edges[-1]), self._edges)
            return (counts / len(values)).round(5).tolist()

        return predictions and {name: share(predictions[index][name]) for name in scores}

    @functools.cached_property
    def _edges(self):
        """Edges of the bins, evenly spaced by their logarithm: most uncertainties are near 0."""
        highest = np.log(len(self.demo.class_names))
        found = [
            answers[name]
            for answers in (self._known or []) + (self._unknown or [])
            for name in SCORES
        ]
        values = np.concatenate([*found, [1e-4]])
        lowest = np.quantile(values[values > LEAST], 0.02)
        first = np.clip(np.floor(np.log10(lowest)), np.log10(LEAST), -2)
        return np.geomspace(10.0**first, highest, BINS + 1)

    def _drawing(self):
        """How to draw an input by hand: only gray images, with light ink where most is dark."""
        demo = self.demo
        if demo.kind != "image" or demo.contract.image.shape[-1] != 1:
            return None
        light = demo.known is None or float(np.mean(demo.known[0])) < 128
        return {"ink": 255 if light else 0, "fill": demo.fills}

    def _plain(self, value):
        """A step's value as JSON; a set as the names of its classes."""
        if not value.ndim:
            return value.item()
        return [self.demo.class_names[i] for i in np.flatnonzero(value)]
