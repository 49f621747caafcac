"""Means over seeds of several methods, and comparisons between two of them."""

import dataclasses

import numpy as np

from s2d_tf.evaluation.statistics import mean_and_two_std

LOWER_IS_BETTER = ("nll", "ece")
TITLES = {
    "individual": "Individual",
    "s2d": "S2D",
    "mimo": "MIMO",
    "s2d_mimo": "S2D MIMO",
    "swag": "SWAG",
    "s2d_swag": "S2D SWAG",
    "mc": "MC",
    "s2d_mc": "S2D MC",
    "ensemble": "deep ensemble",
    "s2d_ensemble": "S2D ensemble",
    "end": "EnD",
    "en2d": "En2D",
    "h2d_dir": "H2D-Dir",
    "h2d_gauss": "H2D-Gauss",
}
_MAX_EXAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One metric of two methods; a positive `margin` says that the first has what is claimed."""

    first: str
    second: str
    key: str
    first_value: float
    second_value: float
    larger_is_better: bool = True

    @property
    def margin(self):
        """How much better the first is, in the metric's unit."""
        difference = self.first_value - self.second_value
        return difference if self.larger_is_better else -difference

    @property
    def relative_margin(self):
        """The margin as a fraction of the second value, to average over metrics."""
        return self.margin / abs(self.second_value) if self.second_value else np.sign(self.margin)

    def __str__(self):
        metric = self.key.split("/")[1]
        first, second = (format_metric(metric, v) for v in (self.first_value, self.second_value))
        return f"{self.key} {first} for {title(self.first)}, {second} for {title(self.second)}"


class Means:
    """Means over seeds of `{method: [metrics of each seed]}`.

    Two single networks are compared on the seeds that both have: one seed of the first against five
    of the second would mostly say how lucky that seed is. An ensemble has no seed of its own.
    """

    def __init__(self, results):
        for method, seeds in results.items():
            if isinstance(seeds, dict):
                raise ValueError(
                    f"results[{method!r}] must be a list with the metrics of each seed; received "
                    "one dict. Put it in a list."
                )
        self._values = {}
        for method, seeds in results.items():
            for position, metrics in enumerate(seeds):
                seed = metrics.get("run/seed", (method, position))
                for key, value in metrics.items():
                    if isinstance(value, (int, float, np.number)):
                        self._values.setdefault((method, key), {})[seed] = float(value)
        self.methods = list(results)

    @property
    def keys(self):
        """Every metric that some method has, in order of appearance."""
        return list(dict.fromkeys(key for _, key in self._values))

    @property
    def classified(self):
        """Data sets with an accuracy: those that the models were trained to classify."""
        parts = (key.split("/") for key in self.keys)
        return [part[0] for part in parts if part[1:] == ["accuracy"]]

    def detection_keys(self, uncertainties):
        """Keys `data set/auroc or aupr/uncertainty` for these uncertainties."""
        parts = (key.split("/") for key in self.keys)
        return [
            "/".join(part)
            for part in parts
            if len(part) == 3 and part[1] in ("auroc", "aupr") and part[2] in uncertainties
        ]

    def get(self, method, key):
        """The mean over seeds, or None where it was not run."""
        values = self._values.get((method, key))
        return mean_and_two_std(list(values.values()))[0] if values else None

    def two_std(self, method, key):
        """Two standard deviations over seeds, or None."""
        values = self._values.get((method, key))
        return mean_and_two_std(list(values.values()))[1] if values else None

    def compare(self, first, second, key, larger_is_better=None):
        """The comparison of two methods in a metric, or None where either was not run."""
        values = [self._values.get((method, key)) for method in (first, second)]
        if None in values:
            return None
        shared = values[0].keys() & values[1].keys()
        if shared and "ensemble" not in first and "ensemble" not in second:
            values = [{seed: part[seed] for seed in shared} for part in values]
        means = [mean_and_two_std(list(part.values()))[0] for part in values]
        if larger_is_better is None:
            larger_is_better = key.split("/")[1] not in LOWER_IS_BETTER
        return Comparison(first, second, key, *means, larger_is_better)


def title(method):
    """A method's name for people: `ensemble_20` is "deep ensemble of 20"."""
    stem, _, size = method.rpartition("_")
    if stem in TITLES and size.isdigit():
        return f"{TITLES[stem]} of {size}"
    return TITLES.get(method, method)


def format_metric(metric, value):
    """A value as the paper prints it: per cent, but for the likelihood."""
    if metric == "nll":
        return f"{value:.3g}"
    return f"{100 * value:.2f}%" if metric == "ece" else f"{100 * value:.1f}%"


def summarise(comparisons):
    """The comparisons that fail, the clearest first; where none does, the narrowest that holds."""
    failing = sorted((c for c in comparisons if c.margin <= 0), key=lambda c: c.relative_margin)
    if not failing:
        return f"; the narrowest: {min(comparisons, key=lambda c: c.relative_margin)}"
    told = "; ".join(str(c) for c in failing[:_MAX_EXAMPLES])
    more = len(failing) - _MAX_EXAMPLES
    return f"; not in: {told}" + (f"; and {more} more" if more > 0 else "")
