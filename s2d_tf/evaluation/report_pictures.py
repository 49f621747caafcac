"""The report's pictures of one group of runs: same network, same training data."""

import dataclasses
import pathlib
import re

import numpy as np

from s2d_tf import data
from s2d_tf.evaluation import figures
from s2d_tf.evaluation.names import UNCERTAINTIES, dataset_title
from s2d_tf.evaluation.results import by_variant
from s2d_tf.evaluation.run_comparison import gather_run

# The systems of the paper's histogram figure, in its order.
HISTOGRAM_METHODS = ("ensemble", "s2d", "s2d_ensemble", "h2d_gauss")
# Whose doubts are shown as images: the first of these that was run.
EXAMPLE_METHODS = (
    *("s2d", "h2d_gauss", "h2d_dir", "s2d_ensemble", "ensemble", "en2d"),
    *("s2d_mc", "s2d_mimo", "s2d_swag", "mc", "mimo", "swag"),
)
# What is drawn where there are more models than colours.
IMPORTANCE = (
    *("individual", "s2d", "ensemble", "s2d_ensemble", "h2d_gauss", "h2d_dir", "end"),
    *("mc", "mimo", "swag", "s2d_mc", "s2d_mimo", "s2d_swag"),
)
MAX_MODELS = 8
MAX_COLUMNS = 4
NUM_EXAMPLES = 8


@dataclasses.dataclass(frozen=True)
class Picture:
    """A drawn figure: its file, a heading, what it shows, and the text for those who see none."""

    path: pathlib.Path
    title: str
    caption: str


def draw(results, folder, data_dir=None, log=print):
    """Draws everything that a group of runs allows.

    Args:
        results: `results.Result`s of one network and training set.
        folder: where the PNG files go.
        data_dir: TFDS folder.
        log: function that gets lines for a person.

    Returns:
        List of `Picture`.
    """
    folder = pathlib.Path(folder)
    first_seeds = {variant: part[0] for variant, part in by_variant(results).items()}
    shown = sorted(first_seeds, key=_importance)[:MAX_MODELS]
    chosen = {variant: result for variant, result in first_seeds.items() if variant in shown}
    if len(chosen) < len(first_seeds):
        left_out = ", ".join(v for v in first_seeds if v not in shown)
        log(f"a picture holds {MAX_MODELS} models; left out: {left_out}")
    gathered = {}
    for variant, result in chosen.items():
        log(f"drawing from {result.directory}")
        gathered[variant] = gather_run(result.directory, data_dir)
    titles = {variant: result.title for variant, result in chosen.items()}
    first = next(iter(gathered.values()))
    known = dataset_title(first.dataset)
    pictures = [
        *_histograms(gathered, titles, known, folder, results[0].recipe),
        *_reliability(gathered, titles, known, folder),
        *_curves(gathered, titles, folder),
        *_risk(gathered, titles, known, folder),
        *_examples(gathered, chosen, data_dir, folder),
    ]
    return pictures


def _histograms(gathered, titles, known, folder, recipe):
    # A method at the paper's size has its plain name and comes first.
    of_method = {m: [v for v in gathered if _method(v) == m] for m in HISTOGRAM_METHODS}
    shown = [min(found, key=len) for found in of_method.values() if found] or list(gathered)
    sets = _ood_sets(gathered)
    # The paper shows SVHN; other data has its first set in that place.
    far = "svhn_cropped" if "svhn_cropped" in sets else next(iter(sets), None)
    if far is None:
        return
    scores = {
        titles[v]: {
            known: gathered[v].known.scores,
            dataset_title(far): gathered[v].unknown[far].scores,
        }
        for v in shown
        if far in gathered[v].unknown
    }
    absent = [recipe.sibling(method).title for method, found in of_method.items() if not found]
    absent = f" Not run: {', '.join(absent)}." if absent else ""
    yield Picture(
        figures.system_histograms(scores, folder / "histograms.png"),
        "Uncertainty of known and unknown images",
        f"The paper's histogram figure: total, data and knowledge uncertainty on {known} (above) "
        f"and {dataset_title(far)} (below). A column has one scale; its largest thousandth is left "
        f"out.{absent}",
    )


def _reliability(gathered, titles, known, folder):
    parts = [(titles[v], (g.known.probs, g.known.labels)) for v, g in gathered.items()]
    for index in range(0, len(parts), MAX_COLUMNS):
        path = folder / f"reliability_{index // MAX_COLUMNS}.png"
        yield Picture(
            figures.reliability_diagram(dict(parts[index : index + MAX_COLUMNS]), path),
            "Reliability" if index == 0 else "Reliability, continued",
            f"How often a confidence is right on {known}, and how common that confidence is.",
        )


def _curves(gathered, titles, folder):
    for name in _ood_sets(gathered):
        pairs = {
            titles[v]: (g.known.scores, g.unknown[name].scores)
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


def _risk(gathered, titles, known, folder):
    shown = {titles[v]: (g.known.scores, g.known.errors) for v, g in gathered.items()}
    yield Picture(
        figures.risk_coverage_curves(shown, folder / "risk_coverage.png"),
        "Risk and coverage",
        f"Error rate on {known} among the images that are answered, the most doubtful rejected "
        "first.",
    )


def _examples(gathered, chosen, data_dir, folder):
    decomposing = [v for method in EXAMPLE_METHODS for v in gathered if _method(v) == method]
    if not decomposing:
        return
    variant = decomposing[0]
    found, recipe = gathered[variant], chosen[variant].recipe
    classes = data.info(recipe.source_dataset).class_names
    for name, scored in {found.dataset: found.known, **found.unknown}.items():
        images, labels = data.load_arrays(name, "test", data_dir)
        own = labels if name == found.dataset else None
        rows = {
            f"Highest {key} uncertainty": _row(scored, key, images, own, classes)
            for key in UNCERTAINTIES[1:]
        }
        title = dataset_title(name)
        yield Picture(
            figures.example_images(rows, folder / f"examples_{name}.png"),
            f"{title}: the images of most doubt",
            f"What {chosen[variant].title} (seed {chosen[variant].seed}) is least sure of in "
            f"{title}: what it says"
            + (", what it is" if own is not None else "")
            + " and the uncertainty in nats.",
        )


def _row(scored, key, images, labels, classes):
    order = np.argsort(-scored.scores[key], kind="stable")[:NUM_EXAMPLES]
    said = scored.log_probs.argmax(axis=-1)

    def word(label):
        return (classes[label] if classes else str(label)).replace("_", " ")

    captions = [
        f"says {word(said[i])}\n"
        + (f"is {word(labels[i])}\n" if labels is not None else "")
        + f"{scored.scores[key][i]:.2f}"
        for i in order
    ]
    return [(images[i], caption) for i, caption in zip(order, captions, strict=True)]


def _importance(variant):
    """Place in the choice of what is drawn; sizes other than the paper's usual 5 come last."""
    method = _method(variant)
    known = IMPORTANCE.index(method) if method in IMPORTANCE else len(IMPORTANCE)
    return variant != method, known, variant


def _method(variant):
    return re.sub(r"_\d+$", "", variant)


def _ood_sets(gathered):
    return list(dict.fromkeys(name for found in gathered.values() for name in found.unknown))
