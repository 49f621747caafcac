"""What things cost, as ratios of alternatives measured in one run: `python -m benchmarks`.

`run` measures suites, `text_table` shows them, `compare` sets them beside an earlier run, and
`write_report` makes the page of figures. The suites are loaded when they run.
"""

from benchmarks.baseline import compare
from benchmarks.catalogue import SUITES, find
from benchmarks.records import Case, Goal, Plan, Row, Suite
from benchmarks.results import read, write
from benchmarks.tables import show_progress, text_changes, text_table

__all__ = [
    "SUITES",
    "Case",
    "Goal",
    "Plan",
    "Row",
    "Suite",
    "compare",
    "find",
    "measure",
    "read",
    "run",
    "show_progress",
    "text_changes",
    "text_table",
    "write",
    "write_report",
]


def __getattr__(name):
    # These need NumPy or matplotlib, which the names of the suites do not.
    if name == "measure":
        from benchmarks.measuring import measure as value
    elif name == "run":
        from benchmarks.runner import run as value
    elif name == "write_report":
        from benchmarks.report import write_report as value
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value
