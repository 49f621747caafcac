"""What a network computes with while it trains: float32, or bfloat16 where that is faster.

Weights, batch statistics, losses and the optimizer stay in float32, and so does the finished model.
"""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

import s2d_tf._backend  # noqa: F401

# isort: split
import keras
import tensorflow as tf

PRECISIONS = ("float32", "bfloat16", "auto")
_CPU_FLAGS = {"amx_bf16", "avx512_bf16"}
_GPU_CAPABILITY = (8, 0)


def choose(wanted: str) -> str:
    """Which of float32 and bfloat16 to use: "auto" takes bfloat16 where the processor has it.

    Raises:
        ValueError: the name is unknown, or the processor has no instructions for bfloat16 (some
            kernels would then end the process).
    """
    if wanted not in PRECISIONS:
        raise ValueError(
            f"precision: expected one of {PRECISIONS}, received {wanted!r}. Choose one of these."
        )
    if wanted == "float32":
        return wanted
    if multiplies_bfloat16():
        return "bfloat16"
    if wanted == "bfloat16":
        raise ValueError(
            "precision: expected a processor with AMX or AVX512-BF16, or a GPU of compute "
            "capability 8.0, for bfloat16, received one without. Use precision float32."
        )
    return "float32"


def multiplies_bfloat16() -> bool:
    """Whether the devices that would train have instructions for bfloat16."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        return all(d.get("compute_capability", (0, 0)) >= _GPU_CAPABILITY for d in details)
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return bool(_CPU_FLAGS & set(flags.split()))


@contextlib.contextmanager
def scope(precision: str) -> Iterator[None]:
    """Layers that are made within it compute in that precision."""
    before = keras.config.dtype_policy()
    if precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
