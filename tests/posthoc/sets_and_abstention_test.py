"""Conformal sets against mapie and crepes, coverage against its law, abstention at a risk."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from s2d_tf import metrics, posthoc
from s2d_tf.posthoc import sets_and_abstention as scores_lib


def probs_of(outputs):
    logits = outputs.member_logits[0].astype(np.float64)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def of_labels(scores, labels):
    return np.asarray(scores)[np.arange(len(labels)), labels]


def test_scores_agree_with_mapie(golden, cached):
    probs, labels = probs_of(cached["calibration"]), golden.calibration_labels
    options = golden.options["conformal"]
    draws = tf.constant(golden.calibration_draws)
    regularized = scores_lib.cumulative_scores(
        probs, None, options["penalty"], options["free_classes"]
    )
    cases = {
        "lac_scores": 1.0 - probs,
        "aps_scores": scores_lib.cumulative_scores(tf.constant(probs), draws),
        "aps_cumulative_scores": scores_lib.cumulative_scores(probs),
        "raps_scores": regularized,
    }
    for name, found in cases.items():
        np.testing.assert_allclose(of_labels(found, labels), golden.arrays[name], atol=1e-5)


@pytest.mark.parametrize("name", ["lac", "aps"])
def test_thresholds_and_sets_agree_with_mapie(golden, cached, name):
    coverage = golden.options["conformal"]["coverage"]
    threshold = scores_lib.threshold(golden.arrays[f"{name}_scores"], coverage)
    np.testing.assert_allclose(threshold, golden.arrays[f"{name}_threshold"][0], atol=1e-9)
    probs = tf.constant(probs_of(cached["test"]))
    if name == "lac":
        sets = 1.0 - probs <= threshold
    else:
        sets = scores_lib.cumulative_scores(probs, tf.constant(golden.test_draws)) <= threshold
        fixed = scores_lib.cumulative_scores(probs) <= threshold
        # mapie's set is never empty without draws.
        some = np.asarray(fixed).any(axis=-1)
        np.testing.assert_array_equal(
            np.asarray(fixed)[some], golden.arrays["aps_sets_from_threshold"][some]
        )
    # Beside a probability that rounds to 1, mapie adds a class whose own rounds to 0.
    clear = probs_of(cached["test"]).max(axis=-1) < 1 - 1e-12
    assert clear.sum() > 40
    np.testing.assert_array_equal(sets[clear], golden.arrays[f"{name}_sets"][clear])


def test_the_step_gives_mapies_lac_sets(golden, model, cached, data):
    step = posthoc.ConformalSets(golden.options["conformal"]["coverage"])
    predictor = step.fit(model, cached["calibration"])
    np.testing.assert_array_equal(predictor.predict_sets(cached["test"]), golden.lac_sets)
    np.testing.assert_array_equal(predictor.predict_sets(data["test"][0]), golden.lac_sets)


def test_class_conditional_sets_agree_with_crepes(golden, model, cached):
    step = posthoc.ConformalSets(golden.options["conformal"]["coverage"], class_conditional=True)
    sets = step.fit(model, cached["calibration"]).predict_sets(cached["test"])
    np.testing.assert_array_equal(sets, golden.lac_sets_by_class)


def test_hashed_draws_look_uniform_and_survive_rounding():
    logits = np.random.default_rng(0).normal(0, 5, [1, 4000, 100]).astype(np.float32)
    draws = scores_lib.hashed_draws(tf.constant(logits)).numpy()
    assert stats.kstest(draws, "uniform").pvalue > 1e-3
    rounded = scores_lib.hashed_draws(tf.constant(logits * (1 + 3e-7))).numpy()
    difference = np.abs(draws - rounded)
    assert np.minimum(difference, 1 - difference).max() < 5e-3


def mean_coverage_is_lawful(scores_by_class, labels, coverage, num_splits=200):
    """Checks mean and single coverages of random splits against the law's 99.9% intervals."""
    count = len(labels) // 2
    true_scores = of_labels(scores_by_class, labels)
    random, observed = np.random.default_rng(5), []
    for _ in range(num_splits):
        known, new = np.split(random.permutation(len(labels)), [count])
        threshold = scores_lib.threshold(true_scores[known], coverage)
        observed.append(metrics.set_coverage(scores_by_class[new] <= threshold, labels[new]))
    rank = np.ceil((count + 1) * coverage)
    law = stats.betabinom(len(labels) - count, rank, count + 1 - rank)
    mean, deviation = law.mean() / law.args[0], law.std() / law.args[0]
    # Over random splits of fixed scores without ties the counts follow the law exactly and
    # independently: the mean of many is normal.
    half = stats.norm.ppf(0.9995) * deviation / np.sqrt(num_splits)
    assert abs(np.mean(observed) - mean) < half, (np.mean(observed), mean, half)
    low, high = (law.ppf(tail) / law.args[0] for tail in (0.0005, 0.9995))
    assert np.mean([low <= value <= high for value in observed]) > 0.98


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_mean_coverage_follows_the_beta_binomial_law(method):
    random = np.random.default_rng(1)
    logits = random.normal(0, 2, [600, 10])
    labels = (logits + random.gumbel(size=logits.shape)).argmax(axis=-1)
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    if method == "lac":
        scores = 1.0 - probs
    else:
        draws = scores_lib.hashed_draws(tf.constant(logits[None], tf.float32))
        penalty = 0.01 if method == "raps" else 0.0
        probs = tf.constant(probs, tf.float32)
        scores = scores_lib.cumulative_scores(probs, draws, penalty, 2).numpy()
    mean_coverage_is_lawful(np.asarray(scores), labels, coverage=0.9)


def test_set_metrics_agree_with_mapie(golden):
    sets, labels = golden.lac_sets, golden.test_labels
    np.testing.assert_allclose(metrics.set_coverage(sets, labels), golden.lac_coverage[0])
    np.testing.assert_allclose(metrics.mean_set_size(sets), golden.lac_mean_size[0])


def test_errors_say_what_to_do(model, cached):
    few = cached["calibration"].rows(0, 18)
    with pytest.raises(ValueError, match="at least 19 calibration examples for a coverage"):
        posthoc.ConformalSets(0.95).fit(model, few)
    posthoc.ConformalSets(0.95).fit(model, cached["calibration"].rows(0, 19))
    with pytest.raises(ValueError, match="at least 9 calibration examples of class 0"):
        posthoc.ConformalSets(0.9, class_conditional=True).fit(model, few)
    for name, value in (("coverage", 90), ("method", "topk"), ("randomized", True)):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            posthoc.ConformalSets(**{name: value})
    with pytest.raises(ValueError, match="expected labels from 0 to 4, received -1"):
        posthoc.ConformalSets().fit(model, posthoc.Outputs(few.member_logits))


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
    predictor = posthoc.SelectiveClassifier(max_risk=0.05).fit(model, cached["calibration"])
    found = predictor.predict_uncertainty(cached["calibration"])
    expected = found["total"] > predictor.arrays["threshold"].astype(np.float32)
    np.testing.assert_array_equal(found["abstain"], expected)
    answered = ~found["abstain"]
    wrong = found["probs"].argmax(axis=-1) != cached["calibration"].labels
    assert 0 < answered.mean() < 1
    np.testing.assert_allclose(answered.mean(), predictor.arrays["coverage"])
    assert wrong[answered].mean() < predictor.arrays["risk_bound"] <= 0.05
    again = predictor.predict_uncertainty(data["calibration"][0][:20])
    np.testing.assert_array_equal(again["abstain"], found["abstain"][:20])


def test_errors_of_selective_classifiers_say_what_to_do(model, cached):
    with pytest.raises(ValueError, match="max_risk: expected an error rate that some threshold"):
        posthoc.SelectiveClassifier(max_risk=0.001).fit(model, cached["calibration"])
    with pytest.raises(ValueError, match=r"score: expected one of \['total', 'data', 'know"):
        posthoc.SelectiveClassifier(score="knn").fit(model, cached["calibration"])
    with pytest.raises(ValueError, match="max_risk: expected a number between 0 and 1"):
        posthoc.SelectiveClassifier(max_risk=5)
