"""The report's figures of one group of runs: same network, same training data."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from s2d_tf._types import PathLike
from s2d_tf.evaluation import figures
from s2d_tf.evaluation.names import UNCERTAINTIES, dataset_title
from s2d_tf.evaluation.run_evaluation import score_run

from .results import by_variant

if TYPE_CHECKING:
    from .results import Result

# What is drawn where there is no room for all: first the systems of the paper's figures.
IMPORTANCE = (
    *("individual", "s2d", "ensemble", "s2d_ensemble", "h2d_gauss", "h2d_dir", "end"),
    *("mc", "mimo", "swag", "s2d_mc", "s2d_mimo", "s2d_swag"),
)
MAX_MODELS = 8
MAX_HISTOGRAMS = 4
MAX_COLUMNS = 4
NUM_EXAMPLES = 6


def draw(
    results: list[Result],
    folder: PathLike,
    data_dir: PathLike | None = None,
    log: Callable[[str], Any] = print,
    images: PathLike | None = None,
) -> list[tuple[pathlib.Path, str, str]]:
    """Draws everything that a group of runs allows, from the first seed of each method.

    Args:
        results: `Result`s of one network and training set.
        folder: where the PNG files go.
        data_dir: TFDS folder.
        log: function that gets lines for a person.
        images: where the images of runs on own data are now; None: where they were.

    Returns:
        For each figure its file, a heading, and what it shows.
    """
    first_seeds = {variant: part[0] for variant, part in by_variant(results).items()}
    ranked = sorted(first_seeds, key=_importance)[:MAX_MODELS]
    if left_out := [variant for variant in first_seeds if variant not in ranked]:
        log(f"a figure holds {MAX_MODELS} models; left out: {', '.join(left_out)}")
    models = {}
    for result in (result for variant, result in first_seeds.items() if variant in ranked):
        log(f"drawing from {result.directory}")
        models[result.title] = score_run(result.directory, data_dir, images)
    folder, titles = pathlib.Path(folder), [first_seeds[variant].title for variant in ranked]
    decomposing = [title for title in titles if "knowledge" in models[title].known.scores]
    return [
        *_histograms(models, decomposing[:MAX_HISTOGRAMS] or titles, folder),
        *_reliability(models, folder),
        *_curves(models, folder),
        *(p for title in decomposing[:1] for p in _examples(title, models[title], folder)),
    ]


def _histograms(models, shown, folder):
    sets = _ood_sets(models)
    # The paper shows SVHN; other data has its first set in that place.
    for far in ["svhn_cropped"] if "svhn_cropped" in sets else sets[:1]:
        known = _known(models)
        scores = {
            title: {known: m.known.scores, dataset_title(far): m.unknown[far].scores}
            for title, m in models.items()
            if title in shown and far in m.unknown
        }
        yield (
            figures.uncertainty_histograms(scores, folder / "histograms.png", by_dataset=True),
            "Uncertainty of known and unknown images",
            f"Total, data and knowledge uncertainty on {known} (above) and {dataset_title(far)} "
            "(below). A column has one scale; its largest thousandth is left out.",
        )


def _reliability(models, folder):
    parts = [(title, (m.known.probs, m.known.labels)) for title, m in models.items()]
    for index in range(0, len(parts), MAX_COLUMNS):
        yield (
            figures.reliability_diagram(
                dict(parts[index : index + MAX_COLUMNS]),
                folder / f"reliability_{index // MAX_COLUMNS}.png",
            ),
            "Reliability" if index == 0 else "Reliability, continued",
            f"How often a confidence is right on {_known(models)}, and how common that confidence "
            "is.",
        )


def _curves(models, folder):
    for name in _ood_sets(models):
        pairs = {
            title: (m.known.scores, m.unknown[name].scores)
            for title, m in models.items()
            if name in m.unknown
        }
        title = dataset_title(name)
        yield (
            figures.roc_curves(pairs, folder / f"roc_{name}.png"),
            f"{title}: ROC curves",
            f"Finding the images of {title} among the known ones, by each uncertainty.",
        )
        yield (
            figures.precision_recall_curves(pairs, folder / f"precision_recall_{name}.png"),
            f"{title}: precision and recall",
            f"Share of {title} among the flagged images, as more of them are found.",
        )
    shown = {title: (m.known.scores, m.known.errors) for title, m in models.items()}
    yield (
        figures.risk_coverage_curves(shown, folder / "risk_coverage.png"),
        "Risk and coverage",
        f"Error rate on {_known(models)} among the images that are answered, the most uncertain "
        "rejected first.",
    )


def _examples(method, model, folder):
    for name, scored in {model.dataset: model.known, **model.unknown}.items():
        labels = scored.labels if name == model.dataset else None
        rows = {
            f"Highest {key} uncertainty": _row(model, name, scored, key, labels)
            for key in UNCERTAINTIES[1:]
        }
        if not all(rows.values()):
            continue
        title = dataset_title(name)
        truth = "" if labels is None else ", the true class"
        yield (
            figures.example_images(rows, folder / f"examples_{name}.png"),
            f"{title}: the most uncertain images",
            f"Images of {title} with the highest uncertainty of {method}: the predicted class"
            f"{truth} and the uncertainty in nats.",
        )


def _row(model, name, scored, key, labels):
    """The most uncertain images with what is said about them; none of other inputs."""
    classes = model.class_names

    def word(label):
        return (classes[label] if classes else str(label)).replace("_", " ")

    predicted, row = scored.log_probs.argmax(axis=-1), []
    places = np.argsort(-scored.scores[key], kind="stable")[:NUM_EXAMPLES]
    for i, image in zip(places, model.sources[name].take(places), strict=True):
        if np.ndim(image) != 3:
            return []
        truth = "" if labels is None else f"is {word(labels[i])}\n"
        said = f"says {word(predicted[i])}\n{truth}{scored.scores[key][i]:.2f}"
        row.append((image, said))
    return row


def _importance(variant):
    """Place in the choice of what is drawn; sizes other than the usual 5 come last."""
    method = re.sub(r"_\d+$", "", variant)
    return variant != method, (*IMPORTANCE, method).index(method), variant


def _known(models):
    return dataset_title(next(iter(models.values())).dataset)


def _ood_sets(models):
    return list(dict.fromkeys(name for m in models.values() for name in m.unknown))
