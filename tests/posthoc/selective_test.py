"""SelectiveClassifier: its threshold, and the risk that it keeps."""

import numpy as np
import pytest
from scipy import stats

from s2d_tf import posthoc


def largest_threshold(scores, errors, max_risk):
    """The definition, one threshold after the other; the Clopper-Pearson bound by SciPy's test."""
    found = None
    for threshold in np.sort(scores):
        answered = scores <= threshold
        wrong = int(errors[answered].sum())
        test = stats.binomtest(wrong, int(answered.sum()))
        bound = test.proportion_ci(confidence_level=0.9, method="exact").high  # 95% on one side
        if bound <= max_risk:
            found = threshold, answered.mean(), bound
    return found


def test_the_threshold_is_the_largest_that_keeps_the_bound():
    random = np.random.default_rng(2)
    for max_risk in (0.05, 0.1, 0.3, 0.6):
        scores = random.random(300)
        errors = random.random(300) < scores**2
        found = posthoc.choose_threshold(scores, errors, max_risk)
        expected = largest_threshold(scores, errors, max_risk)
        assert (found is None) == (expected is None)
        if found:
            np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_it_abstains_above_the_threshold(model, cached, data):
    step = posthoc.SelectiveClassifier(max_risk=0.05)
    predictor = step.fit(model, cached["calibration"])
    found = predictor.predict_uncertainty(cached["calibration"])
    expected = found["total"] > predictor.arrays["threshold"].astype(np.float32)
    np.testing.assert_array_equal(found["abstain"], expected)
    answered = ~found["abstain"]
    wrong = found["probs"].argmax(axis=-1) != cached["calibration"].labels
    assert 0 < answered.mean() < 1
    np.testing.assert_allclose(answered.mean(), predictor.arrays["coverage"])
    assert wrong[answered].mean() < predictor.arrays["risk_bound"] <= 0.05
    np.testing.assert_array_equal(
        predictor.predict_abstain(data["calibration"][0][:20]), found["abstain"][:20]
    )


def test_errors_say_what_to_do(model, cached):
    with pytest.raises(ValueError, match="max_risk: expected an error rate that some threshold"):
        posthoc.SelectiveClassifier(max_risk=0.001).fit(model, cached["calibration"])
    with pytest.raises(ValueError, match=r"score: expected one of \['total', 'data', 'know"):
        posthoc.SelectiveClassifier(score="knn").fit(model, cached["calibration"])
    with pytest.raises(ValueError, match="max_risk: expected a number between 0 and 1"):
        posthoc.SelectiveClassifier(max_risk=5)
