"""Recipes and the runs that follow them. Names load on first use; recipes need no TensorFlow."""

from s2d_tf import _lazy

_HOMES = {
    "Preempted": "preemption",
    "Recipe": "recipes",
    "Run": "runs",
    "Settings": "loop",
    "WorkerLostError": "multi_worker",
    "build_network": "build",
    "build_predictor": "build",
    "summary": "runs",
    "train": "loop",
}

_MODULES = (
    "build",
    "checkpoints",
    "files",
    "preemption",
    "recipes",
    "runs",
    "schedules",
    "strategies",
    "tuning",
)

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES, _MODULES)
