"""Runs suites, one comparison after another."""

import gc
import logging
import statistics

from benchmarks import machine, measuring, results
from benchmarks.child import ChildError
from benchmarks.records import FORMAT, Row, not_run


def run(suites, plan, progress=lambda text: None, out=None):
    """Measures suites.

    Args:
        suites: `Suite`s.
        plan: a `Plan`.
        progress: called with a line of text when a suite begins and with every finished `Row`.
        out: JSON file that is brought up to date after each row, so that a run which is
            interrupted keeps what it has.

    Returns:
        The results as a dict, ready for JSON: `{"format", "suites": {name: {"machine", "rows"}}}`.
    """
    # Many small functions are what a benchmark is made of; TensorFlow takes them for an accident.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    found = {"format": FORMAT, "suites": {}}
    for suite in suites:
        progress(f"{suite.name}: {suite.question}")
        rows = []
        found["suites"][suite.name] = {
            "question": suite.question,
            "quick": plan.quick,
            "machine": machine.facts(),
            "rows": rows,
        }
        for item in suite.cases(plan):
            row = item if isinstance(item, Row) else run_case(item, plan)
            rows.append(vars(row))
            progress(row)
            if out:
                results.write(out, found)
    return found


def run_case(case, plan):
    """One comparison: its `Row`; where one of its processes ends, a row that says so."""
    before = machine.load()
    alternatives = case.build()
    try:
        timings = measuring.measure(alternatives, plan.repetitions, plan.seconds)
        seconds = {name: statistics.median(values) for name, values in timings.wall.items()}
        facts = case.facts(seconds) if case.facts else {}
    except ChildError as error:  # Most often it is the memory of many processes.
        return not_run(case.name, case.formula, str(error))
    finally:
        for alternative in alternatives.values():
            if hasattr(alternative, "close"):
                alternative.close()
        del alternatives
        gc.collect()  # Networks hold themselves in cycles; the next case needs their memory.
    median, low, high = measuring.spread(timings.each(case.value))
    return Row(
        case.name,
        case.formula,
        case.unit,
        median,
        low,
        high,
        cpu=_cpu(case, timings),
        rounds=timings.rounds,
        seconds=seconds,
        facts=facts,
        note=case.note,
        load=[before, machine.load()],
    ).judged(case.goal)


def _cpu(case, timings):
    """The result from processor times; None where the clock was too coarse for them."""
    if not all(min(values) > 0 for values in timings.cpu.values()):
        return None
    return measuring.spread(timings.each(case.value, "cpu"))[0]
