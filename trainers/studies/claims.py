"""The paper's claims as a checklist that results fill in.

Every claim of `claims.toml` takes `{method: [metrics of each seed]}` for one architecture and one
training set, with the flat metrics of `evaluate`, and answers with a verdict and the numbers behind
it. Methods have their zoo names; ensembles of another size are `ensemble_10`, `mc_20`, ensemble
distillation at a certain temperature is `end_t1`, `end_t2`, ... What is compared are means over
shared seeds, on every available dataset.

The rule: the paper words some claims as rules and others as tendencies. A rule must hold in every
comparison, a tendency in more than half of them and on average. A margin that the choice of seeds
alone may make (`Means._noise`) counts for neither side: if the verdict depends on how such
comparisons would turn out, it is "inconclusive".
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
import typing
from collections.abc import Iterable, Sequence
from importlib import resources

import numpy as np

from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import METHODS, OURS, UNCERTAINTIES, format_value, metric
from s2d_tf.metrics.statistics import mean_interval
from s2d_tf.zoo import recipes

from .results import Result, by_variant

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
INCONCLUSIVE = "inconclusive"
NOT_RUN = "not run"
# "Drastically" is the paper's word; this is our reading of it, in accuracy.
DRASTIC_LOSS = 0.01
NOTE = (
    "Each claim is checked against the means over the seeds of these runs. A verdict that depends "
    "on differences within the spread of the seeds is inconclusive. A claim that fails here may "
    "hold for another network or with more seeds."
)
_MAX_EXAMPLES = 3


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
        needs: what must have been run, for people.
        check: name in `CHECKS` of the function that makes the comparisons.
        pairs: pairs of a better and another method.
        metrics, uncertainties: what they are compared in; None: metrics without an uncertainty.
        tendency: whether it is worded as a tendency and not as a rule.
        larger: whether the first method's value is claimed to be larger, though that is worse.
    """

    name: str
    statement: str
    source: str
    needs: str
    check: str = "pairs"
    pairs: Sequence[Sequence[str]] = ()
    metrics: Sequence[str] = ("accuracy", "nll", "ece")
    uncertainties: Sequence[str] | None = None
    tendency: bool = False
    larger: bool | None = None

    def __call__(self, results: dict[str, list[dict]]) -> Verdict:
        """The verdict of these results."""
        means = Means(results)
        keys = means.keys(self.metrics, self.uncertainties)
        found = [comparison for comparison in CHECKS[self.check](self, means, keys) if comparison]
        if not found:
            return Verdict(self, NOT_RUN, f"Needs {self.needs} on the same data.")
        held = sum(comparison.margin > 0 for comparison in found)
        run, pairs = sum({*each} <= {*means.methods} for each in self.pairs), len(self.pairs)
        part = f" ({run} of {pairs} pairs of methods run)" if 0 < run < pairs else ""
        within = sum(comparison.within_noise for comparison in found)
        noise = f", {within} of them within the spread of the seeds" if within else ""
        noise = ", with one seed each" if np.inf in {c.noise for c in found} else noise
        evidence = f"True in {held} of {len(found)} comparisons{part}{noise}{summarize(found)}."
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
        found.setdefault(f"end_t{result.recipe.model.temperature:g}", []).append(result.metrics)
    return check_all(found)


def with_stand_ins(variants: dict[str, list[Result]]) -> dict[str, list[Result]]:
    """Results by variant, where ensembles of the smallest size that was run stand for the usual.

    That is for comparisons with the paper, whose ensembles have 5 members.
    """
    found = dict(variants)
    for method in ("ensemble", "s2d_ensemble"):
        sizes = [part for name, part in variants.items() if re.fullmatch(rf"{method}_\d+", name)]
        if method not in variants and sizes:
            found[method] = min(sizes, key=lambda part: part[0].recipe.num_members)
    return found


def table(results: list[Result]) -> tables.Table:
    """The verdicts of `check_runs` with their evidence."""
    rows = [[v.claim.statement, v.verdict, v.evidence] for v in check_runs(results)]
    return tables.make(
        "The paper's claims", ["Claim", "Here", "Evidence"], [rows], stub=3, footnotes=[NOTE]
    )


def _pairs(claim, means, keys):
    """Both methods of each pair."""
    return [means.compare(*pair, key, larger=claim.larger) for pair in claim.pairs for key in keys]


def _best_of_all(claim, means, keys):
    """A method against the best of all other methods of the paper."""
    ((method, _),) = claim.pairs
    others = [m for m in means.methods if m not in (method, *OURS)]
    rivals = [m for m in others if not re.search(r"_(\d+|t[\d.]+)$", m)]
    if "s2d_ensemble" not in rivals:  # Without its teacher "best of all" says little.
        return []
    return [
        means.compare(method, best[0], key, paired=False)
        for key in keys
        for best in means.largest_first([(rival, key) for rival in rivals])[:1]
    ]


def _other_than_knowledge(claim, means, keys):
    """Knowledge uncertainty of large ensembles against their best other uncertainty."""
    found = []
    for method in ("mc_10", "mc_20", "ensemble_10", "ensemble_20"):
        for key in keys:
            others = [(method, f"{key.rpartition('/')[0]}/{u}") for u in UNCERTAINTIES[:3]]
            best = means.largest_first(others)[:1]
            found += [means.compare(method, method, other, key) for _, other in best]
    return found


def _temperatures(claim, means, keys):
    """Ensemble distillation at its best and its worst temperature."""
    found = []
    for key in keys:
        methods = [(m, key) for m in means.methods if re.fullmatch(r"end_t[\d.]+", m)]
        held = [method for method, _ in means.largest_first(methods)]
        if len(held) > 1:
            found.append(means.compare(held[0], held[-1], key, threshold=DRASTIC_LOSS))
    return found


CHECKS = {
    "pairs": _pairs,
    "best_of_all": _best_of_all,
    "other_than_knowledge": _other_than_knowledge,
    "temperatures": _temperatures,
}
_FILE = resources.files("s2d_tf.trainers.studies").joinpath("claims.toml")
CLAIMS = tuple(Claim(**each) for each in tomllib.loads(_FILE.read_text("utf-8"))["claims"])


class Comparison(typing.NamedTuple):
    """One metric of two methods; a positive `margin` says that the first has what is claimed.

    `noise` is how large a margin the choice of seeds alone may make, infinite where not known.
    Both are fractions of the second method's value, to average over metrics.
    """

    text: str
    margin: float
    noise: float = 0.0

    @property
    def within_noise(self) -> bool:
        return abs(self.margin) < self.noise

    def at(self, side: int) -> float:
        """The margin; within the noise, the end that is best (1) or worst (-1) for the claim."""
        return self.margin + side * self.noise * self.within_noise


class Means:
    """Means over seeds of `{method: [metrics of each seed]}`.

    Two single networks are compared on the seeds that both have: one seed of the first against five
    of the second would mostly say how lucky that seed is. An ensemble has no seed of its own.
    """

    def __init__(self, results: dict[str, list[dict]]) -> None:
        self.methods = list(results)
        self._values: dict[tuple[str, str], dict[typing.Any, float]] = {}
        for method, seeds in results.items():
            for position, metrics in enumerate(seeds):
                seed = metrics.get("run/seed", (method, position))
                for key, value in metrics.items():
                    if isinstance(value, (int, float, np.number)):
                        self._values.setdefault((method, key), {})[seed] = float(value)

    def keys(self, names: Sequence[str], uncertainties: Sequence[str] | None = None) -> list[str]:
        """Keys `dataset/name` or, with uncertainties, `dataset/name/uncertainty`, as they come."""
        ends = (None,) if uncertainties is None else uncertainties
        parts = {key: [*key.split("/"), None, None] for _, key in self._values}
        return [key for key, part in parts.items() if part[1] in names and part[2] in ends]

    def largest_first(self, places: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of the pairs `(method, key)` that were run, the largest mean over seeds first."""
        held = [place for place in places if place in self._values]
        return sorted(held, key=lambda p: np.mean(list(self._values[p].values())), reverse=True)

    def compare(
        self,
        first: str,
        second: str,
        key: str,
        second_key: str | None = None,
        larger: bool | None = None,
        paired: bool = True,
        threshold: float = 0.0,
    ) -> Comparison | None:
        """The comparison of two methods in a metric, or None where either was not run.

        Args:
            first, second: methods.
            key: the metric.
            second_key: the metric of the second, if another one.
            larger: whether the larger value is claimed to be the first's; None: the better one.
            paired: whether single networks are compared on shared seeds only.
            threshold: by how much the first must be ahead.
        """
        second_key = second_key or key
        pairs = (first, key), (second, second_key)
        found = [self._values[pair] for pair in pairs if pair in self._values]
        if len(found) < 2:
            return None
        paired = paired and (first == second or "ensemble" not in first + second)
        shared = sorted(found[0].keys() & found[1].keys(), key=str) if paired else []
        values = [[part[seed] for seed in shared or part] for part in found]
        larger = metric(key).best is max if larger is None else larger
        means = [float(np.mean(part)) for part in values]
        margin = (means[0] - means[1]) * (1 if larger else -1) - threshold
        scale = abs(means[1]) or 1.0
        shown = [format_value(key, mean) + "%" * (metric(key).scale == 100.0) for mean in means]
        other = "" if second_key == key else f"{second_key} "
        text = f"{key} {shown[0]} for {title(first)}, {other}{shown[1]} for {title(second)}"
        return Comparison(text, margin / scale, self._noise(values, key, bool(shared)) / scale)

    def _noise(self, values, key, paired):
        """How large a difference of means the seeds alone may make.

        Of several pairs with shared seeds it is half of Student's 95% interval; else two standard
        errors of the difference, where a method with one run is given the spread of the methods
        that have several. Where none has, it is not known, and may be infinite.
        """
        if paired and len(values[0]) > 1:
            ends: typing.Any = mean_interval(np.subtract(*values))[1:]
            return (ends[1] - ends[0]) / 2.0
        own = [list(v.values()) for (_, k), v in self._values.items() if k == key and len(v) > 1]
        usual = np.mean([np.var(part, ddof=1) for part in own]) if own else np.inf
        variances = [np.var(v, ddof=1) if len(v) > 1 else usual for v in values]
        return 2.0 * float(np.sqrt(sum(v / len(p) for v, p in zip(variances, values, strict=True))))


def title(method: str) -> str:
    """A method's name for people: `ensemble_20` is "Deep ensemble of 20"."""
    ((stem, size, temperature),) = re.findall(r"^(.+?)(?:_(\d+)|_t([\d.]+))?$", method)
    known = stem in METHODS
    name = recipes.resolve(f"densenet_bc_100_12.{stem}.cifar100").title if known else stem
    return name + (f" of {size}" if size else f" at T = {temperature}" if temperature else "")


def summarize(comparisons: Iterable[Comparison]) -> str:
    """The comparisons that fail, the clearest first; where none does, the narrowest that holds."""
    ordered = sorted(comparisons, key=lambda c: c.margin)
    failing = [c for c in ordered if c.margin <= 0]
    if not failing:
        return f"; the narrowest: {ordered[0].text}"
    told = "; ".join(c.text for c in failing[:_MAX_EXAMPLES])
    more = len(failing) - _MAX_EXAMPLES
    return f"; not in: {told}" + (f"; and {more} more" if more > 0 else "")
