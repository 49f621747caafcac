"""The YAML at the top of a card, which model hubs read: what it is, on what data, how good."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from s2d_tf.data.registry import info
from s2d_tf.evaluation import names
from s2d_tf.uncertainty import decomposes

if TYPE_CHECKING:
    from s2d_tf.zoo.entries import Record

# Type on hubs, name for people, our key.
METRICS = (
    ("accuracy", "Accuracy", "accuracy"),
    ("nll", "Negative log-likelihood", "nll"),
    ("expected_calibration_error", "Expected calibration error", "ece"),
    ("brier_score", "Brier score", "brier"),
)
# Names of datasets on the hub that are not ours.
HUB_DATASETS = {
    "cifar10": "uoft-cs/cifar10",
    "cifar100": "uoft-cs/cifar100",
    "clinc150": "clinc/clinc_oos",
}
TAGS = ("uncertainty", "calibration", "out-of-distribution-detection", "keras", "tensorflow")
DIGITS = 6


def text(record: Record) -> str:
    """The block between dashes, with the `model-index` of an entry's metrics.

    No license is stated: it is for the owner of the weights to choose.

    Args:
        record: a `storage.entries.Record`.
    """
    recipe, dataset = record.recipe, record.recipe.source_dataset
    kind = "image" if info(dataset).image_shape else "text"
    values: dict[str, Any] = {
        "library_name": "s2d_tf",
        "pipeline_tag": f"{kind}-classification",
        "tags": list(TAGS),
    }
    if dataset in HUB_DATASETS:
        values["datasets"] = [HUB_DATASETS[dataset]]
    results = [
        {
            "task": {
                "type": f"{kind}-classification",
                "name": f"{kind.capitalize()} classification",
            },
            "dataset": _dataset(dataset),
            "metrics": _metrics(record, [(t, n, f"{dataset}/{key}") for t, n, key in METRICS]),
        }
    ]
    splits = decomposes(record.kind, record.num_members)
    scores = names.UNCERTAINTIES if splits else ("confidence", "total")
    for other in recipe.out_of_distribution:
        wanted = [
            ("roc_auc", f"AUROC by {names.LONG_NAMES[score].lower()}", f"{other}/auroc/{score}")
            for score in scores
        ]
        results.append(
            {
                "task": {
                    "type": "out-of-distribution-detection",
                    "name": f"Detection of {names.dataset_title(other)} among "
                    f"{names.dataset_title(dataset)}",
                },
                "dataset": _dataset(other),
                "metrics": _metrics(record, wanted),
            }
        )
    measured = [result for result in results if result["metrics"]]
    values["model-index"] = [{"name": record.name, "results": measured}]
    return "---\n" + "\n".join(_lines(values)) + "\n---\n\n"


def _dataset(name):
    kind = HUB_DATASETS.get(name, name)
    return {"name": names.dataset_title(name), "type": kind, "split": "test"}


def _metrics(record, wanted):
    return [
        {"type": kind, "name": name, "value": round(record.metrics[key], DIGITS)}
        for kind, name, key in wanted
        if isinstance(record.metrics.get(key), float | int)
    ]


def _lines(value):
    """Lines of YAML in block style; scalars as in JSON, which is YAML as well."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield f"{key}:"
                yield from (f"  {line}" for line in _lines(item))
            else:
                yield f"{key}: {json.dumps(item, ensure_ascii=False)}"
    else:
        for item in value:
            inner = list(_lines(item)) if isinstance(item, dict | list) else [json.dumps(item)]
            yield f"- {inner[0]}"
            yield from (f"  {line}" for line in inner[1:])
