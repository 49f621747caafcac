"""Models side by side under shift: what `s2d shift` does.

A folder of it has `<model>/shift.json` (and `recipe.json` of a run or entry), and
`differences.json`. `shift.md` and its figures are made from these files and nothing else.
"""

import pathlib
from collections.abc import Callable, Iterable

from s2d_tf import __version__, files, zoo
from s2d_tf.data import location
from s2d_tf.evaluation import intervals, tables
from s2d_tf.zoo.layout import PREDICTIONS, RECIPE, SHIFT

from . import shift_report
from .results import Result, by_title, groups

PAIR = ("fast_resnet_half.individual.cifar100_plus", "fast_resnet_half.s2d.cifar100_plus")
"""What is compared where nobody names a model."""
DIFFERENCES = "differences.json"
PAGE = "shift.md"


def study(
    models: Iterable[str] = (),
    out: str | pathlib.Path | None = None,
    dataset: str = "cifar100_c_generated",
    images: int | None = None,
    data_dir: str | None = None,
    batch_size: int = 256,
    num_resamples: int = 1_000,
    log: Callable[[str], None] = print,
) -> list[pathlib.Path]:
    """Evaluates models under all conditions of a dataset, and compares them with the first.

    The metrics of a run are written into it as `shift.json`, where `s2d report` finds them. What is
    in `out` already stays, unless a model of the same name is among `models`.

    Args:
        models: run directories; names, folders or addresses of zoo entries; exported models.
            Without any the published pair, plain and S2D.
        out: folder for the metrics and the page; may be None where all models are runs.
        dataset: a dataset with conditions.
        images: take only the first ones of each condition; None: all.
        data_dir: TFDS folder.
        batch_size: images per forward pass.
        num_resamples: bootstrap resamples behind the intervals of differences.
        log: function that gets lines for a person.

    Returns:
        Paths of what was written: each model's metrics, and the page.

    Raises:
        ValueError: a model that is no run needs `out`.
    """
    # Here: tables of finished studies need no TensorFlow.
    from .shift import evaluate_shift
    from .shift_resampling import shift_intervals

    models, written, first, differences = list(models) or list(PAIR), [], None, {}
    if out is None and not all(map(zoo.is_run, models)):
        raise ValueError(
            "--out: expected a folder for the metrics of models that are not run directories, "
            "received none. Add --out=DIR."
        )
    for where in models:
        model, label, cache, opened = open_any(where)
        log(f"evaluating {label}")
        shift = evaluate_shift(model, dataset, images, data_dir, cache, batch_size, progress=True)
        found = shift.metrics() | _facts(model, label, shift, opened)
        if opened is not None and opened.run is not None:
            files.write_json(opened.run.directory / SHIFT, found)
            written.append(opened.run.directory / SHIFT)
        if out is not None:
            folder = pathlib.Path(out) / label
            if opened is not None:
                zoo.Run.create(folder, opened.recipe, opened.seeds[0], opened.split)
            files.write_json(folder / SHIFT, found)
            written.append(folder / SHIFT)
        first = first or (label, shift)
        if out is not None and label != first[0]:
            log(f"resampling {label} minus {first[0]} {num_resamples:,} times")
            found = shift_intervals(shift, first[1], num_resamples)
            caption = f"{label} minus {first[0]}"
            differences[caption] = {"resamples": num_resamples, "intervals": found}
    if out is None:
        return written
    path = pathlib.Path(out) / DIFFERENCES
    held = files.read_json(path) if path.is_file() else {}
    if held | differences:
        files.write_json(path, held | differences)
    return [*written, write_page(out)]


def open_any(where: str) -> tuple:
    """A model of any kind to evaluate.

    Args:
        where: a run directory; the name, folder or address of a zoo entry; an exported model.

    Returns:
        The predictor or `ExportedModel`, a label for it, the folder of its cache, and the
        `zoo.TrainedModel` where it is not exported.
    """
    from s2d_tf import export
    from s2d_tf.evaluation import exported, run_evaluation

    if not zoo.is_run(where) and export.is_exported(where):
        model = exported.ExportedModel(where)
        folder = model.folder.resolve()
        label = folder.parent.name if folder.name.isdecimal() else folder.name
        return model, label, location.cache_dir() / PREDICTIONS / label, None
    opened = zoo.open_model(where)
    if opened.run is None:
        cache = location.cache_dir() / PREDICTIONS / opened.name
        return opened.predictor, opened.name, cache, opened
    directory = opened.run.directory.resolve()
    label = directory.name
    if zoo.is_run(directory.parent):  # A member of an ensemble, or a view.
        label = f"{directory.parent.name}.{label}"
    return opened.predictor, label, run_evaluation.cache_directory(opened.run), opened


def write_page(out: str | pathlib.Path) -> pathlib.Path:
    """Regenerates the page and the figures of a folder of `study`; returns the page's path."""
    out = pathlib.Path(out)
    results, others = [], {}
    for path in sorted(out.glob(f"*/{SHIFT}")):
        if (path.parent / RECIPE).is_file():
            run = zoo.Run.open(path.parent)
            results.append(Result(**vars(run), metrics=files.read_json(path)))
        else:
            others[path.parent.name] = [files.read_json(path)]
    parts: list[str | tables.Table] = ["# Under shift\n"]
    for (architecture, dataset), own in groups(results).items():
        parts += _section(f"{architecture} trained on {dataset}", by_title(own), out, own)
    if others:
        parts += _section("Exported models", others, out)
    path = out / DIFFERENCES
    held = files.read_json(path) if path.is_file() else {}
    parts += ["## Differences\n"] if held else []
    for caption, facts in held.items():
        parts.append(intervals.difference_table(facts["intervals"], caption, facts["resamples"]))
    text = "\n".join(p if isinstance(p, str) else tables.render(p, "markdown") for p in parts)
    files.write_text(out / PAGE, text)
    return out / PAGE


def _section(heading, named, out, results=None):
    parts: list[str | tables.Table] = [f"## {heading}\n"]
    for dataset in shift_report.dataset_names(named):
        folder = out / "plots" / heading.replace(" ", "_")
        for path, title, caption in shift_report.draw_severities(named, dataset, folder):
            parts.append(f"![{title}]({path.relative_to(out).as_posix()})\n\n{caption}\n")
        parts += shift_report.shift_tables(named, dataset)
        twins = results and shift_report.shift_twins(results, dataset)
        parts += [twins] if twins else []
    return parts


def _facts(model, label, shift, opened):
    from s2d_tf.evaluation import answers

    clean = next(iter(shift.answers.values()))
    return {
        "shift/images": len(clean),
        "shift/conditions": len(shift.answers),
        "run/name": opened.name if opened else label,
        "run/seed": opened.seeds[0] if opened else None,
        "run/weights": answers.identity(model),
        "versions/s2d_tf": __version__,
    }
