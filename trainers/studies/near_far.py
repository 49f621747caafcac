"""The means over OpenOOD's near and far sets, and the detection of errors."""

import numpy as np

from s2d_tf import metrics
from s2d_tf.evaluation.evaluator import Gathered

from ..datasets import OPENOOD_SETS

RANKINGS = ("auroc", "aupr", "fpr_at_95_recall")


def near_far_sets(dataset: str) -> dict[str, tuple[str, ...]]:
    """`{"near": names, "far": names}` of the OpenOOD protocol; empty for datasets without one."""
    return OPENOOD_SETS if dataset == "cifar100" else {}


def near_far_metrics(gathered: Gathered) -> dict[str, float]:
    """Metrics beside those of `evaluate`: errors, and OpenOOD's means.

    Args:
        gathered: scores of a model on its dataset and on the sets that are available.

    Returns:
        Flat dict: `DATASET/error_auroc/U` of wrong answers; and `openood_near/auroc/U`, `/aupr/U`
        and `/fpr_at_95_recall/U`, the means over those near sets that were evaluated, with
        `openood_near/sets`, how many these are; the same for `openood_far`. A mean over some of the
        sets is not the protocol's.

    Example:

    ```python
    gathered = evaluator.gather(model, "cifar100", ["cifar10"], skip_missing=True)
    near_far_metrics(gathered)["openood_near/auroc/total"]
    ```
    """
    known, found = gathered.known, {}
    errors = known.errors
    for score, values in known.scores.items():
        if 0 < errors.sum() < len(errors):
            key = f"{gathered.dataset}/error_auroc/{score}"
            found[key] = metrics.auroc(values[~errors], values[errors])
    every = gathered.metrics() | found
    for distance, names in near_far_sets(gathered.dataset).items():
        held = [name for name in names if name in gathered.unknown]
        found[f"openood_{distance}/sets"] = len(held)
        for metric in RANKINGS if held else ():
            for score in known.scores:
                own = [every[f"{name}/{metric}/{score}"] for name in held]
                found[f"openood_{distance}/{metric}/{score}"] = float(np.mean(own))
    return found
