"""Member predictions of a model on a dataset, computed once and kept beside the run.

A file is named after the dataset, the split and a hash of all that decides its content: the
weights, how members are drawn, and the images with their order. Whatever changes, the old file is
no longer found. Outputs are kept in float32, as the network gave them, so that metrics from the
cache are those of a fresh pass to the last bit. An ensemble keeps one file per member, which the
evaluation of that member finds again; a Gaussian student keeps its two outputs and not its draws.
"""

import dataclasses
import hashlib
import pathlib
import time
from collections.abc import Callable

import numpy as np

from s2d_tf import data, files, models

# Raised when networks or draws answer differently for the same weights.
FORMAT = 1
# Some megabytes with all temporaries, which stay in the processor's cache.
CHUNK_ELEMENTS = 2**18


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a model predicted on one split of a dataset.

    Attributes:
        kind: "categorical" or "dirichlet".
        parts: for each network its raw outputs, float32 `[outputs, n, classes]`, and the function
            that makes members of any range of them; one after the other they are the whole stack.
        labels: int64 `[n]`, -1 where unknown.
        dataset, split: names.
        fingerprint: the data's, whatever its order.
        seconds: time of the forward passes; 0 where all came from the cache.
        engine: what computed them, "" where all came from the cache.
    """

    kind: str
    parts: tuple[tuple[np.ndarray, Callable], ...]
    labels: np.ndarray
    dataset: str
    split: str
    fingerprint: str
    seconds: float = 0.0
    engine: str = ""

    def __len__(self):
        return len(self.labels)

    @property
    def num_members(self):
        return len(self.rows(0, 1))

    def rows(self, start, stop):
        """All members for a range of examples, `[members, stop - start, classes]`."""
        return np.concatenate([members(raw[:, start:stop]) for raw, members in self.parts])

    def chunks(self):
        """The whole stack in pieces of bounded size, in the order of the examples."""
        step = max(1, CHUNK_ELEMENTS // self.rows(0, 1).size)
        for start in range(0, len(self), step):
            yield self.rows(start, min(start + step, len(self)))


def predict(
    predictor: models.Predictor,
    dataset: str,
    split: str = "test",
    data_dir: str | None = None,
    cache_dir: str | pathlib.Path | None = None,
    batch_size: int = 256,
    engine: str = "auto",
) -> Predictions:
    """Predicts a registered dataset, from the cache where its predictions are in it.

    Args:
        predictor: the model.
        dataset: one of `data.names()`.
        split: split of the dataset.
        data_dir: TFDS folder.
        cache_dir: folder to look in and to write to; None keeps nothing.
        batch_size: images per forward pass.
        engine: as for `Predictor.predict_members`.
    """
    images, labels = data.load_arrays(dataset, split, data_dir)
    began, used = time.monotonic(), set()
    parts = []
    for part in predictor.parts:
        path = None
        if cache_dir:
            key = weights_hash(part) + hashlib.sha256(np.ascontiguousarray(images)).hexdigest()
            key = hashlib.sha256(key.encode()).hexdigest()[:20]
            path = pathlib.Path(cache_dir) / f"{dataset}.{split}.{key}.npy"
        raw = _read(path, (len(images), part.num_classes))
        if raw is None:
            raw = part.predict_raw(images, batch_size, engine)
            used.add(part.engine_used)
            if path:
                files.write_array(path, raw)
        parts.append((raw, part.members_from_raw))
    return Predictions(
        kind=predictor.kind,
        parts=tuple(parts),
        labels=labels,
        dataset=dataset,
        split=split,
        fingerprint=data.fingerprint(images, labels),
        seconds=time.monotonic() - began if used else 0.0,
        engine=", ".join(sorted(used)),
    )


def weights_hash(predictor: models.Predictor) -> str:
    """SHA-256 of all weights of a model and of how it draws members."""
    digest = hashlib.sha256()
    for part in predictor.parts:
        digest.update(repr((FORMAT, *part.draw_key)).encode())
        for variable in part.weights:
            value = np.ascontiguousarray(variable.numpy())
            digest.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    return digest.hexdigest()


def _read(path, shape):
    """The stored outputs, or None where they are missing, damaged or of another shape."""
    try:
        raw = np.load(path, mmap_mode="r", allow_pickle=False) if path else None
    except (ValueError, OSError, EOFError):
        return None
    matches = raw is not None and raw.shape[1:] == shape and raw.dtype == np.float32
    return raw if matches else None
