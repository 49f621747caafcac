"""The decomposition of uncertainty against mpmath, over the whole numerical contract."""

import functools

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from s2d_tf import uncertainty

KEYS = ("total", "data", "knowledge")
TOTALS = (1e-2, 0.5, 1.5, 1e2, 1e4, 1e6)


def softmax(logits):
    return scipy.special.softmax(np.asarray(logits, np.float64), axis=-1)


def entropy_reference(probs):
    return -mpmath.fsum(p * mpmath.log(p) for p in probs if p > 0)


def categorical_reference(members):
    """Total, data and knowledge of member probabilities `[members, K]`, normalised in 40 digits."""
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(value)) for value in row] for row in members]
        sums = [mpmath.fsum(row) for row in rows]
        rows = [[value / total for value in row] for row, total in zip(rows, sums, strict=True)]
        mean = [mpmath.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        total = entropy_reference(mean)
        data = mpmath.fsum(map(entropy_reference, rows)) / len(rows)
        return float(total), float(data), float(total - data)


def dirichlet_reference(members):
    """The same for member concentrations `[members, K]`."""
    with mpmath.workdps(40):
        rows = [[mpmath.mpf(float(value)) for value in row] for row in members]
        sums = [mpmath.fsum(row) for row in rows]
        means = [[a / s for a in row] for row, s in zip(rows, sums, strict=True)]
        mean = [mpmath.fsum(column) / len(rows) for column in zip(*means, strict=True)]
        total = entropy_reference(mean)
        data = mpmath.fsum(
            mpmath.digamma(s + 1) - mpmath.fsum(a * mpmath.digamma(a + 1) for a in row) / s
            for row, s in zip(rows, sums, strict=True)
        ) / len(rows)
        return float(total), float(data), float(total - data)


def assert_matches(result, references, dtype):
    for index, key in enumerate(KEYS):
        assert result[key].dtype == dtype
        expected = np.array([reference[index] for reference in references])
        np.testing.assert_allclose(result[key], expected, rtol=1e-4, atol=1e-6, err_msg=key)
    assert_consistent(result)


def assert_consistent(result):
    result = {key: np.asarray(value, np.float64) for key, value in result.items()}
    for key, value in result.items():
        assert np.all(np.isfinite(value)), key
        assert np.all(value >= 0.0), key
    np.testing.assert_allclose(
        result["total"], result["data"] + result["knowledge"], rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(result["probs"].sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(result["confidence"], result["probs"].max(axis=-1))


@functools.cache
def dirichlet_case(num_members, num_classes):
    """Logits that float32 holds, so that both types have one reference, which takes a while."""
    rng = np.random.default_rng(num_classes)
    totals = TOTALS if num_classes < 1000 else (1e-2, 1.5, 1e6)
    sharpness = rng.choice([0.5, 3.0], size=(num_members, len(totals), 1))
    mean = softmax(rng.normal(size=(num_members, len(totals), num_classes)) * sharpness)
    logits = np.log(mean * np.array(totals)[:, np.newaxis]).astype(np.float32)
    concentrations = np.exp(logits.astype(np.float64))
    return logits, [dirichlet_reference(concentrations[:, i]) for i in range(len(totals))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_classes", [2, 10, 100, 1000])
@pytest.mark.parametrize("num_members", [1, 3])
def test_dirichlet_matches_mpmath(num_members, num_classes, dtype):
    logits, references = dirichlet_case(num_members, num_classes)
    concentrations = np.exp(logits.astype(np.float64)).astype(dtype)
    logits = logits.astype(dtype)
    assert_matches(uncertainty.from_log_concentrations(logits), references, dtype)
    assert_matches(uncertainty.from_concentrations(concentrations), references, dtype)
    if num_members == 1:
        assert_matches(uncertainty.from_log_concentrations(logits[0]), references, dtype)


@functools.cache
def categorical_case(num_classes):
    rng = np.random.default_rng(num_classes)
    differences = np.array([1e-4, 1e-2, 0.3, 3.0, 30.0])[:, np.newaxis]
    logits = rng.normal(size=(1, 5, num_classes)) * 2
    logits = (logits + rng.normal(size=(4, 5, num_classes)) * differences).astype(np.float32)
    probs = softmax(logits)
    return logits, probs, [categorical_reference(probs[:, i]) for i in range(5)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_classes", [2, 10, 300, pytest.param(1000, marks=pytest.mark.slow)])
def test_categorical_ensemble_matches_mpmath(num_classes, dtype):
    logits, probs, references = categorical_case(num_classes)
    assert_matches(uncertainty.from_log_probs(logits.astype(dtype)), references, dtype)
    assert_matches(uncertainty.from_probs(probs.astype(dtype)), references, dtype)


def test_knowledge_keeps_its_digits_in_float32():
    logits = (np.array([[0.3, -1.0, 0.7, 0.1]]) + np.log(1e6)).astype(np.float32)
    exact = dirichlet_reference(np.exp(logits.astype(np.float64)))[2]
    result = uncertainty.from_log_concentrations(logits)["knowledge"]
    np.testing.assert_allclose(result, [exact], rtol=1e-5)
    members = np.stack([logits, logits + np.array([0.0, 1e-2, 0.0, 0.0], np.float32)])
    exact = categorical_reference(softmax(members)[:, 0])[2]
    assert exact < 1e-5
    result = uncertainty.from_log_probs(members)["knowledge"]
    np.testing.assert_allclose(result, [exact], rtol=1e-3)


def test_probabilities_are_not_touched_by_clipping():
    logits = np.array([[30.0, 28.0, 0.0], [-30.0, -31.0, -28.0]], np.float32)
    result = uncertainty.from_log_concentrations(logits)
    np.testing.assert_allclose(result["probs"], softmax(logits), rtol=1e-6)
    assert_consistent(result)
    # Far below the limit, all of the total is knowledge.
    np.testing.assert_allclose(result["knowledge"][1], result["total"][1], rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", uncertainty.KINDS)
def test_extremes_are_finite(kind, dtype):
    rng = np.random.default_rng(1)
    one_hot = np.where(np.eye(4) > 0, 1e4, -1e4)
    stack = np.stack(
        [
            np.concatenate([one_hot, np.full([2, 4], fill), rng.uniform(-1e4, 1e4, size=(4, 4))])
            for fill in (1e4, -1e4, 0.0)
        ]
    ).astype(dtype)
    variable = tf.Variable(stack)
    with tf.GradientTape() as tape:
        result = uncertainty.from_members(kind, variable)
        target = tf.add_n([tf.reduce_sum(result[key]) for key in KEYS])
    assert_consistent(result)
    assert np.all(np.isfinite(tape.gradient(target, variable)))
    assert_consistent(uncertainty.from_members(kind, stack[0]))
    assert_consistent(uncertainty.from_probs(np.eye(4, dtype=dtype)[np.newaxis]))
    disagreement = uncertainty.from_probs(np.eye(4, dtype=dtype)[:, np.newaxis])
    np.testing.assert_allclose(disagreement["knowledge"], [np.log(4.0)], rtol=1e-6)
    with np.errstate(divide="ignore"):
        from_zero = uncertainty.from_log_probs(np.log(np.eye(4, dtype=dtype))[:, np.newaxis])
    np.testing.assert_allclose(from_zero["knowledge"], [np.log(4.0)], rtol=1e-6)


@settings(derandomize=True, max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    num_members=st.integers(1, 4),
    num_classes=st.integers(2, 12),
    scale=st.floats(-3.0, 9.0),
    shift=st.floats(-50.0, 50.0),
)
def test_identities_hold_anywhere(seed, num_members, num_classes, scale, shift):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num_members, 5, num_classes)) * np.exp(scale) + shift
    logits = logits.astype(np.float32)
    for kind in uncertainty.KINDS:
        result = uncertainty.from_members(kind, logits)
        assert_consistent(result)
        expected = scipy.stats.entropy(softmax(logits).mean(axis=0), axis=-1)
        np.testing.assert_allclose(result["total"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", uncertainty.KINDS)
def test_eager_graph_and_xla_agree(kind):
    stack = (np.random.default_rng(2).normal(size=(3, 8, 10)) * 4).astype(np.float32)
    eager = uncertainty.from_members(kind, stack)
    for jit_compile in (False, True):
        function = tf.function(
            lambda logits: uncertainty.from_members(kind, logits), jit_compile=jit_compile
        )
        for key, value in function(stack).items():
            np.testing.assert_allclose(value, eager[key], rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("kind", uncertainty.KINDS)
def test_graph_holds_exportable_operations_only(kind):
    missing_elsewhere = {"Digamma", "Lgamma", "Polygamma", "IsFinite", "Expm1", "Log1p", "Xlogy"}
    function = tf.function(lambda logits: uncertainty.from_members(kind, logits))
    graph = function.get_concrete_function(tf.TensorSpec([3, None, 10])).graph
    types = {operation.type for operation in graph.get_operations()}
    assert not types & missing_elsewhere
    assert not any("While" in name or name.endswith("If") for name in types)


class TestConfidenceScore:
    def test_matches_the_log_of_the_mean_probability(self):
        logits = np.random.default_rng(4).normal(size=(3, 20, 10)) * 3
        log_mean = scipy.special.logsumexp(
            scipy.special.log_softmax(logits, axis=-1), axis=0
        ) - np.log(3)
        for kind in uncertainty.KINDS:
            score = uncertainty.confidence_score(kind, logits)
            np.testing.assert_allclose(score, -log_mean.max(axis=-1), rtol=1e-10)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_does_not_saturate(self, dtype):
        margins = np.arange(1.0, 81.0, dtype=dtype)
        logits = np.stack([margins, np.zeros_like(margins)], axis=-1)
        score = uncertainty.confidence_score("categorical", logits).numpy()
        assert score.dtype == dtype
        assert np.all(np.diff(score) < 0.0)
        np.testing.assert_allclose(score[20:], np.exp(-margins[20:].astype(np.float64)), rtol=1e-4)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"\['categorical', 'dirichlet'\], received 'gaussian'"):
        uncertainty.from_members("gaussian", np.zeros([2, 3]))
    with pytest.raises(ValueError, match="kind: expected one of"):
        uncertainty.confidence_score("probs", np.zeros([2, 3]))
    with pytest.raises(ValueError, match=r"or \[batch, classes\], received \(3,\)"):
        uncertainty.from_probs(np.zeros([3]))
    with pytest.raises(ValueError, match="member_logits: expected at least 2 classes"):
        uncertainty.from_log_concentrations(np.zeros([5, 1]))
    with pytest.raises(ValueError, match="at least one member"):
        uncertainty.from_concentrations(np.zeros([0, 5, 3]))
