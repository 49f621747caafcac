"""Fixed inputs and a model's answers for them: the same weights must answer the same anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from s2d_tf.models import Predictor

NUM_IMAGES = 8
DIGITS = 6
# Two machines order the sums of a network differently; uncertainties are in nats, up to ln K.
TOLERANCE = 2e-3


def images(image_shape: tuple[int, ...], count: int = NUM_IMAGES) -> np.ndarray:
    """Triangle waves of several frequencies in whole numbers, so that no machine rounds them.

    Returns:
        uint8 `[count, height, width, channels]`.
    """
    height, width, channels = image_shape
    index, y, x, channel = np.ogrid[:count, :height, :width, :channels]
    phase = (3 + 5 * index) * y + (7 + 2 * index * (channel + 1)) * x + 37 * index + 61 * channel
    wave = phase % 512
    return np.minimum(wave, 511 - wave).astype(np.uint8)


def answers(predictor: Predictor) -> dict[str, Any]:
    """What a predictor says about the fixed inputs, as JSON values."""
    found = _answers(predictor).items()
    return {name: np.round(value.astype(np.float64), DIGITS).tolist() for name, value in found}


def difference(predictor: Predictor, stored: dict[str, Any]) -> float:
    """The largest absolute difference between a predictor's answers and the stored ones.

    Raises:
        ValueError: where the stored ones are not of this kind of model.
    """
    largest = 0.0
    for name, value in _answers(predictor).items():
        expected = np.asarray(stored[name], dtype=np.float64)
        if expected.shape != value.shape or not np.isfinite(expected).all():
            raise ValueError(
                f"{name}: expected finite numbers of the shape {value.shape}, received "
                f"{expected.shape}. Use the answers that were stored with these weights."
            )
        largest = max(largest, float(np.abs(expected - value).max()))
    return largest


def _answers(predictor):
    """`predict_uncertainty` without a graph, which would take longer than these few inputs."""
    from s2d_tf import uncertainty

    batch = images(predictor.image_shape).astype(np.float32)
    answer = uncertainty.from_members(predictor.kind, predictor.member_logits(batch))
    return {name: answer[name].numpy() for name in uncertainty.NAMES}
