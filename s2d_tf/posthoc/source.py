"""The data of a fit, as the model predicts it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from s2d_tf._types import Data
from s2d_tf.models import Predictor
from s2d_tf.posthoc import checks
from s2d_tf.posthoc import outputs as outputs_lib
from s2d_tf.posthoc.outputs import Outputs
from s2d_tf.posthoc.predictor import State, chain, root, states

MAX_EXAMPLES = 50_000
"""Feature vectors that a fit holds at once; of more, a random part is used."""


class Source:
    """The data of a fit, as the model predicts it; read block by block."""

    def __init__(self, model: Predictor, data: Data, batch_size: int) -> None:
        self.model = model
        self.data = data
        self.batch_size = batch_size

    def blocks(self, features: bool = False) -> Iterator[tuple[State, np.ndarray | None]]:
        """States of the model before the step that is fitted, and labels."""
        # Few large blocks are faster, but only without steps that need memory for each example.
        rows = outputs_lib.ROWS if chain(self.model) else outputs_lib.FIT_ROWS
        return states(self.model, self.data, features, self.batch_size, rows)

    def gather(self, *names: str) -> dict[str, np.ndarray]:
        """All labels, and values of all examples by their key, or `member_logits`."""
        found: dict[str, list] = {name: [] for name in (*names, "labels")}
        for state, labels in self.blocks():
            for name in names:
                value = state.member_logits if name == "member_logits" else state.values()[name]
                found[name].append(value.numpy())
            found["labels"].append(self.labels(labels, state))
        axes = {"member_logits": 1}
        return {name: np.concatenate(found[name], axis=axes.get(name, 0)) for name in found}

    def labels(self, labels: np.ndarray | None, state: State) -> np.ndarray:
        """Checked labels of one block."""
        return checks.labels(labels, state.member_logits.shape[1], self.model.num_classes)

    def sample_features(self, seed: int, size: int = MAX_EXAMPLES) -> np.ndarray:
        """Feature vectors of all examples, or of `size` random ones."""
        vectors = (state.features.numpy() for state, _ in self.blocks(features=True))
        return checks.finite(outputs_lib.sample(vectors, size, seed), "features")

    def head(self) -> dict[str, np.ndarray]:
        """The network's linear head, `{"kernel": [d, classes], "bias": [classes]}`."""
        kernel, bias = outputs_lib.linear_head(root(self.model))
        return {"kernel": kernel.numpy(), "bias": bias.numpy()}


def collect(model: Predictor, data: Data, features: bool = True, batch_size: int = 256) -> Outputs:
    """Runs a network over all data and keeps what post-hoc steps read.

    Args:
        model: a predictor; of one with post-hoc steps the network inside is run.
        data: `(inputs, labels)`, inputs alone, or a `tf.data.Dataset` of either.
        features: whether to keep feature vectors; only single networks have them.
        batch_size: how many inputs to hold at once.

    Example:

    >>> outputs = posthoc.collect(model, (images, labels))
    >>> outputs.member_logits.shape, outputs.features.shape
    ((1, 40, 3), (40, 8))
    """
    parts = list(outputs_lib.read(root(model), data, features, batch_size))
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("features", "labels")
        if getattr(parts[0], name) is not None
    }
    return Outputs(np.concatenate([part.member_logits for part in parts], axis=1), **joined)
