"""The metrics of runs, kept where they can be read again when weights and predictions are gone.

A folder `runs/` holds the JSON files of every run and member in the shape of run directories, so
that `s2d table` reads it like the runs themselves, and `tuning/` the sweeps of `s2d tune`;
`tables.md` is made from them and nothing else.
"""

from __future__ import annotations

import collections
import pathlib
import shutil
from collections.abc import Iterable

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.evaluation import tables, views
from s2d_tf.evaluation.names import OURS
from s2d_tf.zoo import Run
from s2d_tf.zoo.layout import INTERVALS, METRICS, RECIPE, SHIFT, SUMMARY

from ..training import tuning
from . import claims, result_tables
from .layout import tables_of
from .results import by_title, collect, groups, public

RUNS, SWEEPS, TABLES = "runs", "tuning", "tables.md"
KEPT = (RECIPE, INTERVALS, SHIFT, SUMMARY)


def archive(directories: Iterable[PathLike], out: PathLike) -> pathlib.Path:
    """Copies the metrics of runs and sweeps to `out` and regenerates `out/tables.md`.

    What `out` already contains stays, unless something of the same name is among `directories`.

    Args:
        directories: evaluated run directories and folders of `s2d tune`, kept under their names.
        out: folder.

    Returns:
        Path of the tables.

    Example:

    >>> paper.archive(["run"], "results").name
    'tables.md'
    """
    out = pathlib.Path(out)
    folders = [path for path in map(pathlib.Path, directories) if not path.is_file()]
    sweeps = [folder for folder in folders if (folder / tuning.RECORD).is_file()]
    runs = [folder for folder in folders if folder not in sweeps]
    collect(runs)  # Before anything is copied: each one is a run and evaluated.
    for directory in runs:
        target = out / RUNS / directory.resolve().name
        if target.resolve() != directory.resolve():
            shutil.rmtree(target, ignore_errors=True)
            _copy(Run.open(directory), target)
    for directory in sweeps:
        record = files.read_json(directory / tuning.RECORD)
        files.write_json(out / SWEEPS / f"{directory.resolve().name}.json", record)
    files.write_text(out / TABLES, text(out))
    return out / TABLES


def text(out: pathlib.Path) -> str:
    """All tables of an archive and the verdict on each claim, as Markdown."""
    results = collect(sorted((out / RUNS).glob("*")))
    counts = collections.Counter(result.recipe.architecture for result in results)
    parts: list[str | tables.Table] = []
    for architecture, _ in counts.most_common():
        own = [r for r in results if r.recipe.architecture == architecture]
        parts += [f"# {architecture}\n", *tables_of(own)]
        for (_, dataset), group in groups(own).items():
            parts += [f"## Trained on {dataset}\n", *_own_tables(group)]
            parts += [claims.table(group)]
    sweeps = {p.stem: files.read_json(p) for p in sorted((out / SWEEPS).glob("*.json"))}
    parts += ["# Sweeps on the validation split, the best NLL first\n"] if sweeps else []
    for label, record in sweeps.items():
        epochs = record["recipe"]["training"]["epochs"]
        heading = f"**{label}: {record['name']}, {epochs} epochs, seed {record['seed']}**"
        parts += [f"{heading}\n\n{tuning.table(record['key'], record['rows'])}\n"]
    return "\n".join(p if isinstance(p, str) else tables.render(p, "markdown") for p in parts)


def _own_tables(group):
    """Tables that the paper does not have: of our own students, of calibration and of pairs."""
    ours = any(result.recipe.method in OURS for result in group)
    validated = all(result.split != "train" for result in group)
    named, dataset = by_title(group), group[0].recipe.source_dataset
    made = [
        *(result_tables.overview(group) if ours else ()),
        result_tables.calibration_table(named, dataset, validated),
        result_tables.twins_table(group),
        result_tables.students_table(group),
        result_tables.cost_table(group),
    ]
    return [table for table in made if table]


def _copy(run, target):
    target.mkdir(parents=True)
    for name in KEPT:
        if (run.directory / name).is_file():
            shutil.copyfile(run.directory / name, target / name)
    if (run.directory / METRICS).is_file():
        files.write_json(target / METRICS, public(files.read_json(run.directory / METRICS)))
    members = [Run.open(d) for d in views.own_member_directories(run) if d.is_dir()]
    for part in [*members, *views.held(run)]:
        _copy(part, target / part.directory.name)
