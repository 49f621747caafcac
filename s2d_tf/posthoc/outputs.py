"""What a network gave for some data: computed once, read by many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import s2d_tf._backend  # noqa: F401
from s2d_tf._types import Data, Inputs

# isort: split
import numpy as np
import tensorflow as tf

from s2d_tf.models import Predictor
from s2d_tf.models import inputs as inputs_lib

ROWS = 1024
"""Cached examples that are scored at once: KNN and FeatureDensity take 200 MB for them."""
FIT_ROWS = 8192
"""Cached examples that a fit reads at once."""


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Cached outputs of a network, which fits and predictions take in place of inputs.

    A post-hoc predictor applies all of its steps to them, so they are those of the network itself.

    Args:
        member_logits: `[members, n, classes]`, or `[n, classes]` for one member.
        features: `[n, d]`; `None` where no step reads them.
        labels: `[n]` class indices, where they are known.

    Example:

    >>> outputs = posthoc.collect(model, (images, labels))
    >>> knn = posthoc.KNN(k=5).fit(model, outputs)
    >>> knn.score(outputs).shape
    (40,)
    """

    member_logits: np.ndarray
    features: np.ndarray | None = None
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        members = np.asarray(self.member_logits, np.float32)
        members = members[None] if members.ndim == 2 else members
        if members.ndim != 3:
            raise ValueError(
                "member_logits: expected the shape [members, n, classes] or [n, classes], "
                f"received {members.shape}. Put the members first."
            )
        object.__setattr__(self, "member_logits", members)
        for name in ("features", "labels"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self):
                raise ValueError(
                    f"{name}: expected {len(self)} rows as in member_logits, received "
                    f"{len(values)}. Pass values of the same examples."
                )

    def __len__(self) -> int:
        return self.member_logits.shape[1]

    def rows(self, start: int, stop: int) -> Outputs:
        """A slice of the examples."""
        part = slice(start, stop)
        return Outputs(
            self.member_logits[:, part],
            None if self.features is None else self.features[part],
            None if self.labels is None else self.labels[part],
        )


def read(
    network: Predictor, data: Data, features: bool, batch_size: int, rows: int = ROWS
) -> Iterator[Outputs]:
    """Blocks of outputs, from cached ones or by running the network; memory stays constant."""
    if isinstance(data, Outputs):
        expected = (network.num_members, len(data), network.num_classes)
        if data.member_logits.shape != expected:
            raise ValueError(
                f"data: expected outputs of this network with member_logits of shape {expected}, "
                f"received {data.member_logits.shape}. Collect them from this network."
            )
        if features and data.features is None:
            raise ValueError(
                "data: expected outputs with features, received ones without. Collect them with "
                "features=True."
            )
        blocks = (data.rows(i, i + rows) for i in range(0, len(data), rows))
    else:
        blocks = _run(network, data, features, batch_size)
    seen = 0
    for block in blocks:
        seen += len(block)
        yield block
    if not seen:
        raise ValueError("data: expected at least one example, received none. Check the data.")


def forward(network: Predictor, inputs: Inputs, features: bool) -> dict[str, tf.Tensor]:
    """Member logits and, if requested, features of one batch, in one pass; traceable."""
    if not features:
        return {"member_logits": tf.cast(network.member_logits(inputs), tf.float32)}
    vectors = tf.cast(network.features(inputs), tf.float32)
    if network.num_members == 1:
        kernel, bias = linear_head(network)
        members = (tf.matmul(vectors, kernel) + bias)[None]
    else:
        members = tf.cast(network.member_logits(inputs), tf.float32)
    return {"member_logits": members, "features": vectors}


def linear_head(network: Predictor) -> tuple[tf.Tensor, tf.Tensor]:
    """Kernel `[d, classes]` and bias `[classes]` of a network's only linear head."""
    layer = network.last_layer
    kernel = tf.convert_to_tensor(layer.kernel)
    if kernel.shape.rank == 3:
        if kernel.shape[0] != 1:
            raise ValueError(
                f"model: expected a network with one head, received one with {kernel.shape[0]}. "
                "Use a step that does not read the head, such as KNN."
            )
        kernel = kernel[0]
    bias = getattr(layer, "bias", None)
    classes = kernel.shape[-1]
    bias = (
        tf.zeros([classes]) if bias is None else tf.reshape(tf.convert_to_tensor(bias), [classes])
    )
    return tf.cast(kernel, tf.float32), tf.cast(bias, tf.float32)


def sample(blocks: Iterator[np.ndarray], size: int, seed: int) -> np.ndarray:
    """Up to `size` rows of a stream, each with the same chance, in the order of the stream."""
    random = np.random.default_rng(seed)
    kept: list[np.ndarray] = []
    keys = np.empty(0)

    def smallest():
        if len(keys) <= size:
            return [np.concatenate(kept)], keys
        chosen = np.sort(np.argpartition(keys, size)[:size])
        return [np.concatenate(kept)[chosen]], keys[chosen]

    for block in blocks:
        kept.append(np.asarray(block))
        keys = np.concatenate([keys, random.random(len(block))])
        if len(keys) > 2 * size:
            kept, keys = smallest()
    return smallest()[0][0]


def _run(network, data, features, batch_size):
    name = "outputs_and_features" if features else "outputs"
    compute = network.traced(name, lambda inputs: forward(network, inputs, features))
    contract = network.contract
    for batch, targets in inputs_lib.batches(data, contract, batch_size):
        found = compute(batch)
        values = {key: value.numpy() for key, value in found.items()}
        yield Outputs(**values, labels=None if targets is None else np.asarray(targets))
