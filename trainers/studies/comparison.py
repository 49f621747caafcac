"""Two methods compared in a metric: how far apart their means are, and how far is noise."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Sequence

import numpy as np

from s2d_tf.errors import UserError
from s2d_tf.evaluation.intervals import compare_over_seeds
from s2d_tf.evaluation.names import METHODS, format_value, metric
from s2d_tf.zoo import recipes

if typing.TYPE_CHECKING:
    from .results import Result

_MAX_EXAMPLES = 3


class Comparison(typing.NamedTuple):
    """One metric of two methods; a positive `margin` says that the first has what is claimed.

    `noise` is how large a margin the choice of seeds alone may make, 0 where that is not known.
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
            if isinstance(seeds, dict):
                raise UserError(
                    f"results[{method!r}]: expected a list with the metrics of each seed, received "
                    "one dict. Put it in a list."
                )
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
        that have several. Where none has, it is not known and taken as 0.
        """
        if paired and len(values[0]) > 1:
            compared: typing.Any = compare_over_seeds(*values)
            return (compared.high - compared.low) / 2.0
        own = [list(v.values()) for (_, k), v in self._values.items() if k == key and len(v) > 1]
        usual = np.mean([np.var(part, ddof=1) for part in own]) if own else 0.0
        variances = [np.var(v, ddof=1) if len(v) > 1 else usual for v in values]
        return 2.0 * float(np.sqrt(sum(v / len(p) for v, p in zip(variances, values, strict=True))))


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
