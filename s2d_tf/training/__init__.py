"""From a recipe to a finished run. Names load on first use."""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    {
        "Preempted": "preemption",
        "Settings": "loop",
        "WorkerLostError": "multi_worker",
        "train": "loop",
    },
    ("preemption", "schedules", "strategies", "tuning"),
)
