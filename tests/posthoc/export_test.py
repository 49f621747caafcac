"""An exported model answers with its steps' outputs, in permitted operations only."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, posthoc
from s2d_tf.posthoc.predictor import after_steps
from tests.export.conftest import FORMATS
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
    sets = posthoc.ConformalSets(0.8, "raps", randomized=True)
    return sets.fit(predictor, data["calibration"])


@pytest.fixture(scope="module")
def predictor(dirichlet_model, data):
    cached = {name: posthoc.collect(dirichlet_model, data[name]) for name in data}
    return stack(dirichlet_model, cached)


@pytest.fixture
def with_all_outputs(predictor):
    """All steps in one model, which is exported with each score under its own name."""

    def served_outputs(images):
        state = after_steps(predictor, images)
        return state.member_logits, state.outputs

    object.__setattr__(predictor, "served_outputs", served_outputs)
    yield predictor
    object.__delattr__(predictor, "served_outputs")


def compare(answers, predictor, images):
    expected = predictor.predict_uncertainty(images)
    names = {step.name for step in DETECTORS} | {"prediction_set", "abstain"}
    assert names <= set(answers)
    for name in names:
        if expected[name].dtype == bool:  # rounding may decide one in a hundred
            assert np.mean(answers[name] != expected[name]) <= 0.01, name
            continue
        scale = np.abs(expected[name].astype(np.float32)).max()
        np.testing.assert_allclose(
            answers[name], expected[name], rtol=1e-4, atol=1e-5 * scale, err_msg=name
        )


def test_a_saved_model_has_all_outputs_in_permitted_operations(with_all_outputs, data, tmp_path):
    images = data["test"][0]
    version = export.load(export.save(with_all_outputs, tmp_path))
    assert list(version.signatures) == ["serving_default"]  # Nobody said that these are raw pixels.
    answers = version.signatures["serving_default"](images=tf.constant(images))
    compare(answers, with_all_outputs, images)
    assert answers["prediction_set"].dtype == answers["abstain"].dtype == tf.bool


def test_answers_have_the_names_of_all_exports(predictor, data):
    _, added = predictor.served_outputs(tf.constant(data["test"][0]))
    assert set(added) == {"ood_score", "prediction_set", "abstain"}
    expected = predictor.predict_uncertainty(data["test"][0])[DETECTORS[-1].name]
    np.testing.assert_allclose(added["ood_score"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("form", FORMATS)
def test_other_formats_have_all_operations(with_all_outputs, data, tmp_path, form):
    save, load, name = FORMATS[form]
    run = load(save(with_all_outputs, tmp_path / name))
    images = data["test"][0].astype(np.float32)
    for size in (1, len(images)):
        compare(run(images=images[:size]), with_all_outputs, images[:size])


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("form", FORMATS)
def test_a_plain_network_has_knowledge_by_distance_in_every_format(model, data, tmp_path, form):
    nearest = posthoc.KNN(k=3).fit(model, data["train"])
    aware = posthoc.DistanceAwareness().fit(nearest, data["calibration"])
    images = data["test"][0].astype(np.float32)
    expected = aware.predict_uncertainty(images)
    save, load, name = FORMATS[form]
    version = export.load(export.save(aware, tmp_path / "v")).signatures["serving_default"]
    for run in (load(save(aware, tmp_path / name)), version):
        answers = run(images=tf.constant(images) if run is version else images)
        for key, value in (("knowledge_uncertainty", "knowledge"), ("probabilities", "probs")):
            np.testing.assert_allclose(answers[key], expected[value], rtol=1e-3, atol=1e-5)
