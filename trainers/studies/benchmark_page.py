"""The benchmark: one CSV and one page, made from the JSON files in a folder of results.

Nothing here imports TensorFlow, and nothing is measured.
"""

import pathlib
from collections.abc import Iterable

from s2d_tf import files
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.intervals import difference_table
from s2d_tf.evaluation.names import METRICS, dataset_title, format_value, score_title

from .benchmark_rows import THEIRS, Row, our_rows, published_rows, read, to_csv
from .result_tables import best_of, twins_table
from .results import Result, groups, repeated
from .shift_study import DIFFERENCES

CSV_FILE, PAGE = "benchmark.csv", "benchmark.md"
_HEADER = """\
# Benchmark

Every number of ours is made from the JSON files in this folder, by `s2d benchmark`;
[benchmark.csv](benchmark.csv) has all of them, and [docs/shift.md](../docs/shift.md) says what is
measured and how to enter a model of your own. ± is two standard deviations over seeds. A row with
one seed has none: this page does not establish differences between such rows; `s2d compare` and
`s2d shift` give intervals over examples.
"""
_SETS = {"openood_near": 2, "openood_far": 4}


def write(results: str | pathlib.Path) -> list[pathlib.Path]:
    """Regenerates `benchmark.csv` and `benchmark.md` of a folder of results.

    Args:
        results: folder in which `metrics.json` and `shift.json` are looked for at any depth, and
            OpenOOD's result files in `openood/*.csv`.

    Returns:
        Paths of the two files.
    """
    paths = [pathlib.Path(results) / name for name in (CSV_FILE, PAGE)]
    for path, content in zip(paths, texts(results), strict=True):
        files.write_text(path, content)
    return paths


def texts(results: str | pathlib.Path) -> tuple[str, str]:
    """The CSV and the page of a folder of results."""
    results = pathlib.Path(results)
    made, entered = read(results)
    rows = [*our_rows(made), *entered, *published_rows(results)]
    compared = [files.read_json(path) for path in sorted(results.rglob(DIFFERENCES))]
    differences = {caption: facts for held in compared for caption, facts in held.items()}
    return to_csv(rows), page(rows, made, differences)


def page(
    rows: Iterable[Row], results: Iterable[Result], differences: dict[str, dict] | None = None
) -> str:
    """The page as Markdown: a section for each network and dataset, then others' numbers.

    Args:
        rows: all rows.
        results: the runs, for comparisons that are paired over seeds.
        differences: what `shift_study` keeps of comparisons that are paired over examples.
    """
    rows, grouped = list(rows), groups(list(results))
    parts: list[str | tables.Table | None] = [_HEADER]
    places = dict.fromkeys((r.network, r.trained_on) for r in rows if r.source != THEIRS)
    for network, dataset in places:
        own = [r for r in rows if (r.network, r.trained_on) == (network, dataset)]
        own = [r for r in own if r.source != THEIRS]
        group = grouped.get((network, dataset), [])
        parts += [f"## {network} on {dataset}\n", *_tables(own, group)]
        compared = repeated(group)
        parts += [twins_table(compared, _twin_keys(own))] if compared else []
    parts += ["## Differences under shift\n"] if differences else []
    for caption, facts in (differences or {}).items():
        parts.append(difference_table(facts["intervals"], caption, facts["resamples"]))
    theirs = [row for row in rows if row.source == THEIRS]
    if theirs:
        parts += [
            "## Published by OpenOOD\n",
            "Theirs, not ours: copied from OpenOOD's result files in [openood](openood), with "
            "other networks and training. Their test set has 9,000 images, and their ± is over "
            "three training runs, here doubled to two standard deviations.\n",
            _pivot(theirs, _columns(theirs, ("auroc", "fpr_at_95_recall"), "openood_")),
        ]
    made = [part for part in parts if part]
    return "\n".join(p if isinstance(p, str) else tables.render(p, "markdown") for p in made)


def _twin_keys(rows):
    """Metrics that S2D and its plain twin are compared by."""
    keys = dict.fromkeys(f"{r.set}/{r.metric}/{r.detector}".rstrip("/") for r in rows)
    wanted = ("accuracy", "nll", "ece", "error_auroc/total", "shift_correlation/total")
    ends = ("/auroc/total", "/scod_aurc/total", "/changed_auroc/total")
    return [k for k in keys if k.partition("/")[2] in wanted or k.endswith(ends)]


def _tables(rows, results):
    """What a section shows of the rows of one network and dataset."""
    known = dict.fromkeys(r.set for r in rows if r.metric == "brier")
    shifted = dict.fromkeys(r.set for r in rows if r.metric == "shift_correlation")
    counts = {r.set: int(r.mean) for r in rows if r.metric == "sets"}
    parts = [f"{dataset_title(n)}: {count} of {_SETS[n]} sets" for n, count in counts.items()]
    means = [f"{'; '.join(parts)}. A mean over some of them is not the protocol's."]
    sets = means if parts else []
    images = {r.metrics["shift/images"] for r in results if "shift/images" in r.metrics}
    seen = [f"{' and '.join(f'{n:,}' for n in sorted(images))} test images."] if images else []
    wanted = (
        ("Performance and cost", _performance(known), _costs(rows), ()),
        ("Out-of-distribution detection", _columns(rows, ("auroc",)), (), sets),
        ("Near and far", _columns(rows, ("fpr_at_95_recall", "scod_aurc"), "openood_"), (), sets),
        ("Means over corruptions and severities", _performance(shifted), (), seen),
        ("Wrong answers, and shift", _columns(rows, ("error_auroc", "shift_correlation")), (), ()),
        ("Finding changed labels", _columns(rows, ("changed_auroc",)), (), ()),
    )
    return [_pivot(rows, columns, caption, *more) for caption, columns, *more in wanted if columns]


def _performance(names):
    return {(n, m): METRICS[m].title for n in names for m in ("accuracy", "nll", "ece")}


def _columns(rows, metrics, prefix=""):
    """`{(set, metric): heading}` of those that any row has."""
    pairs = dict.fromkeys((r.set, r.metric) for m in metrics for r in rows if r.metric == m)
    return {
        (name, metric): f"{dataset_title(name)} {METRICS[metric].title}"
        for name, metric in pairs
        if name.startswith(prefix)
    }


def _costs(rows):
    """Columns of cost, of each method."""

    def shown(method, name):
        value = next((getattr(r, name) for r in rows if r.method == method), None)
        if value is None:
            return ""
        return f"{value:.2f} ×" if name == "relative_time" else f"{value:,}"

    names = {"parameters": "Parameters", "passes": "Passes", "relative_time": "Relative time"}
    return [(title, lambda method, name=name: shown(method, name)) for name, title in names.items()]


def _pivot(rows, columns, caption="", costs=(), notes=()):
    """A row for each method and score that has any of the columns."""
    held: dict[tuple, dict] = {
        (r.network, r.method, r.detector): {} for r in rows if (r.set, r.metric) in columns
    }
    for row in rows:
        if (row.set, row.metric) in columns:
            held[row.network, row.method, row.detector][row.set, row.metric] = row
    best = {}
    for column in columns:
        means = {place: own[column].mean for place, own in held.items() if column in own}
        best[column] = best_of("/".join(column), means)
    lines = []
    for place, own in held.items():
        network, method, detector = place
        first = next(iter(own.values()))
        line = [method if first.source != THEIRS else f"{method} ({network})"]
        line += [score_title(detector), "" if first.seeds is None else str(first.seeds)]
        for column in columns:
            text = ""
            if column in own:
                text = format_value("/".join(column), own[column].mean, own[column].spread)
            line.append(tables.Cell(text, best=place in best[column]))
        lines.append([*line, *(show(method) for _, show in costs)])
    titles = ["Method", "Score", "Seeds", *columns.values(), *(title for title, _ in costs)]
    return tables.make(caption, titles, [lines], stub=2, footnotes=notes)
