"""One corruption at one severity, applied to a batch of images."""

import difflib
import operator

import numpy as np

from .. import corruption_names
from . import blur, digital, extra, noise, weather
from .streams import streams

IMAGE_SHAPE = (32, 32, 3)

_FAMILIES = (noise, blur, weather, digital, extra)
CORRUPTIONS = {
    name: next(getattr(family, name) for family in _FAMILIES if hasattr(family, name))
    for name in corruption_names.MAIN + corruption_names.EXTRA
    if name not in corruption_names.NOT_GENERATED
}


def corrupt(
    images: np.ndarray, corruption: str, severity: int, *, seed: int = 0, first_index: int = 0
) -> np.ndarray:
    """Corrupts images of 32x32 pixels as CIFAR-10-C and CIFAR-100-C were made.

    The formulas and constants are the published ones; the random numbers are our own, so the
    images are not those of the published archives. Each image has its own random numbers, drawn
    from (seed, corruption, severity, index): the batch it comes in changes nothing.

    Args:
        images: uint8 [n, 32, 32, 3].
        corruption: one of the published names, such as "fog"; all but "frost".
        severity: 1 (weak) to 5 (strong).
        seed: any integer.
        first_index: index of the first image in its dataset.

    Returns:
        uint8 [n, 32, 32, 3].

    Raises:
        ValueError: the images have another shape or dtype, or the corruption is not known.

    Example:

    >>> images = np.zeros([4, 32, 32, 3], np.uint8)
    >>> data.corrupt(images, "gaussian_noise", severity=3).shape
    (4, 32, 32, 3)
    """
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.shape[1:] != IMAGE_SHAPE:
        raise ValueError(
            f"images: expected uint8 [n, 32, 32, 3], received {images.dtype} {list(images.shape)}. "
            "Resize them, or pass gray levels from 0 to 255."
        )
    function = _function(corruption)
    if severity not in corruption_names.SEVERITIES:
        raise ValueError(
            f"severity: expected 1, 2, 3, 4 or 5, received {severity!r}. Choose one of them."
        )
    first = operator.index(first_index)
    if not len(images):
        return images.copy()
    rngs = streams(
        operator.index(seed), corruption, int(severity), range(first, first + len(images))
    )
    levels = function(images, int(severity), rngs)
    return np.clip(levels, 0, 255).astype(np.uint8)


def _function(name):
    if name in corruption_names.NOT_GENERATED:
        raise ValueError(
            f"corruption: expected one that can be generated, received {name!r}. It is not "
            f"available: {corruption_names.NOT_GENERATED[name]}."
        )
    if name not in CORRUPTIONS:
        near = difflib.get_close_matches(str(name), CORRUPTIONS, n=3, cutoff=0.4)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Choose one of them."
        raise ValueError(
            f"corruption: expected one of {', '.join(CORRUPTIONS)}, received {name!r}. {hint}"
        )
    return CORRUPTIONS[name]
