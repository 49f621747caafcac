"""The paper's claims as a checklist that results fill in.

Every check takes `{method: [metrics of each seed]}` for one architecture and one training set, with
the flat metrics of `evaluate`, and answers with a verdict and the numbers behind it. Methods have
their zoo names; ensembles of another size are `ensemble_10`, `mc_20`, ensemble distillation at a
certain temperature is `end_t1`, `end_t2`, ... What is compared are means over shared seeds, on
every data set at hand. The paper words some claims as rules and others as tendencies: a rule must
hold in every comparison, a tendency in more than half of them and on average.
"""

import dataclasses
import re
from collections.abc import Callable

import numpy as np

from s2d_tf.paper.compared import Comparison, Means, format_metric, summarise, title

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_RUN = "not run"

TWINS = {"individual": "s2d", "mimo": "s2d_mimo", "swag": "s2d_swag", "mc": "s2d_mc"}
UNCERTAINTIES = ("confidence", "total", "data", "knowledge")
# "Drastically" is the paper's word; this is our reading of it, in accuracy.
DRASTIC_LOSS = 0.01


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the results say of one claim; `evidence` is a sentence with the numbers."""

    name: str
    statement: str
    source: str
    verdict: str
    evidence: str
    held: int = 0
    comparisons: int = 0


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of the paper: what it says, where, and the function that checks it."""

    name: str
    statement: str
    source: str
    check: Callable

    def __call__(self, results):
        """The verdict of these results."""
        verdict, evidence, held, comparisons = self.check(Means(results))
        return Verdict(self.name, self.statement, self.source, verdict, evidence, held, comparisons)


def check_all(results):
    """The verdict of every claim, in the order of the paper."""
    return [claim(results) for claim in CLAIMS]


def s2d_beats_its_twin(means):
    """Accuracy, NLL and ECE of every S2D version against its plain twin."""
    found = [
        comparison
        for plain, s2d in TWINS.items()
        for data in means.classified
        for metric in ("accuracy", "nll", "ece")
        if (comparison := means.compare(s2d, plain, f"{data}/{metric}"))
    ]
    return _judge(found, "S2D is better than its plain twin", "an S2D model and its twin")


def s2d_beats_cheap_ensembles(means):
    """Total, data and knowledge uncertainty of S2D against MC dropout, MIMO and SWAG.

    Confidence is left out, as the paper does.
    """
    found = [
        comparison
        for rival in ("mc", "mimo", "swag")
        for key in means.detection_keys(UNCERTAINTIES[1:])
        if (comparison := means.compare("s2d", rival, key))
    ]
    return _judge(found, "S2D is the better detector", "s2d and one of mc, mimo, swag")


def s2d_ensemble_calibration_rises(means):
    """The ECE of the S2D ensemble against its members' and the plain ensemble's."""
    found = [
        comparison
        for data in means.classified
        for rival in ("s2d", "ensemble")
        if (
            comparison := means.compare("s2d_ensemble", rival, f"{data}/ece", larger_is_better=True)
        )
    ]
    if not any(comparison.second == "s2d" for comparison in found):
        found = []
    return _judge(found, "the ECE of the S2D ensemble is the larger", "s2d_ensemble and s2d")


def h2d_dir_has_the_best_knowledge(means):
    """Knowledge uncertainty of H2D-Dir against the best of all other methods."""
    return _best_of_all(means, "h2d_dir", "knowledge")


def h2d_gauss_has_the_best_data(means):
    """Data uncertainty of H2D-Gauss against the best of all other methods."""
    return _best_of_all(means, "h2d_gauss", "data")


def mc_hurts_detection(means):
    """MC dropout against the same network without it: plain (confidence, total) and S2D (all)."""
    found = [
        comparison
        for single, sampled, uncertainties in (
            ("individual", "mc", UNCERTAINTIES[:2]),
            ("s2d", "s2d_mc", UNCERTAINTIES),
        )
        for key in means.detection_keys(uncertainties)
        if (comparison := means.compare(single, sampled, key))
    ]
    return _judge(
        found,
        "the single network detects better than its MC ensemble",
        "mc and individual (or their S2D versions)",
        tendency=True,
    )


def size_does_not_rescue_knowledge(means):
    """Knowledge uncertainty of ensembles of 10 and 20 against the best other uncertainty."""
    found = []
    for method in ("mc_10", "mc_20", "ensemble_10", "ensemble_20"):
        for key in means.detection_keys(("knowledge",)):
            stem = key.rpartition("/")[0]
            others = [means.get(method, f"{stem}/{other}") for other in UNCERTAINTIES[:3]]
            others = [value for value in others if value is not None]
            knowledge = means.get(method, key)
            if knowledge is not None and others:
                best = f"the best other uncertainty of the {title(method)}"
                found.append(Comparison(best, "this one", key, max(others), knowledge))
    return _judge(
        found,
        "another uncertainty of the same ensemble detects better than knowledge uncertainty",
        "mc or deep ensembles of 10 or 20",
    )


def end_depends_on_its_temperature(means):
    """Accuracy of ensemble distillation at its best and its worst temperature."""
    methods = sorted(
        (m for m in means.methods if re.fullmatch(r"end_t\d+(\.\d+)?", m)),
        key=lambda m: float(m[5:]),
    )
    found, told = 0, []
    for data in means.classified:
        accuracies = {m: means.get(m, f"{data}/accuracy") for m in methods}
        accuracies = {m: value for m, value in accuracies.items() if value is not None}
        if len(accuracies) < 2:
            continue
        worst, best = min(accuracies, key=accuracies.get), max(accuracies, key=accuracies.get)
        spread = means.two_std(best, f"{data}/accuracy") or 0.0
        loss = accuracies[best] - accuracies[worst]
        found += loss > max(DRASTIC_LOSS, spread)
        told.append(
            f"on {data} accuracy falls from {format_metric('accuracy', accuracies[best])} at "
            f"T = {best[5:]} to {format_metric('accuracy', accuracies[worst])} at T = {worst[5:]}, "
            f"{100 * loss:.1f} points over {len(accuracies)} temperatures"
        )
    if not told:
        return (
            NOT_RUN,
            "Needs end_t1, end_t2, ...: ensemble distillation at two temperatures.",
            0,
            0,
        )
    verdict = HOLDS if found == len(told) else DOES_NOT_HOLD
    return verdict, _sentence("; ".join(told)), found, len(told)


def _best_of_all(means, method, uncertainty):
    found = []
    rivals = [m for m in means.methods if m != method and not re.search(r"_(\d+|t[\d.]+)$", m)]
    if "s2d_ensemble" in rivals:  # Without its teacher "best of all" says little.
        for key in means.detection_keys((uncertainty,)):
            own = means.get(method, key)
            values = {m: v for m in rivals if (v := means.get(m, key)) is not None}
            if own is not None and values:
                best = max(values, key=values.get)
                found.append(Comparison(method, best, key, own, values[best]))
    return _judge(
        found,
        f"{title(method)} has the best {uncertainty} uncertainty of {len(rivals) + 1} methods",
        f"{method} and s2d_ensemble",
        tendency=True,
    )


def _judge(found, what, needs, tendency=False):
    if not found:
        return NOT_RUN, f"Needs {needs} on the same data.", 0, 0
    held = sum(comparison.margin > 0 for comparison in found)
    if tendency:
        holds = 2 * held > len(found) and np.mean([c.relative_margin for c in found]) > 0
    else:
        holds = held == len(found)
    evidence = _sentence(f"{what} in {held} of {len(found)} comparisons{summarise(found)}")
    return HOLDS if holds else DOES_NOT_HOLD, evidence, held, len(found)


def _sentence(text):
    return f"{text[0].upper()}{text[1:]}."


CLAIMS = (
    Claim(
        "s2d_beats_its_twin",
        "S2D improves accuracy, NLL and ECE over its plain twin, alone and in MIMO, SWAG and MC.",
        "Section 5.1, Table 1",
        s2d_beats_its_twin,
    ),
    Claim(
        "s2d_ensemble_calibration_rises",
        "Ensembling S2D models raises the ECE, above that of a plain ensemble.",
        "Section 5.1, Table 1",
        s2d_ensemble_calibration_rises,
    ),
    Claim(
        "end_depends_on_its_temperature",
        "Ensemble distillation is sensitive to its temperature: a bad one costs much accuracy.",
        "Section 5.1 (no figures in the paper)",
        end_depends_on_its_temperature,
    ),
    Claim(
        "s2d_beats_cheap_ensembles",
        "A single S2D model detects better than MC dropout, MIMO and SWAG by every uncertainty but "
        "confidence.",
        "Section 5.2, Tables 2 and 3",
        s2d_beats_cheap_ensembles,
    ),
    Claim(
        "mc_hurts_detection",
        "MC dropout tends to detect worse than the same network without it.",
        "Section 5.2, Tables 2 and 3",
        mc_hurts_detection,
    ),
    Claim(
        "h2d_dir_has_the_best_knowledge",
        "H2D-Dir has the best knowledge uncertainty in most cases, better than its teacher's.",
        "Section 5.2, Tables 2 and 3",
        h2d_dir_has_the_best_knowledge,
    ),
    Claim(
        "h2d_gauss_has_the_best_data",
        "H2D-Gauss has the best data uncertainty in most cases.",
        "Section 5.2, Tables 2 and 3",
        h2d_gauss_has_the_best_data,
    ),
    Claim(
        "size_does_not_rescue_knowledge",
        "With 10 and 20 members knowledge uncertainty is still not an ensemble's best detector.",
        "Appendix B.2, Tables 9 to 13",
        size_does_not_rescue_knowledge,
    ),
)
