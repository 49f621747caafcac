"""The steps by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2d_tf.posthoc.step import Step

DETECTORS = (
    "ASH",
    "Energy",
    "FDBD",
    "FeatureDensity",
    "GEN",
    "KNN",
    "MSP",
    "Mahalanobis",
    "MaxLogit",
    "ReAct",
    "RelativeMahalanobis",
    "SCALE",
    "Uncertainty",
    "ViM",
)
STEPS = (
    *DETECTORS,
    "ConformalSets",
    "DirichletCalibration",
    "LastLayerLaplace",
    "SelectiveClassifier",
    "TemperatureScaling",
    "VectorScaling",
)


def step_class(name: str) -> type[Step]:
    """The class of a step, by its own name or by a key such as `knn` or `conformal_sets`.

    Example:

    >>> posthoc.step_class("relative_mahalanobis").__name__
    'RelativeMahalanobis'
    """
    from s2d_tf import posthoc

    known = {each.lower(): each for each in STEPS}
    wanted = name.replace("_", "").lower()
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5) or known
        listed = ", ".join(known[each] for each in near)
        raise ValueError(
            f"step: expected one such as {listed}, received {name!r}. Choose one by its name."
        )
    return getattr(posthoc, known[wanted])
