"""What things cost, as ratios of alternatives measured in one run: `python -m benchmarks`.

`run` measures suites, `text_table` shows them, and `write_report` writes the page of results. The
suites are loaded when they run.
"""

from benchmarks.catalogue import SUITES, find
from benchmarks.measuring import measure
from benchmarks.records import Case, Goal, Plan, Row, Suite
from benchmarks.report import write_report
from benchmarks.results import read, write
from benchmarks.runner import run
from benchmarks.tables import show_progress, text_table

__all__ = [
    "SUITES",
    "Case",
    "Goal",
    "Plan",
    "Row",
    "Suite",
    "find",
    "measure",
    "read",
    "run",
    "show_progress",
    "text_table",
    "write",
    "write_report",
]
