"""The data of a fit, as the model predicts it, and checks of data and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from s2d_tf._types import ArrayLike, Data
from s2d_tf.models import Predictor
from s2d_tf.models.inputs import class_numbers
from s2d_tf.posthoc.predictor import (
    ROWS,
    Outputs,
    State,
    after_steps,
    chain,
    linear_head,
    read,
    reads_features,
    root,
)

FIT_ROWS = 8192
"""Cached examples that a fit reads at once."""
MAX_EXAMPLES = 50_000
"""Feature vectors that a fit holds at once; of more, a random part is used."""


class FitData:
    """The data of a fit, as the model predicts it before the step; read block by block."""

    def __init__(self, model: Predictor, data: Data, batch_size: int) -> None:
        self.model = model
        self.data = data
        self.batch_size = batch_size

    def states(self, features: bool = False) -> Iterator[tuple[State, Any]]:
        """States of the model and labels, which may be `None`."""
        network, features = root(self.model), features or reads_features(self.model)
        if isinstance(self.data, Outputs):
            # Few large blocks are faster, but only without steps that need memory for each example.
            rows = ROWS if chain(self.model) else FIT_ROWS
            blocks = self.data.blocks(network, features, rows)
        else:
            blocks = read(network, self.data, features, self.batch_size)
        return ((after_steps(self.model, block), block.labels) for block in blocks)

    def labeled_states(self, features: bool = False) -> Iterator[tuple[State, np.ndarray]]:
        """States of the model and class numbers."""
        for state, labels in self.states(features):
            yield state, self._class_numbers(labels, state.member_logits.shape[1])

    def features(self) -> Iterator[np.ndarray]:
        """Feature vectors `[n, d]`."""
        for state, _ in self.states(features=True):
            yield finite(state.features.numpy(), "features")

    def labeled_features(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Feature vectors `[n, d]` and class numbers `[n]`."""
        for state, labels in self.labeled_states(features=True):
            yield finite(state.features.numpy(), "features"), labels

    def sample_features(self, seed: int, size: int = MAX_EXAMPLES) -> np.ndarray:
        """Feature vectors of all examples, or of `size` random ones."""
        return sample(self.features(), size, seed)

    def gather(self, *names: str) -> dict[str, np.ndarray]:
        """All labels, and values of all examples by their key, or `member_logits`."""
        found: dict[str, list] = {name: [] for name in (*names, "labels")}
        for state, labels in self.labeled_states():
            for name in names:
                value = state.member_logits if name == "member_logits" else state.values()[name]
                found[name].append(value.numpy())
            found["labels"].append(labels)
        axes = {"member_logits": 1}
        return {name: np.concatenate(found[name], axis=axes.get(name, 0)) for name in found}

    def head(self) -> dict[str, np.ndarray]:
        """`linear_head` of the network, as arrays."""
        return {name: value.numpy() for name, value in linear_head(root(self.model)).items()}

    def _class_numbers(self, labels: ArrayLike | None, num_examples: int) -> np.ndarray:
        found, num_classes = class_numbers(labels, num_examples, "data"), self.model.num_classes
        outside = found[(found < 0) | (found >= num_classes)]
        if outside.size:
            raise ValueError(
                f"data: expected labels from 0 to {num_classes - 1}, received {int(outside[0])}. "
                "Pass (inputs, labels), without examples of an unknown class."
            )
        return found


def sample(blocks: Iterator[np.ndarray], size: int, seed: int) -> np.ndarray:
    """Up to `size` rows of a stream, each with the same chance, in the order of the stream."""
    random = np.random.default_rng(seed)
    kept: list[np.ndarray] = []
    keys = np.empty(0)

    def with_smallest_keys():
        rows = np.concatenate(kept)
        if len(rows) <= size:
            return [rows], keys
        chosen = np.sort(np.argpartition(keys, size)[:size])
        return [rows[chosen]], keys[chosen]

    for block in blocks:
        kept.append(block)
        keys = np.concatenate([keys, random.random(len(block))])
        if len(keys) > 2 * size:
            kept, keys = with_smallest_keys()
    return with_smallest_keys()[0][0]


def finite(values: np.ndarray, name: str) -> np.ndarray:
    """The same array, without NaN and infinity."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"data: expected finite {name}, received NaN or infinity. Check the inputs and the "
            "model's weights."
        )
    return values


def check_num_examples(received: int, least: int) -> None:
    if received < least:
        raise ValueError(
            f"data: expected at least {least} examples, received {received}. Add examples."
        )


def check_every_class(counts: np.ndarray) -> None:
    """Raises a `ValueError` where a class has no examples."""
    missing = np.flatnonzero(counts == 0)
    if missing.size:
        raise ValueError(
            f"data: expected examples of each class, received 0 of class {missing[0]} "
            f"({missing.size} classes without). Add examples of these classes."
        )


def fraction(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ValueError(
            f"{name}: expected a number between 0 and 1, received {value!r}. Pass a fraction."
        )
    return float(value)


def positive(value: Any, name: str, kind: type = float) -> Any:
    """A number above 0; `kind=int` for a whole one."""
    allowed = (int, float) if kind is float else int
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < float("inf"):
        what = "a whole number" if kind is int else "a number"
        raise ValueError(
            f"{name}: expected {what} above 0, received {value!r}. Pass such a number."
        )
    return kind(value)


def choice(value: Any, name: str, known: tuple) -> str:
    if value not in known:
        raise ValueError(f"{name}: expected one of {list(known)}, received {value!r}. Correct it.")
    return value
