"""Detectors against pytorch-ood, on raw inputs and on cached outputs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import models, posthoc

# The packages leave constant factors in their scores: ours are as the papers write them.
TRAINING = 240
CASES = {
    "msp": (posthoc.MSP(), lambda score: -np.exp(-score)),
    "max_logit": (posthoc.MaxLogit(), None),
    "energy": (posthoc.Energy(temperature=2.0), None),
    "gen": (posthoc.GEN(), lambda score: score / 5),
    "gen_top": (posthoc.GEN(num_top=3, name="gen_top"), lambda score: score / 3),
    "knn": (posthoc.KNN(k=7), None),
    "mahalanobis": (posthoc.Mahalanobis(shrinkage=0.0), lambda score: score / 2 / TRAINING),
    "relative_mahalanobis": (
        posthoc.RelativeMahalanobis(shrinkage=0.0),
        lambda score: score / TRAINING,
    ),
    "feature_density": (posthoc.FeatureDensity(shrinkage=0.0), None),
    "vim": (posthoc.ViM(dimension=5), None),
    "fdbd": (posthoc.FDBD(), None),
    "react": (posthoc.ReAct(percentile=0.9), None),
    "ash_s": (posthoc.ASH(percentile=0.65, variant="s", name="ash_s"), None),
    "ash_p": (posthoc.ASH(percentile=0.65, variant="p", name="ash_p"), None),
    "ash_b": (posthoc.ASH(percentile=0.65, variant="b", name="ash_b"), None),
    "scale": (posthoc.SCALE(percentile=0.65), None),
}


@pytest.fixture(scope="module")
def stacked(model, data):
    """All detectors on one model, so that one graph is traced."""
    predictor = model
    for step, _ in CASES.values():
        predictor = step.fit(predictor, data["train"])
    return predictor


@pytest.fixture(scope="module")
def found(stacked, data):
    return stacked.predict_uncertainty(data["test"][0])


@pytest.mark.parametrize("name", CASES)
def test_scores_agree_with_an_independent_package(golden, found, name):
    step, convert = CASES[name]
    score = found[step.name]
    converted = score if convert is None else convert(score)
    kept = np.full(len(score), True)
    if name.startswith("gen"):  # the package clips probabilities at 1e-7, the paper does not
        kept = (found["probs"] > 1e-7).all(axis=-1) & (found["probs"] < 1 - 1e-6).all(axis=-1)
        assert kept.sum() > 30
    np.testing.assert_allclose(converted[kept], golden.arrays[name][kept], rtol=1e-4, atol=1e-5)


def test_steps_stack_and_leave_the_prediction_alone(stacked, found, model, data):
    plain = model.predict_uncertainty(data["test"][0])
    assert set(found) == set(plain) | {step.name for step, _ in CASES.values()}
    for key in plain:
        np.testing.assert_allclose(found[key], plain[key], rtol=1e-5, atol=1e-6)
    assert stacked.cached_predictors == [model]
    assert stacked.num_members == 1
    np.testing.assert_allclose(stacked.score(data["test"][0]), found["scale"], rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_stream_is_fitted_as_arrays_are(found, model, data, name):
    step, _ = CASES[name]
    dataset = tf.data.Dataset.from_tensor_slices(data["train"])
    streamed = step.fit(model, dataset, batch_size=50)
    outputs = posthoc.collect(model, data["test"])
    np.testing.assert_allclose(streamed.score(outputs), found[step.name], rtol=2e-4, atol=1e-5)


def test_the_models_own_uncertainties_are_detectors(found, dirichlet_model, model, data):
    outputs = posthoc.collect(dirichlet_model, data["test"])
    for measure in ("total", "data", "knowledge"):
        detector = posthoc.Uncertainty(measure).fit(dirichlet_model)
        expected = detector.predict_uncertainty(outputs)[measure]
        np.testing.assert_array_equal(detector.score(outputs), expected)
    score = posthoc.Uncertainty("confidence").fit(model).score(outputs)
    np.testing.assert_allclose(score, found["msp"], rtol=1e-5)
    with pytest.raises(ValueError, match="measure: expected 'confidence' or 'total'"):
        posthoc.Uncertainty("knowledge").fit(model)


def test_logit_scores_of_an_ensemble_average_its_members(model, data):
    double = models.Ensemble([model, model])
    outputs = posthoc.collect(model, data["test"])
    twice = posthoc.collect(double, data["test"], features=False)
    for step in (posthoc.MSP(), posthoc.MaxLogit(), posthoc.Energy(), posthoc.GEN()):
        single = step.fit(model).score(outputs)
        np.testing.assert_allclose(step.fit(double).score(twice), single, rtol=1e-5)
    with pytest.raises(ValueError, match="members"):
        posthoc.KNN().fit(double, data["train"])


def test_confidence_is_that_of_the_paper_and_keeps_its_digits():
    from s2d_tf import uncertainty
    from s2d_tf.posthoc.prediction_scores import confidence_score

    random = np.random.default_rng(0)
    logits = random.normal(0, 1, [3, 500, 7]) * np.geomspace(0.1, 30, 500)[:, None]
    expected = uncertainty.confidence_score("categorical", tf.constant(logits)).numpy()
    found = confidence_score(tf.constant(logits, tf.float32)).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def test_generalized_entropy_keeps_its_digits_near_one():
    rest = np.array([[1e-9, 3e-9], [1e-12, 1e-12]])
    probs = np.concatenate([1 - rest.sum(axis=1, keepdims=True), rest], axis=1)
    complement = np.concatenate([rest.sum(axis=1, keepdims=True), 1 - rest], axis=1)
    expected = (probs**0.1 * complement**0.1).sum(axis=1)
    logits = tf.constant(np.log(probs)[None], tf.float32)
    found = posthoc.GEN().scores({}, posthoc.State("categorical", logits)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_mimo_network_has_features_but_no_single_head(golden, data):
    inputs = keras.Input([2, 2, 6])
    backbone = keras.Model(inputs, keras.layers.Flatten()(inputs))
    mimo = models.Classifier(backbone, 5, num_heads=2, seed=0)
    knn = posthoc.KNN(k=3).fit(mimo, data["train"])
    assert knn.num_members == 2
    assert knn.score(posthoc.collect(mimo, data["test"])).shape == (50,)
    with pytest.raises(ValueError, match="expected a network with one head, received one with 2"):
        posthoc.ViM(dimension=4).fit(mimo, data["train"])


@pytest.mark.parametrize(("count", "k"), [(50, 3), (1003, 1), (1000, 5), (1003, 5), (120, 120)])
def test_the_kth_largest_is_found_among_groups(count, k):
    from s2d_tf.posthoc.feature_scores import kth_largest

    values = np.random.default_rng(0).uniform(-1, 1, [20, count]).astype(np.float32)
    values[:, :7] = values[:, 7:8]  # ties
    expected = np.sort(values, axis=-1)[:, -k]
    np.testing.assert_array_equal(kth_largest(tf.constant(values), k), expected)


def test_shrinkage_regularizes_constant_features(golden, model, data):
    images, labels = (np.array(values) for values in data["train"])
    images[:, 0, 0, 0] = 1.0
    for step in (posthoc.Mahalanobis, posthoc.RelativeMahalanobis, posthoc.FeatureDensity):
        with pytest.raises(ValueError, match=r"singular one for .*Raise `shrinkage`"):
            step(shrinkage=0.0).fit(model, (images, labels))
        scores = step().fit(model, (images, labels)).score(posthoc.collect(model, images))
        assert np.isfinite(scores).all()


def test_bad_arguments_and_data_raise_clear_errors(model, data):
    images, labels = data["train"]
    for step, given, message in (
        (posthoc.KNN(k=50), (images[:20], labels[:20]), "at least 50 examples, received 20"),
        (posthoc.KNN(), None, r"data: expected \(inputs, labels\) to fit KNN"),
        (posthoc.KNN(k=2), (images, labels[:-1]), "of the same length and as many labels"),
        (posthoc.KNN(), posthoc.Outputs(np.zeros([7, 5])), "expected outputs with features"),
        (posthoc.KNN(name="total"), data["train"], "a key that the model does not have"),
        (posthoc.KNN(name="a/b"), data["train"], "name: expected letters, digits and _"),
        (posthoc.Mahalanobis(), (images, labels + 3), "labels from 0 to 4, received 5"),
        (posthoc.ViM(dimension=12), data["train"], "less than the 12 features"),
    ):
        with pytest.raises(ValueError, match=message):
            step.fit(model, given)
    with pytest.raises(ValueError, match="variant: expected one of"):
        posthoc.ASH(variant="x")
    with pytest.raises(ValueError, match=r"model: expected a models\.Predictor"):
        posthoc.MSP().fit(object())
    with pytest.raises(ValueError, match="expected outputs of this network"):
        posthoc.MSP().fit(model).score(posthoc.Outputs(np.zeros([2, 7, 5])))
    with pytest.raises(ValueError, match="features: expected 7 rows"):
        posthoc.Outputs(np.zeros([7, 5]), np.zeros([6, 12]))
