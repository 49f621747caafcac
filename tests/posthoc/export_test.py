"""An exported model answers with its steps' outputs, in permitted operations only."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, posthoc

DETECTORS = (
    posthoc.MSP(),
    posthoc.MaxLogit(),
    posthoc.Energy(),
    posthoc.GEN(),
    posthoc.Uncertainty("total"),
    posthoc.Mahalanobis(),
    posthoc.RelativeMahalanobis(),
    posthoc.FeatureDensity(),
    posthoc.ViM(dimension=4),
    posthoc.FDBD(),
    posthoc.ReAct(),
    posthoc.ASH(),
    posthoc.SCALE(),
    posthoc.KNN(k=5),
)


def stack(model, data, detectors):
    predictor = posthoc.LastLayerLaplace(num_draws=3).fit(model, data["train"])
    predictor = posthoc.DirichletCalibration().fit(predictor, data["calibration"])
    for step in detectors:
        predictor = step.fit(predictor, data["train"])
    predictor = posthoc.SelectiveClassifier(0.5, score="knn").fit(predictor, data["calibration"])
    sets = posthoc.ConformalSets(0.8, "raps", randomized=True, strata=2)
    return sets.fit(predictor, data["calibration"])


@pytest.fixture(scope="module")
def cached(dirichlet_model, data):
    return {name: posthoc.collect(dirichlet_model, data[name]) for name in data}


def test_a_saved_model_answers_with_all_outputs(dirichlet_model, data, cached, tmp_path):
    predictor = stack(dirichlet_model, cached, DETECTORS[-2:])
    images = data["test"][0]
    path = export.save(predictor, tmp_path / "model")
    loaded = tf.saved_model.load(str(path))
    answers = loaded.signatures["serving_default"](images=tf.constant(images))
    expected = predictor.predict_uncertainty(images)
    for output, key in (
        ("probabilities", "probs"),
        ("knowledge_uncertainty", "knowledge"),
        ("ood_score", "knn"),
        ("prediction_set", "prediction_set"),
        ("abstain", "abstain"),
    ):
        np.testing.assert_allclose(answers[output], expected[key], rtol=1e-4, atol=1e-5)
    assert answers["prediction_set"].dtype == answers["abstain"].dtype == tf.bool
    # Nobody said that these features are raw pixels.
    assert set(loaded.signatures) == {"serving_default"}


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_litert_has_all_operations(dirichlet_model, data, cached, tmp_path):
    predictor = stack(dirichlet_model, cached, DETECTORS[-1:])
    images = data["test"][0]
    path = export.save_litert(predictor, tmp_path / "model")
    interpreter = tf.lite.Interpreter(str(path / "model.tflite"))
    answers = interpreter.get_signature_runner("serving_default")(images=images)
    expected = predictor.predict_uncertainty(images)
    for output, key in (("ood_score", "knn"), ("prediction_set",) * 2, ("abstain",) * 2):
        np.testing.assert_allclose(answers[output], expected[key], rtol=1e-4, atol=1e-5)


def test_all_steps_use_permitted_operations(dirichlet_model, cached):
    predictor = stack(dirichlet_model, cached, DETECTORS)
    permitted = export.operations.SERVING
    spec = tf.TensorSpec([None, *predictor.image_shape], tf.float32)
    graph = tf.function(predictor._uncertainty).get_concrete_function(spec).graph
    used = {operation.type for operation in graph.get_operations()}
    assert used <= permitted


def test_a_plain_model_answers_as_before(model, data, tmp_path):
    path = export.save(model, tmp_path / "model")
    answers = tf.saved_model.load(str(path)).signatures["serving_default"](
        images=tf.constant(data["test"][0][:2])
    )
    assert set(answers) == {"label", "confidence", "probabilities"} | {
        f"{name}_uncertainty" for name in ("total", "data", "knowledge")
    }
