"""Member predictions of a model on a dataset, computed once and kept; and their scores.

A file is named after the dataset, the split and a hash of all that decides its content: the
weights, how members are drawn, and the inputs with their order. Whatever changes, the old file is
no longer found. Outputs are kept in float32, as the network gave them, so that metrics from the
cache are those of a fresh pass to the last bit. An ensemble keeps one file per member, which the
evaluation of that member finds again; a Gaussian student keeps its two outputs and not its draws.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf import data, files, models, uncertainty
from s2d_tf._types import ArrayLike, PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation.sources import open_source

# Raised when networks or draws answer differently for the same weights.
FORMAT = 1
# Some megabytes with all temporaries, which stay in the processor's cache.
CHUNK_ELEMENTS = 2**18


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a model predicted on one split of a dataset; `evaluation.predict` makes it.

    Attributes:
        kind: "categorical" or "dirichlet".
        parts: for each network its raw outputs, float32 `[outputs, n, classes]`, and the function
            from any range of them, `[outputs, m, classes]`, to members `[members, m, classes]`; one
            after the other they are the whole stack.
        labels: int64 `[n]`, -1 where unknown.
        dataset, split: names; the split is "" where there is none.
        fingerprint: the data's, whatever its order.
        seconds: time of the forward passes; 0 where all came from the cache.
        inputs: hash of the inputs in their order.

    Example:

    >>> predictions = evaluation.predict(model, (images, labels))
    >>> len(predictions), predictions.kind
    (40, 'dirichlet')
    """

    kind: str
    parts: tuple[tuple[np.ndarray, Callable], ...]
    labels: np.ndarray
    dataset: str
    split: str
    fingerprint: str
    seconds: float = 0.0
    inputs: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_members(self) -> int:
        return len(self.rows(0, 1))

    def rows(self, start: int, stop: int) -> np.ndarray:
        """All members for a range of examples, `[members, stop - start, classes]`."""
        return np.concatenate([members(raw[:, start:stop]) for raw, members in self.parts])

    def chunks(self) -> Iterator[np.ndarray]:
        """The whole stack in pieces of bounded size, in the order of the examples."""
        step = max(1, CHUNK_ELEMENTS // self.rows(0, 1).size)
        for start in range(0, len(self), step):
            yield self.rows(start, min(start + step, len(self)))


@dataclasses.dataclass(frozen=True)
class Scored:
    """A dataset as a model sees it.

    Attributes:
        log_probs: float64 `[n, K]`, the log of the members' mean prediction.
        scores: `{uncertainty: [n]}`, larger is more uncertain. "confidence" is the negated log of
            the largest probability; "data" and "knowledge" are missing where a prediction does not
            decompose.
        labels: int64 `[n]`.

    Example:

    >>> scored = evaluation.score(evaluation.predict(model, (images, labels)))
    >>> scored.probs.shape, scored.errors.dtype
    ((40, 3), dtype('bool'))
    """

    log_probs: np.ndarray
    scores: dict[str, np.ndarray]
    labels: np.ndarray

    @property
    def probs(self) -> np.ndarray:
        return np.exp(self.log_probs)

    @property
    def errors(self) -> np.ndarray:
        """Where the most probable class is not the label."""
        return self.log_probs.argmax(axis=-1) != self.labels


def predict(
    predictor: models.Predictor,
    dataset: Any,
    split: str = "test",
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    name: str = "data",
) -> Predictions:
    """Predicts a dataset, from the cache where its predictions are in it.

    Args:
        predictor: the model.
        dataset: one of `data.names()`, arrays or a `tf.data.Dataset`; see `sources.open_source`.
            A `tf.data.Dataset` is streamed: only labels and predictions stay in memory.
        split: split of a registered dataset.
        data_dir: TFDS folder.
        cache_dir: folder to look in and to write to; None keeps nothing.
        batch_size: examples per forward pass.
        name: of data that is not registered.

    Example:

    >>> predictions = evaluation.predict(model, (images, labels), name="mine")
    >>> predictions.rows(0, 10).shape
    (1, 10, 3)
    """
    source = open_source(predictor, dataset, name, split, data_dir, batch_size, labeled=True)
    began, parts = time.monotonic(), predictor.cached_predictors
    content: Any = None
    raw: list[Any] = [None] * len(parts)
    paths: list[Any] = [None] * len(parts)
    if cache_dir:
        content = source.content()
        stem = f"{source.name}.{source.split}" if source.split else source.name
        paths = [_path(pathlib.Path(cache_dir), stem, part, content) for part in parts]
        shapes = [(len(content), part.num_classes) for part in parts]
        raw = [read_array(*pair) for pair in zip(paths, shapes, strict=True)]
    missing = [i for i, held in enumerate(raw) if held is None]
    if missing:
        seen, made = _forward(source, [parts[i] for i in missing], batch_size)
        if content and content.inputs != seen.inputs:
            raise UserError(
                f"{source.name}: expected the same examples in the same order in every pass, "
                "received others in the second. Remove the shuffling, or evaluate without a cache."
            )
        content = seen
        for i, array in zip(missing, made, strict=True):
            raw[i] = array
            if paths[i]:
                files.write_array(paths[i], array)
    return Predictions(
        kind=predictor.kind,
        parts=tuple((r, p.members_from_raw) for r, p in zip(raw, parts, strict=True)),
        labels=content.labels,
        dataset=source.name,
        split=source.split,
        fingerprint=content.fingerprint,
        seconds=time.monotonic() - began if missing else 0.0,
        inputs=content.inputs,
    )


def score(predictions: Predictions) -> Scored:
    """`Scored` of `Predictions`, chunk by chunk.

    Example:

    >>> scored = evaluation.score(evaluation.predict(model, (images, labels)))
    >>> list(scored.scores)
    ['confidence', 'total', 'data', 'knowledge']
    """
    parts = [scores(predictions.kind, chunk) for chunk in predictions.chunks()]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Scored(joined.pop("log_probs"), joined, predictions.labels)


def scores(kind: str, member_logits: ArrayLike) -> dict[str, np.ndarray]:
    """Log-probabilities and uncertainty scores of a member stack.

    Args:
        kind: "categorical" or "dirichlet".
        member_logits: `[members, n, K]`, logits, or log-concentrations of Dirichlets.

    Returns:
        Dict of float64 arrays: "log_probs" `[n, K]` and `[n]` "confidence", "total" and, unless it
        is a single categorical prediction, "data" and "knowledge".

    Example:

    >>> kind, member_logits = model.predict_members(images)
    >>> sorted(evaluation.scores(kind, member_logits))
    ['confidence', 'data', 'knowledge', 'log_probs', 'total']
    """
    logits = np.asarray(member_logits, dtype=np.float64)
    found = _compiled(kind, logits.shape[0], logits.shape[-1])(logits)
    return {key: value.numpy() for key, value in found.items()}


def weights_hash(predictor: models.Predictor) -> str:
    """SHA-256 of all weights of a model and of how it draws members.

    Example:

    >>> len(evaluation.weights_hash(model))
    64
    """
    digest = hashlib.sha256()
    for part in predictor.cached_predictors:
        digest.update(repr((FORMAT, *part.member_settings)).encode())
        for variable in part.weights:
            value = np.ascontiguousarray(variable.numpy())
            digest.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    return digest.hexdigest()


def read_array(path: pathlib.Path | None, shape: tuple[int, int]) -> np.ndarray | None:
    """Stored float32 outputs `[outputs, *shape]`; None where missing, damaged or of another shape.

    The file stays on disk: what is read of the array is read when it is used.
    """
    try:
        raw = np.load(path, mmap_mode="r", allow_pickle=False) if path else None
    except (ValueError, OSError, EOFError):
        return None
    matches = raw is not None and raw.shape[1:] == shape and raw.dtype == np.float32
    return raw if matches else None


def _forward(source, parts, batch_size):
    """The content of a source, and the raw outputs of each part, from one pass over it."""
    content = data.Content()
    made: list[list[np.ndarray]] = [[] for _ in parts]
    for inputs, labels in source.batches():
        content.update(inputs, labels)
        for part, outputs in zip(parts, made, strict=True):
            outputs.append(part.predict_raw(inputs, batch_size))
    if not len(content):
        raise UserError(
            f"{source.name}: expected at least one example, received none. Check the data."
        )
    return content, [np.concatenate(outputs, axis=1) for outputs in made]


def _path(folder, stem, part, content):
    """Where a part's outputs are, under whatever name of the data, or where they will be."""
    key = hashlib.sha256((weights_hash(part) + content.inputs).encode()).hexdigest()[:20]
    return next(folder.glob(f"*.{key}.npy"), folder / f"{stem}.{key}.npy")


@functools.cache
def _compiled(kind, num_members, num_classes):
    # The number of members must be known to the graph: one does not decompose as many do.
    signature = [tf.TensorSpec([num_members, None, num_classes], tf.float64)]

    @tf.function(input_signature=signature)
    def compute(logits):
        answer = uncertainty.from_members(kind, logits)
        log_sum = tf.reduce_logsumexp(tf.nn.log_softmax(logits, axis=-1), axis=0)
        found = {
            "log_probs": log_sum - math.log(num_members),
            "confidence": uncertainty.confidence_score(kind, logits),
            "total": answer["total"],
        }
        if uncertainty.decomposes(kind, num_members):
            found |= {"data": answer["data"], "knowledge": answer["knowledge"]}
        return found

    return compute
