"""A predictor of vectors behind an encoder: the same answers, from texts."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import backbones, export, models, posthoc

WORDS = ["red", "green", "blue", "one", "two", "three"]
TEXTS = np.array(["red one", "green", "two three blue", "three"])


def encoder(size=5):
    texts = keras.Input([], dtype="string", name="texts")
    tokens = keras.layers.TextVectorization(vocabulary=WORDS, output_sequence_length=3)(texts)
    start = keras.initializers.RandomNormal(seed=2)
    vectors = keras.layers.Embedding(len(WORDS) + 2, size, start)(tokens)
    return keras.Model(texts, keras.layers.GlobalAveragePooling1D()(vectors))


def head(kind=models.S2DClassifier, seed=0):
    return kind(backbones.dense((5,), width=4, dropout=0.3, seed=seed), 3, seed=seed)


PREDICTORS = {
    "s2d": head,
    "ensemble": lambda: models.Ensemble([head(seed=0), head(seed=1)]),
    "dropout": lambda: models.MonteCarloDropout(head(models.Classifier), 3),
    "step": lambda: posthoc.Energy().fit(head(models.Classifier)),
}


@pytest.mark.parametrize("name", PREDICTORS)
def test_texts_get_the_answers_of_their_vectors(name):
    predictor, front = PREDICTORS[name](), encoder()
    predictor.class_names = ["a", "b", "c"]
    model = models.Encoded(front, predictor)
    found, vectors = model.predict_uncertainty(TEXTS), front(tf.constant(TEXTS)).numpy()
    expected = predictor.predict_uncertainty(vectors)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, atol=1e-6, err_msg=key)
    kind, members = model.predict_members(list(TEXTS))
    assert (kind, len(members)) == (predictor.kind, predictor.num_members)
    assert model.num_parameters == predictor.num_parameters, "none of the encoder"
    assert model.networks == predictor.networks
    assert model.class_names == ["a", "b", "c"]
    assert model.contract.tensors[0].dtype == "string"


def test_an_export_takes_texts(tmp_path):
    model = models.Encoded(encoder(), PREDICTORS["step"]())
    folder = export.save(model, tmp_path / "model")
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    answer, expected = served(texts=tf.constant(TEXTS)), model.predict_uncertainty(TEXTS)
    np.testing.assert_allclose(answer["probabilities"], expected["probs"], atol=1e-6)
    np.testing.assert_allclose(answer["ood_score"], expected["energy"], atol=1e-5)


def test_features_are_those_of_the_head():
    model = models.Encoded(encoder(), head())
    features = model.features(tf.constant(TEXTS))
    logits = features @ model.last_layer.kernel[0] + model.last_layer.bias[0]
    np.testing.assert_allclose(logits, model.predict_members(TEXTS)[1][0], atol=1e-6)


def test_another_encoder_is_rejected():
    with pytest.raises(ValueError, match=r"one input of shape \(6,\).* received \[\(5,\)\]"):
        models.Encoded(encoder(6), head())
    with pytest.raises(ValueError, match=r"encoder: expected a functional keras\.Model"):
        models.Encoded(keras.layers.Dense(5), head())
