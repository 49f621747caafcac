"""The machine that a result was obtained on."""

import datetime
import os
import pathlib
import platform
from importlib import metadata

_PACKAGES = (
    *("tensorflow", "keras", "tensorflow-probability", "numpy", "scipy", "scikit-learn"),
    "torch",
)


def facts():
    """Processor, memory, versions, and what TensorFlow makes of them."""
    import tensorflow as tf

    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "onednn": onednn(),
        "gpus": [gpu.name for gpu in tf.config.list_physical_devices("GPU")],
        "load": load(),
    }


def onednn():
    """Whether TensorFlow uses oneDNN, and why."""
    from tensorflow.python.framework import test_util

    asked = os.environ.get("TF_ENABLE_ONEDNN_OPTS")
    why = "TensorFlow's own choice" if asked is None else f"TF_ENABLE_ONEDNN_OPTS={asked}"
    return f"{'on' if test_util.IsMklEnabled() else 'off'} ({why})"


def load():
    """Load average of the last minute: the demand of all programs on the processor."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def cores():
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _cpu_model():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = set(fields.get("flags", "").split())
    known = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile")
    vector = [name for name in known if name in flags]
    return f"{fields.get('model name', 'unknown')} ({', '.join(vector) or 'no AVX2'})"


def _memory_gb():
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def _version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
