"""An exported model answers with its steps' outputs, in permitted operations only."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, posthoc
from s2d_tf.posthoc.predictor import after_steps
from tests.posthoc.saving_test import STEPS

DETECTORS = [step for step in STEPS if isinstance(step, posthoc.Detector)]


def stack(model, data):
    predictor = posthoc.LastLayerLaplace(num_draws=3).fit(model, data["train"])
    predictor = posthoc.DirichletCalibration().fit(predictor, data["calibration"])
    for step in DETECTORS:
        predictor = step.fit(predictor, data["train"])
    predictor = posthoc.SelectiveClassifier(0.5, score="nearest").fit(
        predictor, data["calibration"]
    )
    sets = posthoc.ConformalSets(0.8, "raps", randomized=True, strata=2)
    return sets.fit(predictor, data["calibration"])


@pytest.fixture(scope="module")
def cached(dirichlet_model, data):
    return {name: posthoc.collect(dirichlet_model, data[name]) for name in data}


def with_all_outputs(model, cached):
    """All steps in one model, which is exported with each score under its own name."""
    predictor = stack(model, cached)

    def served_outputs(images):
        state = after_steps(predictor, images)
        return state.member_logits, state.outputs

    object.__setattr__(predictor, "served_outputs", served_outputs)
    return predictor


def compare(answers, predictor, images):
    expected = predictor.predict_uncertainty(images)
    names = {step.name for step in DETECTORS} | {"prediction_set", "abstain"}
    assert names <= set(answers)
    for name in names:
        scale = np.abs(expected[name].astype(np.float32)).max()
        np.testing.assert_allclose(
            answers[name], expected[name], rtol=1e-4, atol=1e-5 * scale, err_msg=name
        )


def test_a_saved_model_has_all_outputs_in_permitted_operations(
    dirichlet_model, data, cached, tmp_path
):
    predictor = with_all_outputs(dirichlet_model, cached)
    images = data["test"][0]
    version = export.load(export.save(predictor, tmp_path))
    assert list(version.signatures) == ["serving_default"]  # Nobody said that these are raw pixels.
    answers = version.signatures["serving_default"](images=tf.constant(images))
    compare(answers, predictor, images)
    assert answers["prediction_set"].dtype == answers["abstain"].dtype == tf.bool


def test_answers_have_the_names_of_all_exports(dirichlet_model, data, cached):
    predictor = stack(dirichlet_model, cached)
    _, added = predictor.served_outputs(tf.constant(data["test"][0]))
    assert set(added) == {"ood_score", "prediction_set", "abstain"}
    expected = predictor.predict_uncertainty(data["test"][0])
    np.testing.assert_allclose(
        added["ood_score"], expected[DETECTORS[-1].name], rtol=1e-4, atol=1e-5
    )


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_litert_has_all_operations(dirichlet_model, data, cached, tmp_path):
    predictor = with_all_outputs(dirichlet_model, cached)
    images = data["test"][0]
    path = export.save_litert(predictor, tmp_path / "m.tflite")
    interpreter = tf.lite.Interpreter(str(path))
    compare(interpreter.get_signature_runner("serving_default")(images=images), predictor, images)


def test_onnx_has_all_operations(dirichlet_model, data, cached, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra s2d_tf[onnx]")
    onnx = pytest.importorskip("onnx", reason="needs the extra s2d_tf[onnx]")
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    predictor = with_all_outputs(dirichlet_model, cached)
    images = data["test"][0].astype(np.uint8)
    path = export.save_onnx(predictor, tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    for size in (1, len(images)):
        answers = dict(zip(names, session.run(None, {"images": images[:size]}), strict=True))
        compare(answers, predictor, images[:size])
    assert {node.domain for node in onnx.load(str(path)).graph.node} <= {"", "ai.onnx"}
