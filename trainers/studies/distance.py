"""What does knowledge uncertainty gain from the distance to the training data?

`posthoc.DistanceAwareness` on nearest neighbors, with few and with many stored vectors, against the
network's own scores on near and far sets. Networks that were trained on all images leave only test
images to fit the step on. So each set is cut into two halves: choices are made on the first ones;
the second ones, with the step fitted on the first half of the known images, are read at the end.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from s2d_tf import data, evaluation, posthoc, zoo
from s2d_tf._types import PathLike
from s2d_tf.evaluation import intervals, tables
from s2d_tf.evaluation.example_scores import cached_outputs
from s2d_tf.evaluation.names import dataset_title
from s2d_tf.evaluation.predictions import open_source

from .detectors import score_table, with_means
from .results import Question, Result, by_title, ood_names, runs_table

NEIGHBORS = {1_000: 1, 5_000: 10, 50_000: 50}
"""Which neighbor is taken of how many stored vectors."""


def ask(
    opened: zoo.TrainedModel,
    half: str = "second",
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    log: Any = print,
) -> tuple[dict, dict]:
    """Detection by a network's own scores, and by knowledge uncertainty with the distance.

    Args:
        opened: a single network.
        half: "first" or "second": which half of each set is scored.
        data_dir, batch_size, log: as for `evaluation.evaluate_run`.
    """
    network, source = posthoc.root(opened.predictor), opened.recipe.source_dataset

    def collect(name, split="test"):
        log(f"reading {name}, {split}")
        read = open_source(network, name, name, split, data_dir, batch_size)
        found = cached_outputs(network, read, evaluation.cache_directory(opened), batch_size)
        middle = len(found) // 2
        halves = {"first": found.rows(0, middle), "second": found.rows(middle, len(found))}
        return halves if split == "test" else found

    known, training = collect(source), collect(source, opened.split)
    sets = {source: known[half]}
    for name in opened.recipe.sibling("individual").out_of_distribution:
        try:
            sets[name] = collect(name)[half]
        except data.MissingDataError:
            log(f"skipped {name}: not available (`s2d data {name}` says how to get it)")
    fitted = posthoc.Energy().fit(network)
    steps = {"knowledge": fitted}
    for size, k in NEIGHBORS.items():
        near = posthoc.KNN(k, size, name=f"knn_{size}").fit(network, training)
        steps[f"knowledge_{size}"] = posthoc.DistanceAwareness(f"knn_{size}").fit(
            near, known["first" if half == "second" else "second"]
        )
    scores: dict[str, dict] = {}
    for name, values in sets.items():
        answers = {score: step.predict_uncertainty(values) for score, step in steps.items()}
        own = answers["knowledge"]
        scores[name] = {"total": own["total"], "energy": own["energy"]}
        scores[name] |= {key: each["knowledge"] for key, each in answers.items()}
        if not network.decomposes:
            del scores[name]["knowledge"]
    found = {key: each["estimate"] for key, each in detection_intervals(scores, 1).items()}
    return found, scores


def detection_intervals(scores: dict[str, dict], num_resamples: int) -> dict[str, dict]:
    """`{"svhn/auroc/knowledge": {"estimate", "low", "high"}, ...}`; known examples come first."""
    known, *unknown = scores.values()
    return {
        f"{name}/{key}": dataclasses.asdict(each)
        for name, own in zip(list(scores)[1:], unknown, strict=True)
        for key, each in intervals.detection(known, own, None, num_resamples).items()
    }


def show(results: list[Result], folder: pathlib.Path | None = None) -> list[tables.Table]:
    """The runs, and AUROC by score with means over near and over far sets."""
    named, means, notes = with_means(by_title(results), ood_names(results))
    columns = {n: dataset_title(n) for n in ood_names(results)} | {n: n.capitalize() for n in means}
    keys = {f"{name}/auroc": title for name, title in columns.items()}
    ends = {result.title: result.ends for result in results}
    return [runs_table(results), score_table(named, keys, "%AUROC of each score", notes, ends)]


QUESTION = Question(
    "distance",
    "Knowledge uncertainty with the distance to the training data",
    ask,
    show,
    intervals=detection_intervals,
)
