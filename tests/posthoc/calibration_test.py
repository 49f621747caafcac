"""Calibration: optima found again by other code, and what Dirichlet predictions keep."""

import numpy as np
import pytest
from scipy import optimize, special

from s2d_tf import metrics, models, posthoc


def negative_log_likelihood(logits, labels):
    log_probs = special.log_softmax(logits, axis=-1)
    return -log_probs[np.arange(len(labels)), labels].mean()


def test_temperature_is_that_of_the_metric(model, cached):
    outputs = cached["calibration"]
    step = posthoc.TemperatureScaling().fit(model, outputs)
    temperature = metrics.fit_temperature(outputs.member_logits[0], outputs.labels)
    np.testing.assert_allclose(step.arrays["kernel"], 1 / temperature, rtol=1e-6)
    logits = cached["test"].member_logits[0].astype(np.float64)
    np.testing.assert_allclose(
        step.predict_uncertainty(cached["test"])["probs"],
        special.softmax(logits / temperature, axis=-1),
        rtol=1e-4,
        atol=1e-7,
    )


def test_vector_scaling_is_the_optimum(model, cached):
    outputs = cached["calibration"]
    arrays = posthoc.VectorScaling().fit(model, outputs).arrays
    log_probs = special.log_softmax(outputs.member_logits[0].astype(np.float64), axis=-1)

    def objective(vector):
        return negative_log_likelihood(log_probs * vector[:5] + vector[5:], outputs.labels)

    found = objective(np.concatenate([arrays["kernel"], arrays["bias"]]))
    other = optimize.minimize(objective, np.full(10, 0.3), method="BFGS")
    assert found <= other.fun + 1e-6
    temperature = posthoc.TemperatureScaling().fit(model, outputs).arrays["kernel"]
    assert found < objective(np.concatenate([np.full(5, temperature), np.zeros(5)]))


def test_dirichlet_calibration_is_the_optimum(model, cached):
    outputs = cached["calibration"]
    step = posthoc.DirichletCalibration(off_diagonal_penalty=0.3, bias_penalty=0.2)
    arrays = step.fit(model, outputs).arrays
    log_probs = special.log_softmax(outputs.member_logits[0].astype(np.float64), axis=-1)
    off_diagonal = ~np.eye(5, dtype=bool)

    def objective(vector):
        kernel, bias = vector[:25].reshape(5, 5), vector[25:]
        penalty = 0.3 * np.sum(kernel[off_diagonal] ** 2) + 0.2 * np.sum(bias**2)
        return negative_log_likelihood(log_probs @ kernel + bias, outputs.labels) + penalty

    found = np.concatenate([arrays["kernel"].ravel(), arrays["bias"]])
    slope = optimize.approx_fprime(found, objective, 1e-7)
    assert np.abs(slope).max() < 1e-4
    assert objective(found) < objective(np.concatenate([np.eye(5).ravel(), np.zeros(5)]))


@pytest.mark.parametrize(
    "step",
    [posthoc.TemperatureScaling(), posthoc.VectorScaling(), posthoc.DirichletCalibration()],
    ids=repr,
)
def test_a_dirichlet_keeps_its_total_concentration(model, dirichlet_model, cached, step):
    s2d = step.fit(dirichlet_model, cached["calibration"])
    plain = step.fit(model, cached["calibration"])
    np.testing.assert_allclose(
        special.logsumexp(s2d.predict_members(cached["test"])[1][0], axis=-1),
        special.logsumexp(cached["test"].member_logits[0], axis=-1),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        s2d.predict_uncertainty(cached["test"])["probs"],
        plain.predict_uncertainty(cached["test"])["probs"],
        rtol=1e-4,
        atol=1e-6,
    )


def test_members_are_scaled_alike_for_the_likelihood_of_their_average(model, cached):
    random = np.random.default_rng(0)
    outputs = cached["calibration"]
    noise = random.normal(0, 2, [4, *outputs.member_logits.shape[1:]])
    stack = posthoc.Outputs(outputs.member_logits + noise, labels=outputs.labels)

    def objective(inverse):
        probs = special.softmax(stack.member_logits.astype(np.float64) * inverse, axis=-1)
        return -np.log(probs.mean(axis=0)[np.arange(len(stack.labels)), stack.labels]).mean()

    ensemble = models.Ensemble([model] * 4)
    inverse = posthoc.TemperatureScaling().fit(ensemble, stack).arrays["kernel"]
    grid = [objective(value) for value in np.geomspace(0.01, 10, 200)]
    assert objective(inverse) <= min(grid) + 1e-9


def test_too_few_examples_and_missing_classes_are_errors(model, cached):
    one = cached["calibration"].rows(0, 1)
    with pytest.raises(ValueError, match="at least 2 examples, received 1"):
        posthoc.TemperatureScaling().fit(model, one)
    with pytest.raises(ValueError, match="at least 5 examples, received 3"):
        posthoc.VectorScaling().fit(model, cached["calibration"].rows(0, 3))
    outputs = cached["calibration"]
    without = posthoc.Outputs(outputs.member_logits, labels=outputs.labels // 2)
    with pytest.raises(ValueError, match="received 0 of class 3"):
        posthoc.DirichletCalibration().fit(model, without)


def aware(model, data, **options):
    nearest = posthoc.KNN(k=3).fit(model, data["train"])
    return posthoc.DistanceAwareness(**options).fit(nearest, data["calibration"])


@pytest.mark.parametrize("kind", ["categorical", "dirichlet"])
def test_the_distance_lowers_the_total_concentration_and_leaves_the_mean(
    model, dirichlet_model, data, kind
):
    """Against NumPy: the distance to the third neighbor beyond a deviation, in deviations, times
    that of the log total."""
    network = {"categorical": model, "dirichlet": dirichlet_model}[kind]
    vectors = {n: x.reshape(len(x), -1).astype(np.float64) for n, (x, _) in data.items()}
    vectors = {n: v / np.linalg.norm(v, axis=1, keepdims=True) for n, v in vectors.items()}
    distances = {
        name: np.sort(np.linalg.norm(v[:, None] - vectors["train"], axis=-1), axis=1)[:, 2]
        for name, v in vectors.items()
    }
    known = distances["calibration"]
    beyond = np.maximum((distances["test"] - known.mean()) / known.std() - 1, 0)
    assert 0 < (beyond > 0).mean() < 1
    spread = special.logsumexp(np.float64(network(data["calibration"][0])), axis=1).std()
    logits = np.asarray(network(data["test"][0]), np.float64)
    totals = np.exp(logits - spread * beyond[:, None]).sum(axis=1)
    probs = special.softmax(logits, axis=1)
    gaps = [special.psi(a + 1) - np.log(a) for a in (probs * totals[:, None], totals[:, None])]
    expected = np.sum(probs * (gaps[0] - gaps[1]), axis=1)
    found = aware(network, data).predict_uncertainty(data["test"][0])
    np.testing.assert_allclose(found["knowledge"], expected, rtol=2e-3, atol=1e-6)
    before = network.predict_uncertainty(data["test"][0])
    for name in ("probs", "confidence", "total"):
        np.testing.assert_allclose(found[name], before[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["label"], before["label"])


def test_far_away_there_is_more_knowledge_uncertainty_also_under_other_steps(model, data):
    stacked = posthoc.TemperatureScaling().fit(aware(model, data), data["calibration"])
    assert stacked.kind == "dirichlet"
    inside, outside = (stacked.predict_uncertainty(s * data["test"][0]) for s in (1, -1))
    assert np.median(outside["knowledge"]) > 2 * np.median(inside["knowledge"])
    strong = aware(model, data, strength=1e6).predict_uncertainty(-data["test"][0])
    assert np.isfinite(strong["knowledge"]).all()


def test_the_distance_needs_its_detector_and_different_values(model, data):
    with pytest.raises(ValueError, match=r"score: expected .*'knn'. Fit that detector"):
        posthoc.DistanceAwareness().fit(model, data["calibration"])
    same = tuple(np.repeat(part[:1], 4, axis=0) for part in data["calibration"])
    with pytest.raises(ValueError, match=r"different values of 'knn' .* received 4"):
        posthoc.DistanceAwareness().fit(posthoc.KNN(k=3).fit(model, data["train"]), same)
