"""Models in memory side by side, on data of any kind: a table of differences, and the report."""

from __future__ import annotations

import html
import pathlib
from typing import TYPE_CHECKING, Any

from s2d_tf._types import PathLike
from s2d_tf.evaluation import intervals, tables
from s2d_tf.evaluation.evaluator import gather, scaled_metrics

from . import report, result_tables

if TYPE_CHECKING:
    from s2d_tf.models import Predictor


def compare(
    first: Predictor,
    second: Predictor,
    dataset: Any,
    ood: Any = (),
    name: str = "data",
    num_resamples: int = intervals.NUM_RESAMPLES,
    **options: Any,
) -> tables.Table:
    """Compares two models example by example: is the difference more than chance?

    Args:
        first, second: `models.Predictor`s with the same classes.
        dataset, ood, name: as for `evaluate`.
        num_resamples: number of bootstrap resamples of the test examples, in pairs.
        **options: `data_dir`, `split`, `cache_dir` and `batch_size`, as for `evaluate`.

    Returns:
        Table of the differences, first minus second, with paired 95% intervals.

    Example:

    >>> other = models.Classifier(backbone, num_classes=3)
    >>> table = evaluation.compare(model, other, (images, labels), num_resamples=50)
    >>> table.rows[0][1].text, len(table.rows)
    ('Acc', 4)
    """
    own, other = (gather(each, dataset, ood, name=name, **options) for each in (first, second))
    found = intervals.of_gathered(own, other, num_resamples)
    return intervals.difference_table(found, "First minus second", num_resamples)


def write_model_report(
    models: dict[str, Predictor],
    dataset: Any,
    out: PathLike,
    ood: Any = (),
    name: str = "data",
    num_resamples: int = intervals.NUM_RESAMPLES,
    **options: Any,
) -> pathlib.Path:
    """Writes `report.html` on models in memory: tables, differences, figures, the data's hashes.

    Args:
        models: `{title: models.Predictor}`, up to 8. The others are compared with the first.
        dataset, ood, name: as for `evaluate`. Of a `tf.data.Dataset` every model and the figures
            make a pass; it must not be shuffled.
        out: folder to write to; the figures are also there, under `figures/`.
        num_resamples: number of bootstrap resamples behind the differences.
        **options: `data_dir`, `split`, `cache_dir` and `batch_size`, as for `evaluate`.

    Returns:
        Path of the page.

    Example:

    >>> path = evaluation.write_model_report(
    ...     {"S2D": model}, (images, labels), "report", num_resamples=50
    ... )
    >>> path.name
    'report.html'
    """
    # Here and not above: it brings matplotlib.
    from . import report_pictures

    if not 1 <= len(models) <= report_pictures.MAX_MODELS:
        raise ValueError(
            f"models: expected 1 to {report_pictures.MAX_MODELS}, which a figure has room for, "
            f"received {len(models)}. Choose which to show."
        )
    made = {title: gather(m, dataset, ood, name=name, **options) for title, m in models.items()}
    (first, reference), *others = made.items()
    known, unknown = reference.dataset, list(reference.unknown)
    metrics = {t: g.metrics() | scaled_metrics(known, g.known) for t, g in made.items()}
    differences = [
        intervals.difference_table(
            intervals.of_gathered(other, reference, num_resamples),
            f"{title} minus {first}",
            num_resamples,
        )
        for title, other in others
    ]
    drawn = report_pictures.draw_models(made, pathlib.Path(out) / "figures")
    sections = [
        report.Section("Tables", [result_tables.overview_table(metrics, known, unknown)]),
        report.Section("Differences", differences),
        report.Section("Figures", [report.figure(*each) for each in drawn]),
        report.Section("More metrics", result_tables.of_metrics(metrics, known, unknown)),
        report.Section("Made from", [_facts(reference)]),
    ]
    subtitle = f"{len(models)} models on {known}."
    return report.write_page(out, subtitle, [section for section in sections if section.parts])


def _facts(gathered):
    items = "".join(
        f"<li>{html.escape(name)}: {facts['images']:,} examples, "
        f"<code>{facts['fingerprint']}</code></li>"
        for name, facts in gathered.facts.items()
    )
    return f"<p>SHA-256 over all examples and labels, whatever their order:</p><ul>{items}</ul>"
