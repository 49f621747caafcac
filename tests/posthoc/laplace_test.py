"""LastLayerLaplace against laplace-torch, and its draws against the posterior that they follow."""

import numpy as np
import pytest

from s2d_tf import posthoc

STRUCTURES = ("kronecker", "diagonal")


def fit(model, cached, structure, **kwargs):
    return posthoc.LastLayerLaplace(structure, **kwargs).fit(model, cached["train"])


@pytest.mark.parametrize("structure", STRUCTURES)
def test_probit_variance_and_evidence_agree_with_laplace_torch(golden, model, cached, structure):
    for i, precision in enumerate(golden.options["laplace"]["prior_precisions"]):
        laplace = fit(model, cached, structure, predictive="probit", prior_precision=precision)
        found = laplace.predict_uncertainty(cached["test"])
        np.testing.assert_allclose(
            found["probs"], golden.arrays[f"laplace_{structure}_probs"][i], rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose(
            found["laplace_variance"],
            golden.arrays[f"laplace_{structure}_variance"][i].mean(axis=-1),
            rtol=1e-4,
        )
        np.testing.assert_allclose(
            laplace.arrays["log_evidence"],
            golden.arrays[f"laplace_{structure}_evidence"][i],
            rtol=1e-6,
        )


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_prior_precision_maximizes_the_evidence(golden, model, cached, structure):
    best = fit(model, cached, structure).arrays
    assert best["log_evidence"] >= golden.arrays[f"laplace_{structure}_best_evidence"] - 1e-4
    np.testing.assert_allclose(
        best["precision"], golden.arrays[f"laplace_{structure}_best_precision"], rtol=1e-2
    )
    for factor in (0.98, 1.02):
        precision = float(best["precision"] * factor)
        other = fit(model, cached, structure, prior_precision=precision).arrays
        assert other["log_evidence"] < best["log_evidence"]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_draws_have_the_posteriors_variance(golden, model, cached, structure):
    """Function-space variance of many draws, against laplace-torch's."""
    count, precision = 4000, golden.options["laplace"]["prior_precisions"][1]
    laplace = fit(model, cached, structure, num_draws=count, prior_precision=precision)
    kernels = laplace.arrays["kernels"].reshape(12, count, 5)
    logits = np.einsum("nd,dsk->snk", golden.test_features, kernels)
    logits += laplace.arrays["biases"][:, None]
    expected = golden.arrays[f"laplace_{structure}_variance"][1]
    np.testing.assert_allclose(logits.var(axis=0), expected, rtol=0.15)
    center = golden.test_features @ golden.kernel + golden.bias
    deviation = (logits.mean(axis=0) - center) / np.sqrt(expected / count)
    assert np.abs(deviation).max() < 5


def test_draws_are_members_with_knowledge(model, cached, data):
    laplace = fit(model, cached, "kronecker", num_draws=6)
    found = laplace.predict_uncertainty(data["test"][0])
    kind, members = laplace.predict_members(data["test"][0])
    assert (kind, members.shape) == ("categorical", (6, 50, 5))
    assert laplace.decomposes
    assert laplace.cached_predictors == [laplace]
    assert (found["knowledge"] > 0).all()
    np.testing.assert_allclose(found["total"], found["data"] + found["knowledge"], atol=1e-6)
    np.testing.assert_allclose(laplace.predict_members(cached["test"])[1], members, rtol=1e-4)
    from_cache = laplace.predict_uncertainty(cached["test"])
    np.testing.assert_allclose(from_cache["knowledge"], found["knowledge"], rtol=1e-3, atol=1e-6)


def test_a_dirichlet_head_keeps_its_kind_and_its_likelihood(model, dirichlet_model, cached):
    """One label under a Dirichlet has the chance of its mean: the same curvature and evidence."""
    plain = fit(model, cached, "kronecker", num_draws=3)
    s2d = fit(dirichlet_model, cached, "kronecker", num_draws=3)
    np.testing.assert_allclose(s2d.arrays["log_evidence"], plain.arrays["log_evidence"])
    found = s2d.predict_uncertainty(cached["test"])
    own = posthoc.Uncertainty("knowledge").fit(dirichlet_model)
    assert s2d.kind == "dirichlet"
    assert found["knowledge"].mean() > own.score(cached["test"]).mean()


def test_errors_say_what_to_do(model, cached):
    scaled = posthoc.TemperatureScaling().fit(model, cached["calibration"])
    with pytest.raises(ValueError, match="Fit LastLayerLaplace first"):
        posthoc.LastLayerLaplace().fit(scaled, cached["train"])
    with pytest.raises(ValueError, match="structure: expected one of"):
        posthoc.LastLayerLaplace("full")
