"""The paper's claims as a checklist that results fill in.

Every claim takes `{method: [metrics of each seed]}` for one architecture and one training set, with
the flat metrics of `evaluate`, and answers with a verdict and the numbers behind it. Methods have
their zoo names; ensembles of another size are `ensemble_10`, `mc_20`, ensemble distillation at a
certain temperature is `end_t1`, `end_t2`, ... What is compared are means over shared seeds, on
every available dataset.

The rule: the paper words some claims as rules and others as tendencies. A rule must hold in every
comparison, a tendency in more than half of them and on average. A margin that the choice of seeds
alone may make (`Means._noise`) counts for neither side: if the verdict depends on how such
comparisons would turn out, it is "inconclusive".
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import OURS, TWINS, UNCERTAINTIES

from .comparison import Means, summarize, with_stand_ins
from .results import by_variant

if TYPE_CHECKING:
    from .results import Result

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
INCONCLUSIVE = "inconclusive"
NOT_RUN = "not run"

CALIBRATION, RANKINGS = ("nll", "ece"), ("auroc", "aupr")
STUDENTS = ("h2d_dir", "h2d_gauss")
# "Drastically" is the paper's word; this is our reading of it, in accuracy.
DRASTIC_LOSS = 0.01
NOTE = (
    "Each claim is checked against the means over the seeds of these runs. A verdict that depends "
    "on differences within the spread of the seeds is inconclusive. A claim that fails here may "
    "hold for another network or with more seeds."
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the results say of one claim; `evidence` is a sentence with the numbers."""

    claim: Claim
    verdict: str
    evidence: str
    held: int = 0
    comparisons: int = 0


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper: what it says, where, and the comparisons that decide it.

    Attributes:
        name: identifier.
        statement: the claim in a sentence.
        source: where the paper makes it.
        pairs: `(better method, other method)`, compared in `metrics` and, if given, by each of
            `uncertainties`; or a function from `Means` to comparisons.
        needs: what must have been run, for people.
        tendency: whether it is worded as a tendency and not as a rule.
        larger: whether the first method's value is claimed to be larger, though that is worse.
    """

    name: str
    statement: str
    source: str
    pairs: tuple | Callable
    needs: str
    metrics: tuple = ("accuracy", *CALIBRATION)
    uncertainties: tuple | None = None
    tendency: bool = False
    larger: bool | None = None

    def __call__(self, results: dict[str, list[dict]]) -> Verdict:
        """The verdict of these results."""
        means = Means(results)
        if callable(self.pairs):
            found = self.pairs(means)
        else:
            keys = means.keys(self.metrics, self.uncertainties)
            pairs = [(*pair, key) for pair in self.pairs for key in keys]
            found = [means.compare(a, b, key, larger=self.larger) for a, b, key in pairs]
        found = [comparison for comparison in found if comparison]
        if not found:
            return Verdict(self, NOT_RUN, f"Needs {self.needs} on the same data.")
        held = sum(comparison.margin > 0 for comparison in found)
        within = sum(comparison.within_noise for comparison in found)
        noise = f", {within} of them within the spread of the seeds" if within else ""
        evidence = f"True in {held} of {len(found)} comparisons{noise}{summarize(found)}."
        return Verdict(self, self._judge(found), evidence, held, len(found))

    def _judge(self, found):
        verdicts = []
        for side in (-1, 1):
            margins = np.array([c.at(side) for c in found])
            most = np.mean(margins > 0) > 0.5 and margins.mean() > 0
            verdicts.append(most if self.tendency else (margins > 0).all())
        worst, best = verdicts
        return HOLDS if worst else INCONCLUSIVE if best else DOES_NOT_HOLD


def check_all(results: dict[str, list[dict]]) -> list[Verdict]:
    """The verdict of every claim, in the order of the paper."""
    return [claim(results) for claim in CLAIMS]


def check_runs(results: list[Result]) -> list[Verdict]:
    """`check_all` of `Result`s of one network and training set.

    Ensemble distillation appears once more under its temperature, `end_t2`. Where ensembles of 5
    were not run, those of another size stand for them.
    """
    variants = with_stand_ins(by_variant(results))
    found = {name: [r.metrics for r in part] for name, part in variants.items()}
    for result in (r for r in results if r.recipe.method == "end"):
        temperature = f"end_t{result.recipe.model.temperature:g}"
        found.setdefault(temperature, []).append(result.metrics)
    return check_all(found)


def table(results: list[Result]) -> tables.Table:
    """The verdicts of `check_runs` with their evidence."""
    rows = [[v.claim.statement, v.verdict, v.evidence] for v in check_runs(results)]
    return tables.make(
        "The paper's claims", ["Claim", "Here", "Evidence"], [rows], stub=3, footnotes=[NOTE]
    )


def _best_of_all(method, uncertainty):
    """An uncertainty of one method against the best of all other methods of the paper."""

    def compare(means):
        others = [m for m in means.methods if m not in (method, *OURS)]
        rivals = [m for m in others if not re.search(r"_(\d+|t[\d.]+)$", m)]
        if "s2d_ensemble" not in rivals:  # Without its teacher "best of all" says little.
            return []
        return [
            means.compare(method, best[0], key, paired=False)
            for key in means.keys(RANKINGS, (uncertainty,))
            for best in means.largest_first([(rival, key) for rival in rivals])[:1]
        ]

    return compare


def _another_than_knowledge(means):
    """Knowledge uncertainty of large ensembles against their best other uncertainty."""
    found = []
    for method in ("mc_10", "mc_20", "ensemble_10", "ensemble_20"):
        for key in means.keys(RANKINGS, ("knowledge",)):
            others = [(method, f"{key.rpartition('/')[0]}/{u}") for u in UNCERTAINTIES[:3]]
            best = means.largest_first(others)[:1]
            found += [means.compare(method, method, other, key) for _, other in best]
    return found


def _temperatures(means):
    """Accuracy of ensemble distillation at its best and its worst temperature."""
    found = []
    for key in means.keys(("accuracy",)):
        methods = [(m, key) for m in means.methods if re.fullmatch(r"end_t[\d.]+", m)]
        held = [method for method, _ in means.largest_first(methods)]
        if len(held) > 1:
            found.append(means.compare(held[0], held[-1], key, threshold=DRASTIC_LOSS))
    return found


CLAIMS = (
    Claim(
        "s2d_beats_its_twin",
        "S2D improves accuracy, NLL and ECE over its plain twin, alone and in MIMO, SWAG and MC.",
        "Section 5.1, Table 1",
        tuple((s2d, plain) for plain, s2d in TWINS.items()),
        "an S2D model and its twin",
    ),
    Claim(
        "s2d_ensemble_calibration_rises",
        "Ensembling S2D models raises the ECE, above that of a plain ensemble.",
        "Section 5.1, Table 1",
        (("s2d_ensemble", "s2d"), ("s2d_ensemble", "ensemble")),
        "s2d_ensemble and s2d or ensemble",
        metrics=("ece",),
        larger=True,
    ),
    Claim(
        "end_depends_on_its_temperature",
        "Ensemble distillation is sensitive to its temperature: a bad one costs much accuracy.",
        "Section 5.1 (no numbers in the paper)",
        _temperatures,
        "ensemble distillation at two temperatures (end_t1, end_t2, ...)",
    ),
    Claim(
        "h2d_calibrates_better_than_end",
        "H2D-Dir and H2D-Gauss have a better NLL and ECE than EnD.",
        "Section 5.1, Table 1",
        tuple((student, "end") for student in STUDENTS),
        "h2d_dir or h2d_gauss, and end",
        metrics=CALIBRATION,
    ),
    Claim(
        "h2d_calibrates_better_than_its_teacher",
        "H2D-Dir and H2D-Gauss have a better ECE than the S2D ensemble that teaches them.",
        "Section 5.1, Table 1",
        tuple((student, "s2d_ensemble") for student in STUDENTS),
        "h2d_dir or h2d_gauss, and s2d_ensemble",
        metrics=("ece",),
    ),
    Claim(
        "h2d_beats_mc_and_swag",
        "H2D-Dir and H2D-Gauss are better than MC dropout and SWAG in accuracy, NLL and ECE.",
        "Section 5.1, Table 1",
        tuple((student, rival) for student in STUDENTS for rival in ("mc", "swag")),
        "h2d_dir or h2d_gauss, and mc or swag",
    ),
    Claim(
        "s2d_beats_cheap_ensembles",
        "A single S2D model detects better than MC dropout, MIMO and SWAG by every uncertainty but "
        "confidence.",
        "Section 5.2, Tables 2 and 3",
        tuple(("s2d", rival) for rival in ("mc", "mimo", "swag")),
        "s2d and one of mc, mimo, swag",
        metrics=RANKINGS,
        uncertainties=UNCERTAINTIES[1:],
    ),
    Claim(
        "mc_hurts_detection",
        "MC dropout tends to detect worse than the same network without it.",
        "Section 5.2, Tables 2 and 3",
        (("individual", "mc"), ("s2d", "s2d_mc")),
        "mc and individual (or their S2D versions)",
        metrics=RANKINGS,
        uncertainties=UNCERTAINTIES,
        tendency=True,
    ),
    Claim(
        "s2d_ensemble_detects_better",
        "An S2D ensemble detects better than a plain ensemble in almost all cases.",
        "Section 5.2, Tables 2 and 3; Section 6",
        (("s2d_ensemble", "ensemble"),),
        "s2d_ensemble and ensemble",
        metrics=RANKINGS,
        uncertainties=UNCERTAINTIES,
        tendency=True,
    ),
    Claim(
        "h2d_detects_better_than_end",
        "H2D-Dir and H2D-Gauss detect better than EnD.",
        "Section 5.2, Tables 2 and 3",
        tuple((student, "end") for student in STUDENTS),
        "h2d_dir or h2d_gauss, and end",
        metrics=RANKINGS,
        uncertainties=UNCERTAINTIES,
    ),
    Claim(
        "h2d_dir_has_the_best_knowledge",
        "H2D-Dir has the best knowledge uncertainty in most cases, better than its teacher's.",
        "Section 5.2, Tables 2 and 3",
        _best_of_all("h2d_dir", "knowledge"),
        "h2d_dir and s2d_ensemble",
        tendency=True,
    ),
    Claim(
        "h2d_gauss_has_the_best_data",
        "H2D-Gauss has the best data uncertainty in most cases.",
        "Section 5.2, Tables 2 and 3",
        _best_of_all("h2d_gauss", "data"),
        "h2d_gauss and s2d_ensemble",
        tendency=True,
    ),
    Claim(
        "size_does_not_rescue_knowledge",
        "With 10 and 20 members knowledge uncertainty is still not an ensemble's best detector.",
        "Appendix B.2, Tables 9 to 13",
        _another_than_knowledge,
        "mc or deep ensembles of 10 or 20",
    ),
)
