"""Bootstrap intervals against scipy and closed forms."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax, softmax

from s2d_tf.evaluation import intervals


def random_logits(num_examples=300, num_classes=6, seed=0, sharpness=1.5):
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(num_examples, num_classes))
    labels = np.array([rng.choice(num_classes, p=p) for p in softmax(logits, axis=-1)])
    return sharpness * logits, labels


def test_intervals_of_means_approach_the_normal_ones():
    logits, labels = random_logits(1500)
    found = intervals.classification(logits, labels, num_resamples=4000)
    values = -log_softmax(logits, axis=-1)[np.arange(1500), labels]
    half_width = 1.96 * values.std() / np.sqrt(1500)
    nll, accuracy = found["nll"], found["accuracy"]
    assert nll.estimate == pytest.approx(values.mean(), abs=1e-12)
    ends = values.mean() - half_width, values.mean() + half_width
    assert (nll.low, nll.high) == pytest.approx(ends, abs=0.12 * half_width)
    ends = stats.binom(1500, accuracy.estimate).ppf([0.025, 0.975]) / 1500
    assert (accuracy.low, accuracy.high) == pytest.approx(tuple(ends), abs=2.5 / 1500)
    for name, interval in found.items():
        assert interval.low <= interval.estimate <= interval.high, name


def test_auroc_interval_agrees_with_delong():
    rng = np.random.default_rng(3)
    id_scores, ood_scores = rng.normal(size=400), rng.normal(0.8, size=300)
    pair = {"total": id_scores}, {"total": ood_scores}
    interval = intervals.detection(*pair, num_resamples=3000)["auroc/total"]
    wins = (ood_scores[:, np.newaxis] > id_scores).astype(float)
    variance = wins.mean(axis=1).var(ddof=1) / 300 + wins.mean(axis=0).var(ddof=1) / 400
    assert interval.estimate == pytest.approx(wins.mean(), abs=1e-12)
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * np.sqrt(variance), rel=0.08)


@pytest.mark.parametrize(("sharpness", "low"), [(1.0, 0.0), (2.0, 0.1)])
def test_calibration_interval_knows_noise_from_error(sharpness, low):
    logits, labels = random_logits(1000, sharpness=sharpness)
    interval = intervals.classification(logits, labels, num_resamples=500)["ece"]
    assert interval.estimate > 0.0
    # Calibrated: the percentiles alone would exclude the truth.
    assert interval.low == 0.0 if low == 0.0 else low < interval.low < interval.estimate
    assert interval.estimate <= interval.high <= 1.0


def test_degenerate_sets_have_intervals_of_no_width():
    right = np.array([[30.0, 0.0], [0.0, 30.0]])
    found = intervals.classification(right, [0, 1], num_resamples=50)
    assert (found["accuracy"].low, found["accuracy"].high) == (1.0, 1.0)
    one = intervals.classification([[1.0, 0.0]], [0], num_resamples=10)["nll"]
    assert one.low == pytest.approx(one.estimate) == one.high
    constant = intervals.detection({"data": np.ones(5)}, {"data": np.ones(7)}, num_resamples=20)
    assert (constant["auroc/data"].low, constant["auroc/data"].high) == (0.5, 0.5)
    assert constant["aupr/data"].low == pytest.approx(7 / 12)


def test_paired_comparison_of_two_runs():
    logits, labels = random_logits(800, sharpness=2.5)
    differences = intervals.classification(logits, labels, logits / 2.5, num_resamples=500)
    # The same ranking: no resample can tell the accuracies apart, every one tells the likelihoods.
    assert (differences["accuracy"].low, differences["accuracy"].high) == (0.0, 0.0)
    assert differences["nll"].low > 0.0
    assert differences["ece"].low > 0.0
    same = intervals.classification(logits, labels, logits, num_resamples=20)
    assert all((i.estimate, i.low, i.high) == (0.0, 0.0, 0.0) for i in same.values())
