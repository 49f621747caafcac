"""The report's figures of one group of runs: same network, same training data."""

import pathlib
import re
import typing

import numpy as np

from s2d_tf import data
from s2d_tf.evaluation import figures
from s2d_tf.evaluation.names import UNCERTAINTIES, dataset_title
from s2d_tf.evaluation.results import by_variant
from s2d_tf.evaluation.run_evaluation import gather_run

# What is drawn where there is no room for all: first the systems of the paper's figures.
IMPORTANCE = (
    *("individual", "s2d", "ensemble", "s2d_ensemble", "h2d_gauss", "h2d_dir", "end"),
    *("mc", "mimo", "swag", "s2d_mc", "s2d_mimo", "s2d_swag"),
)
MAX_MODELS = 8
MAX_HISTOGRAMS = 4
MAX_COLUMNS = 4
NUM_EXAMPLES = 8


class Picture(typing.NamedTuple):
    """A drawn figure: its file, a heading, and what it shows."""

    path: pathlib.Path
    title: str
    caption: str


def draw(results, folder, data_dir=None, log=print) -> list[Picture]:
    """Draws everything that a group of runs allows.

    Args:
        results: `results.Result`s of one network and training set.
        folder: where the PNG files go.
        data_dir: TFDS folder.
        log: function that gets lines for a person.
    """
    folder = pathlib.Path(folder)
    first_seeds = {variant: part[0] for variant, part in by_variant(results).items()}
    shown = sorted(first_seeds, key=_importance)[:MAX_MODELS]
    if left_out := [variant for variant in first_seeds if variant not in shown]:
        log(f"a figure holds {MAX_MODELS} models; left out: {', '.join(left_out)}")
    chosen, gathered = {}, {}
    for variant in (variant for variant in first_seeds if variant in shown):
        chosen[variant] = first_seeds[variant]
        log(f"drawing from {chosen[variant].directory}")
        gathered[variant] = gather_run(chosen[variant].directory, data_dir)
    return [
        *_histograms(gathered, chosen, folder),
        *_reliability(gathered, chosen, folder),
        *_curves(gathered, chosen, folder),
        *_examples(gathered, chosen, data_dir, folder),
    ]


def _histograms(gathered, chosen, folder):
    sets = _ood_sets(gathered)
    if not sets:
        return
    # The paper shows SVHN; other data has its first set in that place.
    far = "svhn_cropped" if "svhn_cropped" in sets else sets[0]
    shown = _decomposing(gathered)[:MAX_HISTOGRAMS] or list(gathered)
    known = dataset_title(gathered[shown[0]].dataset)
    scores = {
        chosen[v].title: {
            known: found.known.scores,
            dataset_title(far): found.unknown[far].scores,
        }
        for v, found in gathered.items()
        if v in shown and far in found.unknown
    }
    yield Picture(
        figures.system_histograms(scores, folder / "histograms.png"),
        "Uncertainty of known and unknown images",
        f"Total, data and knowledge uncertainty on {known} (above) and {dataset_title(far)} "
        "(below). A column has one scale; its largest thousandth is left out.",
    )


def _reliability(gathered, chosen, folder):
    known = dataset_title(next(iter(gathered.values())).dataset)
    parts = [(chosen[v].title, (g.known.probs, g.known.labels)) for v, g in gathered.items()]
    for index in range(0, len(parts), MAX_COLUMNS):
        path = folder / f"reliability_{index // MAX_COLUMNS}.png"
        yield Picture(
            figures.reliability_diagram(dict(parts[index : index + MAX_COLUMNS]), path),
            "Reliability" if index == 0 else "Reliability, continued",
            f"How often a confidence is right on {known}, and how common that confidence is.",
        )


def _curves(gathered, chosen, folder):
    for name in _ood_sets(gathered):
        pairs = {
            chosen[v].title: (g.known.scores, g.unknown[name].scores)
            for v, g in gathered.items()
            if name in g.unknown
        }
        title = dataset_title(name)
        yield Picture(
            figures.roc_curves(pairs, folder / f"roc_{name}.png"),
            f"{title}: ROC curves",
            f"Finding the images of {title} among the known ones, by each uncertainty.",
        )
        yield Picture(
            figures.precision_recall_curves(pairs, folder / f"precision_recall_{name}.png"),
            f"{title}: precision and recall",
            f"Share of {title} among the flagged images, as more of them are found.",
        )
    shown = {chosen[v].title: (g.known.scores, g.known.errors) for v, g in gathered.items()}
    known = dataset_title(next(iter(gathered.values())).dataset)
    yield Picture(
        figures.risk_coverage_curves(shown, folder / "risk_coverage.png"),
        "Risk and coverage",
        f"Error rate on {known} among the images that are answered, the most uncertain rejected "
        "first.",
    )


def _examples(gathered, chosen, data_dir, folder):
    for variant in _decomposing(gathered)[:1]:
        found, result = gathered[variant], chosen[variant]
        for name, scored in {found.dataset: found.known, **found.unknown}.items():
            images, labels = data.load_arrays(name, "test", data_dir)
            own = labels if name == found.dataset else None
            classes = data.info(found.dataset).class_names
            rows = {
                f"Highest {key} uncertainty": _row(scored, key, images, own, classes)
                for key in UNCERTAINTIES[1:]
            }
            title = dataset_title(name)
            truth = "" if own is None else ", the true class"
            yield Picture(
                figures.example_images(rows, folder / f"examples_{name}.png"),
                f"{title}: the most uncertain images",
                f"Images of {title} with the highest uncertainty of {result.title} (seed "
                f"{result.seed}): the predicted class{truth} and the uncertainty in nats.",
            )


def _row(scored, key, images, labels, classes):
    def word(label):
        return (classes[label] if classes else str(label)).replace("_", " ")

    predicted, row = scored.log_probs.argmax(axis=-1), []
    for i in np.argsort(-scored.scores[key], kind="stable")[:NUM_EXAMPLES]:
        truth = "" if labels is None else f"is {word(labels[i])}\n"
        row.append((images[i], f"says {word(predicted[i])}\n{truth}{scored.scores[key][i]:.2f}"))
    return row


def _importance(variant):
    """Place in the choice of what is drawn; sizes other than the usual 5 come last."""
    method = re.sub(r"_\d+$", "", variant)
    known = IMPORTANCE.index(method) if method in IMPORTANCE else len(IMPORTANCE)
    return variant != method, known, variant


def _decomposing(gathered):
    """The models whose uncertainty splits into data and knowledge, the most important first."""
    held = [v for v, found in gathered.items() if "knowledge" in found.known.scores]
    return sorted(held, key=_importance)


def _ood_sets(gathered):
    return list(dict.fromkeys(name for found in gathered.values() for name in found.unknown))
