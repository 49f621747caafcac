"""The numbers of runs, kept where they can be read again when weights and predictions are gone.

A folder `runs/` holds the JSON files of every run and member in the shape of run directories, so
that `s2d table` reads it like the runs themselves, and `tuning/` the sweeps of `s2d tune`;
`tables.md` is made from them and nothing else.
"""

import collections
import pathlib
import shutil

from s2d_tf import files
from s2d_tf.evaluation import report_tables, tables, views
from s2d_tf.evaluation.results import METRICS, collect, for_claims, groups, public
from s2d_tf.paper import claims
from s2d_tf.paper.table_set import tables_of
from s2d_tf.storage import Run
from s2d_tf.storage.layout import INTERVALS, RECIPE, SUMMARY
from s2d_tf.training import tuning

RUNS, SWEEPS, TABLES = "runs", "tuning", "tables.md"
KEPT = (RECIPE, INTERVALS, SUMMARY)


def archive(directories, out):
    """Copies the numbers of runs and sweeps to `out` and writes `out/tables.md` anew.

    What lies there already stays, unless something of the same name is among `directories`.

    Args:
        directories: evaluated run directories and folders of `s2d tune`, kept under their names.
        out: folder.

    Returns:
        Path of the tables.
    """
    out = pathlib.Path(out)
    directories = [pathlib.Path(d) for d in directories if not pathlib.Path(d).is_file()]
    sweeps = [d for d in directories if (d / tuning.RECORD).is_file()]
    runs = [d for d in directories if d not in sweeps]
    collect(runs)  # Before anything is copied: each one is a run and evaluated.
    for directory in runs:
        target = out / RUNS / directory.resolve().name
        if target.resolve() != directory.resolve():
            shutil.rmtree(target, ignore_errors=True)
            _copy(Run.open(directory), target)
    for directory in sweeps:
        files.write_json(
            out / SWEEPS / f"{directory.resolve().name}.json",
            files.read_json(directory / tuning.RECORD),
        )
    files.write_text(out / TABLES, text(out))
    return out / TABLES


def text(out):
    """All tables of an archive and the verdict on each claim, as Markdown."""
    results = collect(sorted((out / RUNS).glob("*")))
    counts = collections.Counter(result.recipe.architecture for result in results)
    parts = []
    for architecture, _ in counts.most_common():
        parts += [f"# {architecture}\n"]
        parts += _network([r for r in results if r.recipe.architecture == architecture])
    sweeps = [files.read_json(path) for path in sorted((out / SWEEPS).glob("*.json"))]
    if sweeps:
        parts += ["# Sweeps on the validation split, the best NLL first\n"]
        parts += [_sweep(record) for record in sweeps]
    return "\n".join(parts)


def _network(results):
    parts = [tables.render(table, "markdown") for table in tables_of(results)]
    for (_, trained_on), own in groups(results).items():
        made = (report_tables.twins_table(own), report_tables.cost_table(own))
        parts += [f"## Trained on {trained_on}\n"]
        parts += [tables.render(table, "markdown") for table in made if table is not None]
        parts += ["**The paper's claims**\n", _claims(own)]
    return parts


def _sweep(record):
    epochs = record["recipe"]["training"]["epochs"]
    heading = f"**{record['name']}, {epochs} epochs, seed {record['seed']}**\n\n"
    return heading + tuning.table(record["key"], record["rows"]) + "\n"


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
    if (run.directory / METRICS).is_file():
        files.write_json(target / METRICS, public(files.read_json(run.directory / METRICS)))
    members = [Run.open(d) for d in views.own_member_directories(run) if d.is_dir()]
    for part in [*members, *views.held(run)]:
        _copy(part, target / part.directory.name)
