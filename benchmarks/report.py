"""The page of results, generated from the stored results alone."""

import pathlib
import textwrap

from benchmarks import results
from benchmarks.catalogue import SUITES
from benchmarks.tables import gave_up, goal, number, verdict_on

_HEAD = """# Benchmarks

Every number on this page comes from [results.json](results.json). In a checkout, this command runs
all suites and regenerates the page:

    python -m benchmarks all --report=benchmarks

For one suite, name it: `python -m benchmarks step --report=benchmarks`. Without a suite,
`python -m benchmarks --report=benchmarks` only regenerates the page.

Alternatives take turns in one run. A result is the median over the rounds, with quartiles in
brackets. "CPU" is the same result from CPU times, which other programs affect less; it differs from
the result if the alternatives use the cores differently. "Load" is the load average before and
after. A load far above the number of cores means that the machine was busy; the spread shows it.
"""


def write_report(folder):
    """Writes `README.md` from `results.json` in a folder; returns the page."""
    folder = pathlib.Path(folder)
    found = results.read(folder / "results.json")
    suites = {name: found["suites"][name] for name in SUITES if name in found["suites"]}
    sections = [_HEAD, _summary(suites), *(_section(name, suites[name]) for name in suites)]
    missing = [f"`{name}`" for name in SUITES if name not in suites]
    if missing:
        sections.append(f"Not run: {', '.join(missing)}.\n")
    page = folder / "README.md"
    page.write_text("\n".join(sections), encoding="utf-8")
    return page


def _summary(suites):
    judged = [
        (name, row)
        for name in suites
        for row in suites[name]["rows"]
        if row["met"] is not None and not gave_up(row)
    ]
    missed = [(name, row) for name, row in judged if not row["met"]]
    lines = [f"Goals met: {len(judged) - len(missed)} of {len(judged)}."]
    if missed:
        lines += ["", "| missed | result | CPU | goal |", "| --- " * 4 + "|"]
        lines += [
            f"| {row['name']} (`{name}`) | {_result(row)} | {number(row['cpu'])} | {goal(row)} |"
            for name, row in missed
        ]
    if any(record["quick"] for record in suites.values()):
        lines.append("\nSome suites were run with `--quick`: their numbers mean nothing.")
    return "\n".join(lines) + "\n"


def _section(name, record):
    here = record["machine"]
    lines = [f"## {name}: {record['question']}", "", textwrap.fill(SUITES[name].reading, 100), ""]
    lines += ["| | result | CPU | goal | | rounds | load |", "| --- " * 7 + "|"]
    lines += [_row(row) for row in record["rows"]]
    lines += ["", "<details><summary>How each result was measured</summary>", ""]
    lines += [_details(row) for row in record["rows"]]
    lines += ["", "</details>", ""]
    versions = ", ".join(f"{key} {value}" for key, value in here["versions"].items() if value)
    gpus = ", ".join(here["gpus"]) or "no GPU"
    lines.append(
        f"{here['date'][:10]}, {here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB, "
        f"{gpus}; Python {here['python']}, {versions}; oneDNN {here['onednn']}.\n"
    )
    return "\n".join(lines)


def _row(row):
    load = " - ".join(f"{value:.1f}" for value in row["load"] if value is not None)
    cpu = number(row["cpu"]) if row["cpu"] is not None else ""
    cells = (
        row["name"],
        _result(row),
        cpu,
        goal(row),
        verdict_on(row, missed="**missed**"),
        row["rounds"] or "",
        load,
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def _result(row):
    if row["median"] is None:
        return "not run"
    text = number(row["median"], row["unit"])
    if row["low"] is not None:
        text += f" [{number(row['low'])}, {number(row['high'])}]"
    return text + (" (predicted)" if row["kind"] == "predicted" else "")


def _details(row):
    parts = [row["formula"], row["note"]]
    parts.append(", ".join(f"{key} {_time(value)}" for key, value in row["seconds"].items()))
    parts.append(", ".join(f"{key}: {_fact(value)}" for key, value in row["facts"].items()))
    return f"- **{row['name']}**: " + "; ".join(part for part in parts if part)


def _time(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _fact(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(float(value))
    if isinstance(value, list):
        return ", ".join(map(_fact, value))
    return str(value)
