"""Steps as files: what comes back, and what is rejected."""

import numpy as np
import pytest

from s2d_tf import posthoc

STEPS = (
    posthoc.TemperatureScaling(),
    posthoc.VectorScaling(),
    posthoc.DirichletCalibration(bias_penalty=0.5),
    posthoc.LastLayerLaplace(num_draws=4, seed=3),
    posthoc.LastLayerLaplace("diagonal", predictive="probit"),
    posthoc.MSP(),
    posthoc.MaxLogit(),
    posthoc.Energy(2.0),
    posthoc.GEN(num_top=3),
    posthoc.Uncertainty("total"),
    posthoc.KNN(k=3, name="nearest"),
    posthoc.Mahalanobis(),
    posthoc.RelativeMahalanobis(),
    posthoc.FeatureDensity(),
    posthoc.ViM(dimension=4),
    posthoc.FDBD(),
    posthoc.ReAct(),
    posthoc.ASH(variant="p"),
    posthoc.SCALE(),
    posthoc.ConformalSets(0.8, "raps", randomized=True),
    posthoc.ConformalSets(0.8, class_conditional=True),
    posthoc.SelectiveClassifier(0.5, score="total"),
    posthoc.DistanceAwareness("total", strength=0.5),
)


def test_every_step_is_tried():
    assert {type(step).__name__ for step in STEPS} == set(posthoc.steps())


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_a_loaded_step_predicts_the_same(model, cached, tmp_path, step):
    fitted = step.fit(model, cached["calibration"])
    facts = {"data": "images", "examples": 40}
    assert posthoc.save(fitted, tmp_path / "step", facts) == tmp_path / "step"
    assert [path.name for path in tmp_path.iterdir()] == ["step"]
    loaded = posthoc.load(tmp_path / "step", model)
    assert repr(loaded.step) == repr(step)
    assert loaded.provenance == facts
    expected = fitted.predict_uncertainty(cached["test"])
    found = loaded.predict_uncertainty(cached["test"])
    assert set(found) == set(expected)
    for key in expected:
        np.testing.assert_array_equal(found[key], expected[key])


def test_a_step_on_a_step_is_loaded_on_the_same_steps(model, cached, tmp_path):
    scaled = posthoc.TemperatureScaling().fit(model, cached["calibration"])
    fitted = posthoc.SelectiveClassifier(0.5).fit(
        posthoc.KNN(k=3).fit(scaled, cached["train"]), cached["calibration"]
    )
    posthoc.save(fitted, tmp_path / "step")
    posthoc.load(tmp_path / "step", fitted.model)
    for other in (model, scaled, posthoc.KNN(k=4).fit(scaled, cached["train"])):
        with pytest.raises(ValueError, match="other weights or steps"):
            posthoc.load(tmp_path / "step", other)


def test_a_saved_step_is_saved_again_as_it_was(model, cached, tmp_path):
    fitted = posthoc.KNN(k=3).fit(model, cached["train"])
    posthoc.save(fitted, tmp_path / "a", {"data": "images"})
    posthoc.save(posthoc.load(tmp_path / "a", model), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_only_steps_are_saved_and_only_small_ones(model, cached, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="predictor: expected what a post-hoc step's fit"):
        posthoc.save(model, tmp_path / "step")
    monkeypatch.setattr(posthoc.saving, "MAX_BYTES", 1000)
    with pytest.raises(posthoc.StepError, match="expected at most 1,000 bytes"):
        posthoc.save(posthoc.KNN(k=3).fit(model, cached["train"]), tmp_path / "step")
    assert not list(tmp_path.iterdir())
