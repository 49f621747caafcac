"""A benchmark's question and its results: small records, stored as JSON."""

import dataclasses
import importlib
from collections.abc import Callable

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much to measure.

    Attributes:
        quick: tiny networks and arrays and a round or two: shows that the code runs, no more.
        repetitions: rounds of each comparison at most.
        seconds: no round of a comparison begins after this time.
        exported: folder of SavedModels of another version, `ARCHITECTURE/1`, to compare with;
            None exports them.
        runs: finished run directories whose training time is reported.
    """

    quick: bool = False
    repetitions: int = 9
    seconds: float = 40.0
    exported: str | None = None
    runs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a result should not exceed, or should reach."""

    limit: float
    at_most: bool = True

    def met_by(self, value):
        return value <= self.limit if self.at_most else value >= self.limit

    def __str__(self):
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


@dataclasses.dataclass(frozen=True)
class Case:
    """One comparison.

    Attributes:
        name: what is compared, and at which size.
        build: makes `{alternative: callable}`; called when it is the case's turn.
        value: the result, from `{alternative: seconds}` of one round.
        formula: `value` in words.
        goal: what it should be, if anything is promised.
        unit: of the result; "x" is a ratio.
        facts: makes a dict of other numbers to keep, from `{alternative: median seconds}`.
        note: what the reader has to know about this case.
    """

    name: str
    build: Callable
    value: Callable
    formula: str
    goal: Goal | None = None
    unit: str = "x"
    facts: Callable | None = None
    note: str = ""


@dataclasses.dataclass
class Row:
    """What came out.

    Attributes:
        median, low, high: the result and its quartiles over the rounds; None if it was not run.
        cpu: the result from processor times, where that means something.
        seconds: `{alternative: median seconds of a call}`.
        load: the machine's load averages (1 minute) before and after.
        kind: "measured", "counted" (exact, no time in it), "predicted" or "not run".
    """

    name: str
    formula: str
    unit: str = "x"
    median: float | None = None
    low: float | None = None
    high: float | None = None
    cpu: float | None = None
    goal: dict | None = None
    met: bool | None = None
    rounds: int = 0
    seconds: dict = dataclasses.field(default_factory=dict)
    facts: dict = dataclasses.field(default_factory=dict)
    note: str = ""
    load: list = dataclasses.field(default_factory=list)
    kind: str = "measured"

    def judged(self, goal):
        """Self, with the verdict on a goal."""
        if goal is not None and self.median is not None:
            self.goal = dataclasses.asdict(goal)
            self.met = bool(goal.met_by(self.median))
        return self


def counted(name, formula, value, unit="", goal=None, kind="counted", facts=None, note=""):
    """A row whose result is exact or predicted: there is no spread to show."""
    row = Row(name, formula, unit, median=float(value), kind=kind, facts=facts or {}, note=note)
    return row.judged(goal)


def not_run(name, formula, why):
    """A row that says why there is no result."""
    return Row(name, formula, kind="not run", note=why)


@dataclasses.dataclass(frozen=True)
class Suite:
    """A question, and the module whose `cases(plan)` yields the comparisons (or finished rows).

    Attributes:
        reading: how to read the results, for the report.
    """

    name: str
    question: str
    module: str
    reading: str = ""

    def cases(self, plan):
        return importlib.import_module(f"benchmarks.{self.module}").cases(plan)
