"""All scores of some models on all out-of-distribution sets, kept as JSON with the tables of it.

The folder has the shape of run directories, `<name>/recipe.json` and `<name>/metrics.json`, and
`detectors.md` is made from them and nothing else.
"""

import pathlib
from collections.abc import Callable, Iterable

from s2d_tf import files, zoo
from s2d_tf.data import location
from s2d_tf.evaluation import tables
from s2d_tf.zoo.layout import METRICS, PREDICTIONS, RECIPE

from . import detector_tables, result_tables
from .results import collect, groups, public

TABLES = "detectors.md"


def study(
    models: Iterable,
    out: str | pathlib.Path,
    data_dir: str | None = None,
    detectors: str | Iterable[str] = "all",
    batch_size: int = 256,
    log: Callable = print,
) -> pathlib.Path:
    """Evaluates models with detectors, keeps their metrics, and regenerates the tables.

    What is in the folder already stays, unless a model of the same name is among `models`.

    Args:
        models: run directories, and names, folders or addresses of zoo entries.
        out: folder to write to.
        data_dir: TFDS folder. Out-of-distribution datasets that are not available are skipped.
        detectors: see `detectors.choose`.
        batch_size: images per forward pass.
        log: function that gets lines for a person.

    Returns:
        Path of the tables.
    """
    from s2d_tf.evaluation import run_evaluation

    out = pathlib.Path(out)
    for where in models:
        opened = zoo.open_model(where)
        label = opened.name if opened.run is None else opened.run.directory.resolve().name
        log(f"evaluating {label}")
        cache = location.cache_dir() / PREDICTIONS / opened.name
        if opened.run is not None:
            cache = run_evaluation.cache_directory(opened.run)
        found, _ = run_evaluation.evaluate_opened(
            opened, data_dir, cache, batch_size, log, detectors=detectors
        )
        zoo.Run.create(out / label, opened.recipe, opened.seeds[0], opened.split)
        files.write_json(out / label / METRICS, public(found))
    files.write_text(out / TABLES, text(out))
    return out / TABLES


def text(out: str | pathlib.Path) -> str:
    """The tables of a folder of `study`, as Markdown."""
    results = collect(sorted(path.parent for path in pathlib.Path(out).glob(f"*/{RECIPE}")))
    parts: list[str | tables.Table] = [
        "# Out-of-distribution detection: uncertainties and post-hoc detectors\n"
    ]
    for (architecture, dataset), own in groups(results).items():
        parts += [f"## {architecture} on {dataset}\n", result_tables.runs_table(own)]
        parts += detector_tables.of_group(own)
    return "\n".join(p if isinstance(p, str) else tables.render(p, "markdown") for p in parts)
