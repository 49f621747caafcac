"""Which score detects best? Uncertainties and post-hoc detectors on near and far data.

Tables of scores by out-of-distribution sets. A dataset's record says whether it is near, such as
CIFAR-10 and resized photographs for CIFAR-100, or far, such as house numbers and crops; means are
taken over the near and over the far ones, never over both.
"""

from __future__ import annotations

import pathlib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from s2d_tf import data, evaluation, zoo
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.intervals import RANKINGS
from s2d_tf.evaluation.names import (
    METRICS,
    UNCERTAINTIES,
    dataset_title,
    score_title,
)
from s2d_tf.evaluation.tables import metric_table

from .results import Question, Result, by_title, by_variant, ood_names, runs_table

REJECTION = ("aurc", "augrc", "risk_at_80_coverage")


def ask(
    opened: zoo.TrainedModel, detectors: str | Iterable[str] = "all", **options: Any
) -> tuple[dict, evaluation.ModelScores]:
    """All metrics of a model, by its uncertainties and by post-hoc detectors.

    Args:
        opened: the model.
        detectors: names, or "all"; see `evaluation.evaluate`.
        **options: `data_dir`, `batch_size` and `log`, as for `evaluation.evaluate_run`.
    """
    return evaluation.evaluate_opened(opened, detectors=detectors, **options)


def show(results: list[Result], folder: pathlib.Path | None = None) -> list[tables.Table]:
    """The runs, and `detector_tables` of them."""
    return [runs_table(results), *detector_tables(results)]


def detector_tables(results: list[Result]) -> list[tables.Table]:
    """All tables of detectors for runs of one network and training set; none without detectors.

    AUROC, AUPR and FPR at 95% recall of every score for every out-of-distribution set, abstention
    by every score, and the rank correlation of data and knowledge uncertainty.
    """
    recipe, named, ood = results[0].recipe, by_title(results), ood_names(results)
    dataset, of = recipe.source_dataset, f"{recipe.architecture} on {recipe.dataset}: "
    if not set(score_names(named)) - set(UNCERTAINTIES):
        return []
    named, means, notes = with_means(named, ood)
    ends = {own[0].title: own[0].ends for own in by_variant(results).values() if len(own) == 1}
    if any(ends.values()):
        notes.append("(±): half of a 95% interval over resampled images.")
    columns = {n: dataset_title(n) for n in ood} | {n: n.capitalize() for n in means}
    made = [
        score_table(
            named,
            {f"{name}/{ranking}": title for name, title in columns.items()},
            f"{of}{METRICS[ranking].title} of each score",
            notes,
            ends,
        )
        for ranking in RANKINGS
        if ood
    ]
    made.append(
        score_table(
            named,
            {f"{dataset}/{name}": METRICS[name].title for name in REJECTION},
            f"{of}rejecting the images with the largest score",
            ["Smaller is better in every column."],
        )
    )
    keys = {f"{name}/rank_correlation": ("", dataset_title(name)) for name in [dataset, *ood]}
    own = {label: [m for m in seeds if keys.keys() & m.keys()] for label, seeds in named.items()}
    own = {label: seeds for label, seeds in own.items() if seeds}
    note = "1: both uncertainties put the images into one order."
    caption = f"{of}rank correlation of data and knowledge uncertainty"
    return [*made, metric_table(own, keys, caption, [note])] if own else made


def score_names(named: dict[str, list[dict]]) -> list[str]:
    """The scores in `{label: [metrics of each seed]}`, in the order of all tables."""
    keys = (key.split("/") for seeds in named.values() for metrics in seeds for key in metrics)
    found = {parts[2] for parts in keys if len(parts) == 3 and parts[1] in RANKINGS + REJECTION}
    others = found - set(UNCERTAINTIES)
    if others:
        from s2d_tf import posthoc  # Here: it brings TensorFlow.
    order = (*UNCERTAINTIES, *(posthoc.detectors() if others else ()))
    return [n for n in order if n in found] + sorted(found - set(order))


def with_means(
    named: dict[str, list[dict]], ood: Sequence[str]
) -> tuple[dict[str, list[dict]], list[str], list[str]]:
    """Metrics with `near/auroc/U`, `far/auroc/U`, ...: means over the near and over the far sets.

    Args:
        named: `{label: [metrics of each seed]}`.
        ood: the sets that were evaluated. A kind of which there is only one has no mean.

    Returns:
        The metrics, the kinds with a mean, and a note on the sets of each.
    """
    held = {
        kind: [n for n in ood if n in data.names() and data.info(n).distance == kind]
        for kind in ("near", "far")
    }
    held = {kind: names for kind, names in held.items() if len(names) > 1}

    def extended(metrics):
        means = {}
        for kind, names in held.items():
            for end in (f"{ranking}/{s}" for ranking in RANKINGS for s in score_names(named)):
                values = [metrics[f"{n}/{end}"] for n in names if f"{n}/{end}" in metrics]
                if len(values) == len(names):
                    means[f"{kind}/{end}"] = float(np.mean(values))
        return metrics | means

    notes = [
        f"{kind.capitalize()}: mean over {', '.join(map(dataset_title, names))}."
        for kind, names in held.items()
    ]
    made = {label: [extended(metrics) for metrics in seeds] for label, seeds in named.items()}
    return made, list(held), notes


def score_table(
    named: dict[str, list[dict]],
    columns: dict[str, str],
    caption: str = "",
    footnotes: Sequence[str] = (),
    ends: Mapping[str, dict[str, tuple]] = types.MappingProxyType({}),
) -> tables.Table:
    """One row for each model and score, one column for each `{key without its score: title}`.

    `ends` are 95% intervals, `{label: {key: (low, high)}}`, shown beside the values.
    """
    rows = {
        (label, score_title(score)): [
            {stem: m[key] for stem in columns if (key := f"{stem}/{score}") in m} for m in seeds
        ]
        for label, seeds in named.items()
        for score in score_names(named)
    }
    keys = {stem: ("", title) for stem, title in columns.items()}
    notes = {
        (stem, (label, score_title(score))): f"±{50 * (high - low):.1f}"
        for label, own in ends.items()
        for stem, _, score, (low, high) in ((*k.rpartition("/"), pair) for k, pair in own.items())
    }
    return metric_table(rows, keys, caption, footnotes, ("Model", "Score"), notes)


QUESTION = Question(
    "detectors",
    "Out-of-distribution detection: uncertainties and post-hoc detectors",
    ask,
    show,
    intervals=lambda scored, num_resamples: scored.intervals(None, num_resamples),
)
