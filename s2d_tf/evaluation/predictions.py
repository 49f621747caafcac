"""Member predictions of a model on a data set, made once and kept beside the run.

A file is named after the data set, the split and a hash of all that decides its content: the
weights, how members are drawn, and the images with their order. Whatever changes, the old file is
no longer found. Members are kept in float32, as the network answered, so that metrics from the
cache are those of a fresh pass to the last bit. An ensemble keeps one file per member, which the
evaluation of that member finds again; a Gaussian student keeps its two outputs and not its draws.
"""

import dataclasses
import hashlib
import pathlib
import time
from typing import Protocol

import numpy as np
import tensorflow as tf

from s2d_tf import data, files, losses, models
from s2d_tf.models.predictor import image_batches
from s2d_tf.models.student import PREDICTION_SEED

# Raised when networks or draws answer differently for the same weights.
FORMAT = 1
# Some megabytes with all temporaries, which stay in the processor's cache.
CHUNK_ELEMENTS = 2**18


class Part(Protocol):
    """Some members of a prediction, for any range of examples."""

    num_members: int

    def rows(self, start, stop):
        """Float32 `[members, stop - start, classes]`."""


@dataclasses.dataclass(frozen=True)
class Members:
    """Members that were stored as they are."""

    logits: np.ndarray

    @property
    def num_members(self):
        return len(self.logits)

    def rows(self, start, stop):
        return self.logits[:, start:stop]


@dataclasses.dataclass(frozen=True)
class GaussianMembers:
    """Members drawn anew from a Gaussian over log-concentrations, `[loc and log-scale, n, K]`."""

    outputs: np.ndarray
    num_members: int

    def rows(self, start, stop):
        loc, log_scale = (tf.constant(part[start:stop]) for part in self.outputs)
        # As in `models.Student`: one draw per member, shared by all images.
        draws = [self.num_members, 1, self.outputs.shape[-1]]
        noise = tf.random.stateless_normal(draws, PREDICTION_SEED)
        return (loc + losses.scale_from_log(log_scale) * noise).numpy()


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a model answered on one split of a data set.

    Attributes:
        kind: "categorical" or "dirichlet".
        parts: where the members come from; their sum is the whole stack.
        labels: int64 `[n]`, -1 where unknown.
        dataset, split: names.
        fingerprint: the data's, whatever its order.
        seconds: time of the forward passes; 0 where all came from the cache.
    """

    kind: str
    parts: tuple[Part, ...]
    labels: np.ndarray
    dataset: str
    split: str
    fingerprint: str
    seconds: float = 0.0

    def __len__(self):
        return len(self.labels)

    @property
    def num_members(self):
        return sum(part.num_members for part in self.parts)

    @property
    def decomposes(self):
        """Whether doubt splits into data and knowledge: not for one categorical prediction."""
        return self.kind == "dirichlet" or self.num_members > 1

    def rows(self, start, stop):
        """All members for a range of examples, `[members, stop - start, classes]`."""
        return np.concatenate([part.rows(start, stop) for part in self.parts], axis=0)

    def chunks(self):
        """The whole stack in pieces of bounded size, in the order of the examples."""
        num_classes = self.rows(0, 1).shape[-1]
        step = max(1, CHUNK_ELEMENTS // (self.num_members * num_classes))
        for start in range(0, len(self), step):
            yield self.rows(start, min(start + step, len(self)))


def predict(predictor, dataset, split="test", data_dir=None, cache_dir=None, batch_size=256):
    """The predictions of a model on a named data set, from the cache where they are in it.

    Args:
        predictor: a `models.Predictor`.
        dataset: one of `data.names()`.
        split: split of the data set.
        data_dir: TFDS folder.
        cache_dir: folder to look in and to write to; None keeps nothing.
        batch_size: images per forward pass.

    Returns:
        `Predictions`.
    """
    images, labels = data.load_arrays(dataset, split, data_dir)
    name = f"{dataset}.{split}"
    began = time.monotonic()
    made = []
    parts = tuple(
        _part(part, images, name, cache_dir and pathlib.Path(cache_dir), batch_size, made)
        for part in _leaves(predictor)
    )
    return Predictions(
        kind=predictor.kind,
        parts=parts,
        labels=labels,
        dataset=dataset,
        split=split,
        fingerprint=_fingerprint(dataset, split, images, labels),
        seconds=time.monotonic() - began if made else 0.0,
    )


def weights_hash(predictor):
    """SHA-256 of all weights of a model and of how it draws members."""
    digest = hashlib.sha256()
    for leaf in _leaves(predictor):
        digest.update(repr(_how_drawn(leaf)).encode())
        for variable in leaf.weights:
            value = np.ascontiguousarray(variable.numpy())
            digest.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    return digest.hexdigest()


def _leaves(predictor):
    if isinstance(predictor, models.Ensemble):
        return [leaf for member in predictor.members for leaf in _leaves(member)]
    return [predictor]


def _how_drawn(predictor):
    layers = predictor._flatten_layers()
    seeds = [layer.seed for layer in layers if hasattr(layer, "seed") and hasattr(layer, "rate")]
    name = type(predictor).__name__
    return FORMAT, name, predictor.kind, predictor.num_members, getattr(predictor, "seed", 0), seeds


def _part(predictor, images, name, cache_dir, batch_size, made):
    gaussian = getattr(predictor, "predicts", None) == "gaussian"
    shape = (2 if gaussian else predictor.num_members, len(images), predictor.num_classes)
    path = None
    if cache_dir:
        key = hashlib.sha256((weights_hash(predictor) + _order_hash(images)).encode()).hexdigest()
        path = cache_dir / f"{name}.{key[:20]}.npy"
    stack = _read(path, shape)
    if stack is None:
        made.append(name)
        if gaussian:
            stack = _gaussian_outputs(predictor, images, batch_size)
        else:
            _, stack = predictor.predict_members(images, batch_size)
        if path:
            files.write_array(path, stack)
    return GaussianMembers(stack, predictor.num_members) if gaussian else Members(stack)


def _gaussian_outputs(predictor, images, batch_size):
    outputs = tf.function(lambda batch: predictor(batch, training=False))
    parts = [outputs(batch) for batch in image_batches(images, predictor.image_shape, batch_size)]
    return np.stack(
        [np.concatenate([part[key] for part in parts]) for key in ("loc", "log_scale")], axis=0
    )


def _order_hash(images):
    return hashlib.sha256(np.ascontiguousarray(images)).hexdigest()


_FINGERPRINTS = {}


def _fingerprint(dataset, split, images, labels):
    # `data.load_arrays` shares its arrays, so the same array is the same data.
    key = dataset, split, id(images)
    if key not in _FINGERPRINTS:
        _FINGERPRINTS[key] = data.fingerprint(images, labels)
    return _FINGERPRINTS[key]


def _read(path, shape):
    if path is None or not path.is_file():
        return None
    try:
        stack = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return None  # Damaged: made again.
    return stack if stack.shape == shape and stack.dtype == np.float32 else None
