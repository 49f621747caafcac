"""The paper's tables in their own shape, filled with our runs; and the folder that keeps them.

A folder of results has `runs/`, the JSON files of every run and member in the shape of run
directories, so that `s2d table` reads it like the runs themselves, and `tuning/`, the sweeps of
`s2d tune`; `tables.md` is made from them and nothing else.
"""

from __future__ import annotations

import collections
import pathlib
import shutil
from collections.abc import Iterable

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import tables, views
from s2d_tf.evaluation.intervals import mean_and_two_std
from s2d_tf.evaluation.names import OURS, USUAL_MEMBERS, format_value
from s2d_tf.evaluation.tables import best_of
from s2d_tf.zoo import Run
from s2d_tf.zoo.layout import INTERVALS, METRICS, RECIPE, SUMMARY

from . import claims, published, result_tables
from .comparison import with_stand_ins
from .detectors import detector_tables
from .results import Result, by_title, by_variant, collect, groups, public
from .study import markdown

RUNS, SWEEPS, TABLES = "runs", "tuning", "tables.md"
KEPT = (RECIPE, INTERVALS, SUMMARY)
NOT_RUN = "not run"
# Other networks are shown in the shape of these tables, which have every method.
DEFAULT_ARCHITECTURE = "densenet_bc_100_12"
TRAINED_ON = tuple(published.TRAINED_ON.values())


def tables_of(results: list[Result], number: int | None = None) -> list[tables.Table]:
    """The paper's tables for CIFAR-100 runs, and an overview for runs on other data.

    Args:
        results: `Result`s.
        number: only the table with this number, for every network among the runs; None makes all
            tables in which some cell is ours.

    Returns:
        `tables.Table`s, which `evaluation.tables.render` writes in any of its formats.

    Example:

    >>> len(studies.tables_of(studies.collect(["run"]))) > 0
    True
    """
    if number is not None:
        architectures = dict.fromkeys(r.recipe.architecture for r in results)
        own = published.table(number).architecture
        chosen = [own] if own in architectures else architectures
        return [paper_table(number, results, name) for name in chosen]
    made, known = [], {table.architecture for table in published.tables()}
    ours = [r.recipe.architecture for r in results if r.recipe.dataset in TRAINED_ON]
    for name in dict.fromkeys(ours):
        shape = name if name in known else DEFAULT_ARCHITECTURE
        numbers = [t.number for t in published.tables() if t.architecture == shape]
        filled = [paper_table(n, results, name) for n in numbers]
        made += [table for table in filled if _has_numbers(table)]
    made += result_tables.overview([r for r in results if r.recipe.dataset not in TRAINED_ON])
    return made + [t for own in groups(results).values() for t in detector_tables(own)]


def paper_table(number: int, results: list[Result], architecture: str) -> tables.Table:
    """Table `number` of the paper with our numbers and the published ones beside them.

    Args:
        number: number of the table in the paper.
        results: `Result`s; those of another network are left out.
        architecture: our network.

    Returns:
        `tables.Table`. Cells that were not run say so; blanks are where the paper has blanks; in
        brackets is the published number.

    Raises:
        ValueError: none of the results is of this network on CIFAR-100.

    Example:

    >>> recipe = recipes.resolve("densenet_bc_100_12.s2d.cifar100")
    >>> run = zoo.Run("cifar100", recipe, seed=0).write()
    >>> result = studies.Result(**vars(run), metrics={"cifar100/accuracy": 0.76})
    >>> table = studies.paper_table(1, [result], "densenet_bc_100_12")
    >>> [cell.text for cell in table.rows[1]][:3]
    ['S2D Individual', '76.0', 'not run']
    """
    shape = published.table(number)
    columns = [*(("", name) for name in shape.stub), *((c.group, c.name) for c in shape.columns)]
    caption, stub = f"Table {number}. {shape.caption}", len(shape.stub)
    if shape.architecture is None:
        rows = [[*row.stub, *(cell.text for cell in row.cells)] for row in shape.rows]
        return tables.make(caption, columns, [rows], stub)
    own = [r for r in results if r.recipe.architecture == architecture]
    if not any(r.recipe.dataset in TRAINED_ON for r in own):
        raise UserError(
            f"--table: expected runs on CIFAR-100, which table {number} of the paper is "
            f"about, received runs of {architecture} on "
            f"{sorted({r.recipe.dataset for r in own})}. Leave out --table."
        )
    means = _means(shape, own)
    marks = _marks(shape, {place: mean for place, (mean, _) in means.items()})
    blocks: list[list] = [[] for _ in range(shape.rows[-1].block + 1)]
    for i, row in enumerate(shape.rows):
        cells = [
            _cell(column, row.cells[j], means.get((i, j)), marks.get((i, j)))
            for j, column in enumerate(shape.columns)
        ]
        blocks[row.block].append([*row.stub, *cells])
    footnotes = _footnotes(shape, own, architecture)
    return tables.make(caption.replace("*", ""), columns, blocks, stub, footnotes)


def archive(directories: Iterable[PathLike], out: PathLike) -> pathlib.Path:
    """Copies the metrics of runs and sweeps to `out` and regenerates `out/tables.md`.

    What `out` already contains stays, unless something of the same name is among `directories`.

    Args:
        directories: evaluated run directories and folders of `s2d tune`, kept under their names.
        out: folder.

    Returns:
        Path of the tables.

    Example:

    >>> studies.archive(["run"], "results").name
    'tables.md'
    """
    from ..training import tuning  # Here: it brings TensorFlow.

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
    from ..training import tuning

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
    return markdown(parts, out)


def _our_metric(column):
    # Milliseconds of other machines, or of a busier hour, do not compare; ratios do.
    time = column.metric == "cost/inference_ms"
    return "cost/relative_inference_time" if time else column.metric


def _means(shape, results):
    """`{(row, column): (mean, spread)}` over our seeds, for the cells that the paper fills too."""
    held = {
        data: with_stand_ins(by_variant([r for r in results if data in (None, r.recipe.dataset)]))
        for data in (*TRAINED_ON, None)
    }
    found = {}
    for i, row in enumerate(shape.rows):
        for j, column in enumerate(shape.columns):
            seeds = held[column.trained_on].get(row.variant, ())
            key = _our_metric(column)
            values = [r.metrics[key] for r in seeds if key in r.metrics]
            if values and row.cells[j].value is not None:
                found[i, j] = mean_and_two_std(values)
    return found


def _cell(column, printed, ours, mark):
    if printed.value is None:
        return tables.Cell(printed.text)
    if ours is None:
        return tables.Cell(NOT_RUN, note=printed.plain)
    mean, spread = ours
    key = _our_metric(column)
    text = format_value(key, mean, None if key.startswith("cost/") else spread)
    return tables.Cell(text, best=bool(mark), best_overall=mark == "overall", note=printed.plain)


def _has_numbers(table):
    cells = [cell for row in table.rows for cell in row[table.stub :]]
    return any(cell.text not in ("", "-", NOT_RUN) for cell in cells)


def _marks(shape, means):
    """`{(row, column): "best" or "overall"}`, where the paper marks its own.

    Performance is compared within a block, detection in a column and, for the best overall, in all
    columns of one ranking metric. What is printed alike is equally good.
    """
    if not any("**" in cell.text for *_, cell in shape.cells()):
        return {}
    compared: dict[tuple, list[tuple[int, int]]] = {}
    for i, j in means:
        column, block = shape.columns[j], shape.rows[i].block
        if not column.metric.startswith("cost/"):
            of = block if shape.kind == "performance" else None
            compared.setdefault(("best", of, j), []).append((i, j))
            if shape.kind == "detection":
                compared.setdefault(("overall", column.group), []).append((i, j))
    marks: dict[tuple[int, int], str] = {}
    for (mark, *_), places in sorted(compared.items(), key=lambda item: item[0][0]):
        key = shape.columns[places[0][1]].metric
        marks |= dict.fromkeys(best_of(key, {place: means[place] for place in places}), mark)
    return marks


def _footnotes(shape, results, architecture):
    first = "In brackets or small print: the number that the paper has published."
    if architecture != shape.architecture:
        first = (
            f"In brackets or small print: the paper's number for {shape.architecture}. Ours are of "
            f"{architecture}, another network: compare the order of the methods, not the numbers."
        )
    sizes = sorted({r.recipe.num_members for r in results if r.recipe.draws == "ensemble"})
    notes = {
        first: True,
        "Our inference time is a multiple of the individual network's.": any(
            column.metric == "cost/inference_ms" for column in shape.columns
        ),
        "± is two standard deviations over the seeds, where there are several.": any(
            len(seeds) > 1 for seeds in by_variant(results).values()
        ),
        f"Deep ensembles have {' or '.join(map(str, sizes))} members, the paper's 5.": any(
            size != USUAL_MEMBERS for size in sizes
        ),
        "Some runs were trained without the validation split.": any(
            r.split != "train" for r in results
        ),
        f"{shape.ood} was not available when these runs were evaluated.": any(
            shape.ood in r.missing_data for r in results
        ),
    }
    return [note for note, applies in notes.items() if applies]


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
