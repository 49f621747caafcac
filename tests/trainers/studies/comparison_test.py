"""Means over seeds, the direction of metrics and the words around them."""

import numpy as np
import pytest
from scipy import stats

from s2d_tf.trainers.studies import claims

RESULTS = {
    "individual": [
        {"cifar100/accuracy": 0.7, "cifar100/nll": 1.2, "svhn_cropped/auroc/total": 0.8},
        {"cifar100/accuracy": 0.8, "cifar100/nll": 1.0, "svhn_cropped/fpr_at_95_recall/total": 0.5},
    ],
    "s2d": [{"cifar100/accuracy": np.float64(0.76), "cifar100/nll": 1.0, "note": "text"}],
    "mc": [],
}


def test_means_over_seeds():
    means = claims.Means(RESULTS)
    assert means.methods == ["individual", "s2d", "mc"]
    places = [(method, "cifar100/accuracy") for method in ("mc", "individual", "s2d")]
    assert means.largest_first([*places, ("s2d", "note")]) == places[:0:-1]
    assert means.keys(("accuracy", "nll")) == ["cifar100/accuracy", "cifar100/nll"]
    assert means.keys(("auroc", "aupr"), ("total",)) == ["svhn_cropped/auroc/total"]
    assert means.keys(("auroc", "aupr"), ("data",)) == []


def test_margins_point_to_the_better_in_fractions_of_the_second():
    means = claims.Means(RESULTS)
    accuracy = means.compare("s2d", "individual", "cifar100/accuracy")
    assert accuracy.margin == pytest.approx(0.01 / 0.75)
    nll = means.compare("s2d", "individual", "cifar100/nll")
    assert nll.margin == pytest.approx(0.1 / 1.1)
    rises = means.compare("s2d", "individual", "cifar100/nll", larger=True)
    assert rises.margin == pytest.approx(-0.1 / 1.1)
    far = means.compare("s2d", "individual", "cifar100/accuracy", threshold=0.02)
    assert far.margin == pytest.approx(-0.01 / 0.75)
    assert means.compare("s2d", "mc", "cifar100/nll") is None
    assert nll.text == "cifar100/nll 1.00 for S2D Individual, 1.10 for Individual"


def test_the_noise_is_that_of_the_paired_differences_or_of_both_means():
    def runs(*values):
        return [{"run/seed": s, "cifar100/accuracy": v} for s, v in enumerate(values)]

    key, plain, s2d = "cifar100/accuracy", (0.5, 0.6, 0.7), (0.52, 0.61, 0.73)
    means = claims.Means(
        {"individual": runs(*plain), "s2d": runs(*s2d), "ensemble": runs(0.8), "end": runs(0.7)}
    )
    paired = means.compare("s2d", "individual", key)
    interval = stats.ttest_rel(s2d, plain).confidence_interval(0.95)
    assert paired.noise * 0.6 == pytest.approx((interval.high - interval.low) / 2)
    # Two standard errors; the single run is given the mean variance of the others.
    variances = [np.var(plain, ddof=1), np.var(s2d, ddof=1)]
    single = means.compare("ensemble", "individual", key)
    expected = 2 * np.sqrt(np.mean(variances) + variances[0] / 3)
    assert single.noise * 0.6 == pytest.approx(expected)
    assert means.compare("end", "ensemble", key).noise * 0.8 == pytest.approx(
        2 * np.sqrt(2 * np.mean(variances))
    )
    alone = claims.Means({"ensemble": runs(0.8), "end": runs(0.7)})
    assert alone.compare("end", "ensemble", key).noise == 0.0
    # Within the noise a margin may be at either end of it.
    assert [claims.Comparison("", 0.1, 0.2).at(side) for side in (-1, 1)] == [
        pytest.approx(-0.1), pytest.approx(0.3)
    ]  # fmt: skip
    assert claims.Comparison("", 0.3, 0.2).at(-1) == 0.3


def test_single_networks_are_compared_on_the_seeds_they_share():
    def runs(*values):
        return [{"run/seed": s, "cifar100/accuracy": v} for s, v in enumerate(values)]

    means = claims.Means(
        {"individual": runs(0.6, 0.5, 0.4), "mc": runs(0.55), "ensemble": runs(0.55)}
    )
    paired = means.compare("mc", "individual", "cifar100/accuracy")
    assert paired.margin == pytest.approx(-0.05 / 0.6)
    # An ensemble's seed is not that of one of its members.
    unpaired = means.compare("ensemble", "individual", "cifar100/accuracy")
    assert unpaired.margin == pytest.approx(0.05 / 0.5)


def test_a_summary_tells_three_exceptions_and_counts_the_rest():
    def case(margin):
        return claims.Comparison(f"margin {margin}", margin)

    text = claims.summarize([case(m) for m in (0.1, -0.1, -0.2, 0.0, -0.3, -0.05)])
    assert text == "; not in: margin -0.3; margin -0.2; margin -0.1; and 2 more"
    assert claims.summarize([case(0.1), case(0.02)]) == "; the narrowest: margin 0.02"
