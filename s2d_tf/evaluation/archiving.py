"""The numbers of runs, kept where they can be read again when weights and predictions are gone.

A folder `runs/` holds the JSON files of every run and member in the shape of run directories, so
that `s2d table` reads it like the runs themselves; `tables.md` is made from it and nothing else.
"""

import pathlib
import shutil

from s2d_tf.evaluation import claims, report_tables, tables, views
from s2d_tf.evaluation.results import METRICS, collect, for_claims, groups
from s2d_tf.evaluation.table_set import tables_of
from s2d_tf.training import Run, files

RUNS, TABLES = "runs", "tables.md"
KEPT = ("recipe.json", METRICS, "intervals.json", "summary.json", "tuning.json")


def archive(directories, out):
    """Copies the numbers of evaluated runs to `out/runs` and writes `out/tables.md` anew.

    Runs that lie there already stay, unless one of the same name is among `directories`.

    Args:
        directories: run directories; a run keeps the name of its folder.
        out: folder.

    Returns:
        Path of the tables.
    """
    out = pathlib.Path(out)
    directories = [pathlib.Path(d) for d in directories if not pathlib.Path(d).is_file()]
    collect(directories)  # Before anything is copied: each one is a run and evaluated.
    for directory in directories:
        target = out / RUNS / directory.resolve().name
        if target.resolve() != directory.resolve():
            shutil.rmtree(target, ignore_errors=True)
            _copy(Run.open(directory), target)
    path = out / TABLES
    files.write_text(path, text(collect(sorted((out / RUNS).iterdir()))))
    return path


def text(results):
    """All tables and the verdict on each claim, as Markdown."""
    parts = [tables.render(table, "markdown") for table in tables_of(results)]
    for (architecture, trained_on), own in groups(results).items():
        heading = f"{architecture} on {trained_on}"
        made = (report_tables.twins_table(own), report_tables.cost_table(own))
        parts += [f"## {heading}\n"]
        parts += [tables.render(table, "markdown") for table in made if table is not None]
        parts += [f"**The paper's claims, {heading}**\n", _claims(own)]
    return "\n".join(parts)


def _claims(results):
    rows = [
        [verdict.statement, verdict.verdict, verdict.evidence]
        for verdict in claims.check_all(for_claims(results))
    ]
    return tables.render(tables.make("", ["Claim", "Here", "Evidence"], [rows], stub=3), "markdown")


def _copy(run, target):
    target.mkdir(parents=True)
    for name in KEPT:
        if (run.directory / name).is_file():
            shutil.copyfile(run.directory / name, target / name)
    members = [Run.open(d) for d in views.own_member_directories(run) if d.is_dir()]
    for part in [*members, *views.held(run)]:
        _copy(part, target / part.directory.name)
