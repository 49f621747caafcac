"""The numbers of the demo page: answers, their place among known inputs, thresholds by risk."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from s2d_tf import posthoc, uncertainty
from s2d_tf._types import Inputs
from s2d_tf.models.answers import Answers

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
        self._known: list[Answers] | None = None
        self._unknown: list[Answers] | None = None
        if demo.known is not None:
            inputs, self._labels = demo.known
            self._known = [model.predict_uncertainty(inputs) for model in demo.models.values()]
        if demo.unknown:
            inputs = np.concatenate(list(demo.unknown.values()))
            self._unknown = [model.predict_uncertainty(inputs) for model in demo.models.values()]

    def predict(self, inputs: Inputs) -> list[dict]:
        """One answer of each model for one input, as JSON values.

        `below` is the share of known inputs with a lower uncertainty. `added` is what fitted
        steps answer.
        """
        found = []
        for index, model in enumerate(self.demo.models.values()):
            answer = {key: value[0] for key, value in model.predict_uncertainty(inputs).items()}
            scores = {name: float(answer[name]) for name in uncertainty.SCORES}
            added = {
                name: self._added(value)
                for name, value in answer.items()
                if name not in uncertainty.NAMES
            }
            below = None
            if self._known is not None:
                below = {
                    name: float(np.mean(self._known[index][name] < answer[name])) for name in SCORES
                }
            found.append(
                {"probs": answer["probs"].tolist(), **scores, "below": below, "added": added}
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
            "shape": self._image_shape,
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

    @property
    def _image_shape(self) -> list[Any] | None:
        image = self.demo.contract.image
        return None if image is None else list(image.shape)

    @functools.cached_property
    def samples(self) -> list[Sample]:
        """Known ones of all classes, those that the last model is least certain of, unknown ones.

        The last one, since that is S2D where the models are a pair.
        """
        demo, chosen = self.demo, []
        if demo.known is not None and self._known is not None:
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
        if self._known is None or (self._labels < 0).any():
            return None
        errors = self._known[index]["probs"].argmax(axis=-1) != self._labels
        values = self._known[index][score]
        chosen = [posthoc.choose_threshold(values, errors, risk, CONFIDENCE) for risk in RISKS]
        return [
            each and dict(zip(("threshold", "coverage"), each, strict=False)) for each in chosen
        ]

    def _counts(self, answers, index, scores):
        """Shares of inputs in each bin of the axis."""
        if answers is None:
            return None
        edges, found = self._edges, {}
        for name in scores:
            values = np.clip(answers[index][name], edges[0], edges[-1])
            counts, _ = np.histogram(values, edges)
            found[name] = (counts / len(values)).round(5).tolist()
        return found

    @functools.cached_property
    def _edges(self):
        """Edges of the bins, evenly spaced by their logarithm: most uncertainties are near 0."""
        highest = np.log(len(self.demo.class_names))
        found = [
            answers[name]
            for each in (self._known, self._unknown)
            for answers in each or ()
            for name in SCORES
        ]
        values = np.concatenate(found) if found else np.array([1e-4])
        values = values[values > LEAST]
        lowest = np.quantile(values, 0.02) if len(values) else 1e-4
        first = np.clip(np.floor(np.log10(lowest)), np.log10(LEAST), -2)
        return np.geomspace(10.0**first, highest, BINS + 1)

    def _drawing(self):
        """How to draw an input by hand: only gray images, with light ink where most is dark."""
        demo = self.demo
        if self._image_shape is None or self._image_shape[-1] != 1:
            return None
        light = demo.known is None or float(np.mean(demo.known[0])) < 128
        return {"ink": 255 if light else 0, "fill": demo.fills}

    def _added(self, value):
        if value.ndim:
            return [
                name for name, inside in zip(self.demo.class_names, value, strict=True) if inside
            ]
        return value.item()
