"""Random numbers that depend on (seed, corruption, severity, image) and on nothing else."""

import hashlib
from collections.abc import Callable, Iterable

import numpy as np

from s2d_tf._types import ArrayLike

Streams = list[np.random.Generator]


def streams(seed: int, corruption: str, severity: int, indices: Iterable[int]) -> Streams:
    """One generator for each image: the batch and the order of the images do not matter.

    The key of each counter-based generator is a hash, so related seeds give unrelated numbers.
    """
    prefix = f"{int(seed)}/{corruption}/{severity}/"
    return [np.random.Generator(np.random.Philox(key=_key(f"{prefix}{i}"))) for i in indices]


def stacked(draw: Callable[[np.random.Generator], ArrayLike], rngs: Streams) -> np.ndarray:
    """`draw` of every image's generator, stacked along a new first axis."""
    return np.stack([draw(rng) for rng in rngs])


def _key(text):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")
