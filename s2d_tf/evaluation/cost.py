"""What a prediction costs: the time for an example."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from s2d_tf import models

MIN_REPETITIONS = 3
MAX_REPETITIONS = 15


def inference_time(
    predictor: models.Predictor,
    reference: models.Predictor,
    batch_size: int = 64,
    max_seconds: float = 10.0,
) -> tuple[float, float]:
    """Milliseconds per example, and how many times those of a reference model.

    The two take turns, so that whatever else the machine does slows both; each repetition gives
    one ratio and the median is taken.

    Args:
        predictor: a `models.Predictor`.
        reference: another that takes the same inputs, usually the individual network.
        batch_size: examples per pass.
        max_seconds: stop after this time, but not before `MIN_REPETITIONS`.

    Returns:
        `(milliseconds, ratio)`.
    """
    contract = predictor.contract
    inputs = tf.nest.map_structure(
        lambda values, spec: tf.constant(values, spec.dtype),
        contract.sample(batch_size),
        contract.specs(),
    )
    functions = [tf.function(model.member_logits) for model in (predictor, reference)]
    for function in functions:
        function(inputs)  # Traces the graph.
    times: list[list[float]] = []
    began = time.perf_counter()
    while len(times) < MIN_REPETITIONS or (
        len(times) < MAX_REPETITIONS and time.perf_counter() - began <= max_seconds
    ):
        times.append([_seconds(function, inputs) for function in functions])
    own = statistics.median(seconds for seconds, _ in times)
    ratio = statistics.median(seconds / other for seconds, other in times)
    return 1000.0 * own / batch_size, ratio


def _seconds(function, inputs):
    began = time.perf_counter()
    function(inputs).numpy()
    return time.perf_counter() - began
