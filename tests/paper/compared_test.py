"""Means over seeds, the direction of metrics and the words around them."""

import numpy as np
import pytest

from s2d_tf.paper import compared

RESULTS = {
    "individual": [
        {"cifar100/accuracy": 0.7, "cifar100/nll": 1.2, "svhn_cropped/auroc/total": 0.8},
        {"cifar100/accuracy": 0.8, "cifar100/nll": 1.0, "svhn_cropped/fpr_at_95_recall/total": 0.5},
    ],
    "s2d": [{"cifar100/accuracy": np.float64(0.76), "cifar100/nll": 1.0, "note": "text"}],
    "mc": [],
}


def test_means_over_seeds():
    means = compared.Means(RESULTS)
    assert means.methods == ["individual", "s2d", "mc"]
    assert means.get("individual", "cifar100/accuracy") == pytest.approx(0.75)
    assert means.two_std("individual", "cifar100/accuracy") == pytest.approx(2 * 0.1 / np.sqrt(2))
    assert means.two_std("s2d", "cifar100/accuracy") is None
    assert means.get("mc", "cifar100/accuracy") is means.get("s2d", "note") is None
    assert means.classified == ["cifar100"]
    assert means.detection_keys(("total",)) == ["svhn_cropped/auroc/total"]
    assert means.detection_keys(("data",)) == []


def test_margins_point_to_the_better():
    means = compared.Means(RESULTS)
    accuracy = means.compare("s2d", "individual", "cifar100/accuracy")
    assert accuracy.margin == pytest.approx(0.01)
    nll = means.compare("s2d", "individual", "cifar100/nll")
    assert nll.margin == pytest.approx(0.1)
    assert nll.relative_margin == pytest.approx(0.1 / 1.1)
    rises = means.compare("s2d", "individual", "cifar100/nll", larger_is_better=True)
    assert rises.margin == pytest.approx(-0.1)
    assert means.compare("s2d", "mc", "cifar100/nll") is None
    assert str(nll) == "cifar100/nll 1 for S2D, 1.1 for Individual"


def test_single_networks_are_compared_on_the_seeds_they_share():
    def runs(*values):
        return [{"run/seed": s, "cifar100/accuracy": v} for s, v in enumerate(values)]

    means = compared.Means(
        {"individual": runs(0.6, 0.5, 0.4), "mc": runs(0.55), "ensemble": runs(0.55)}
    )
    assert means.get("individual", "cifar100/accuracy") == pytest.approx(0.5)
    paired = means.compare("mc", "individual", "cifar100/accuracy")
    assert paired.margin == pytest.approx(-0.05)
    # An ensemble's seed is not that of one of its members.
    assert means.compare("ensemble", "individual", "cifar100/accuracy").margin > 0


def test_words():
    assert compared.title("ensemble_20") == "deep ensemble of 20"
    assert compared.title("h2d_gauss") == "H2D-Gauss"
    assert compared.title("somebody_else") == "somebody_else"
    assert compared.format_metric("ece", 0.02539) == "2.54%"
    assert compared.format_metric("auroc", 0.9) == "90.0%"
    assert compared.format_metric("nll", 0.8712) == "0.871"


def test_a_summary_tells_three_exceptions_and_counts_the_rest():
    def case(margin):
        return compared.Comparison("s2d", "mc", "svhn_cropped/auroc/data", 0.5 + margin, 0.5)

    text = compared.summarise([case(m) for m in (0.1, -0.1, -0.2, 0.0, -0.3, -0.05)])
    assert text.startswith("; not in: svhn_cropped/auroc/data 20.0% for S2D, 50.0% for MC; ")
    assert text.endswith("; and 2 more")
    assert compared.summarise([case(0.1), case(0.02)]).startswith("; the narrowest: ")
    assert "52.0% for S2D" in compared.summarise([case(0.1), case(0.02)])
