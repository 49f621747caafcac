"""Every resample's metrics against the plain metrics and scikit-learn with sample weights."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn import metrics as sklearn_metrics

from s2d_tf import metrics
from s2d_tf.evaluation import resampling


def random_logits(num_examples, num_classes=6, seed=0):
    rng = np.random.default_rng(seed)
    logits = 3.0 * rng.normal(size=(num_examples, num_classes))
    return logits, rng.integers(0, num_classes, num_examples)


def test_counts_are_resamples():
    whole, *parts = resampling.draw_counts(500, 150, 0, step=70)
    assert [len(part) for part in parts] == [70, 70, 10]
    np.testing.assert_array_equal(whole, np.ones((1, 500)))
    counts = np.concatenate(parts)
    np.testing.assert_array_equal(counts.sum(axis=1), 500)
    # A count is binomial(n, 1/n): mean 1, variance 1 - 1/n; exp(-1) of the examples stay out.
    assert counts.var() == pytest.approx(0.998, rel=0.03)
    assert (counts == 0).mean() == pytest.approx((1 - 1 / 500) ** 500, rel=0.02)


def test_classification_of_each_resample_is_exact():
    logits, labels = random_logits(120)
    (samples,) = resampling.classification_resamples([logits], labels, 20, seed=3)
    counts = np.concatenate(list(resampling.draw_counts(120, 20, (3, 0), 8))).astype(int)
    probs = softmax(logits, axis=-1)
    for index in range(21):
        rows = np.repeat(np.arange(120), counts[index])
        expected = {
            "accuracy": metrics.accuracy(probs[rows], labels[rows]),
            "nll": metrics.negative_log_likelihood(probs[rows], labels[rows]),
            "ece": metrics.expected_calibration_error(probs[rows], labels[rows]),
            "brier": metrics.brier_score(probs[rows], labels[rows]),
        }
        found = {name: samples[name][index] for name in expected}
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("decimals", [8, 1, 0])
def test_detection_of_each_resample_is_exact(decimals):
    rng = np.random.default_rng(1)
    id_scores = np.round(rng.normal(size=80), decimals)
    ood_scores = np.round(rng.normal(0.7, size=110), decimals)
    (samples,) = resampling.detection_resamples([(id_scores, ood_scores)], 30, seed=5)
    id_counts = np.concatenate(list(resampling.draw_counts(80, 30, (5, 0), 7)))
    ood_counts = np.concatenate(list(resampling.draw_counts(110, 30, (5, 1), 7)))
    targets, scores = np.repeat([0, 1], [80, 110]), np.r_[id_scores, ood_scores]
    for index in range(31):
        weights = np.r_[id_counts[index], ood_counts[index]]
        assert samples["auroc"][index] == pytest.approx(
            sklearn_metrics.roc_auc_score(targets, scores, sample_weight=weights), abs=1e-12
        )
        assert samples["aupr"][index] == pytest.approx(
            sklearn_metrics.average_precision_score(targets, scores, sample_weight=weights),
            abs=1e-12,
        )


def test_nothing_depends_on_the_chunks(monkeypatch):
    logits, labels = random_logits(100)
    rng = np.random.default_rng(2)
    pair = (rng.normal(size=60), rng.normal(1.0, size=40))
    whole = (
        resampling.classification_resamples([logits], labels, 50, 0)[0],
        resampling.detection_resamples([pair], 50, 0)[0],
    )
    monkeypatch.setattr(resampling, "CHUNK_BYTES", 2400)
    parts = (
        resampling.classification_resamples([logits], labels, 50, 0)[0],
        resampling.detection_resamples([pair], 50, 0)[0],
    )
    for one, other in zip(whole, parts, strict=True):
        for name in one:
            np.testing.assert_allclose(other[name], one[name], rtol=1e-12, atol=1e-15)


def test_several_models_share_their_resamples():
    logits, labels = random_logits(90)
    both = resampling.classification_resamples([logits, 2.0 * logits], labels, 15, 1)
    for model, samples in zip((logits, 2.0 * logits), both, strict=True):
        (alone,) = resampling.classification_resamples([model], labels, 15, 1)
        for name in alone:
            np.testing.assert_allclose(samples[name], alone[name], rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(both[0]["accuracy"], both[1]["accuracy"])
