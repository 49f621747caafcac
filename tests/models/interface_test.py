"""What every predictor declares, so that nobody has to test its type."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import backbones, layers, losses, models
from tests import contracts

CLASSES = 3
IMAGES = np.random.default_rng(0).integers(0, 256, [5, 8, 8, 2]).astype(np.uint8)


def network(cls=models.Classifier, **kwargs):
    images = keras.Input([8, 8, 2])
    x = keras.layers.BatchNormalization()(keras.layers.Flatten()(images))
    x = keras.layers.Dense(4, kernel_initializer=keras.initializers.GlorotUniform(1))(x)
    return cls(keras.Model(images, layers.Dropout(0.5, seed=7)(x)), CLASSES, seed=0, **kwargs)


def student(objective):
    return network(models.Student, objective=objective, num_draws=6)


ONE = 2 * 128 + 128 * 4 + 4 + 4 * CLASSES + CLASSES
PREDICTORS = {  # members, parameters, networks, parts, rows of raw outputs, decomposes
    "plain": (network, 1, ONE, 1, 1, 1, False),
    "s2d": (lambda: network(models.S2DClassifier), 1, ONE, 1, 1, 1, True),
    "mimo": (
        lambda: network(num_heads=2, mean=[128.0], stddev=[64.0]),
        *(2, ONE + 4 * CLASSES + CLASSES, 1, 1, 2, True),
    ),
    "end": (lambda: student(losses.SoftCrossEntropy()), 1, ONE, 1, 1, 1, False),
    "gaussian": (
        lambda: student(losses.NormalKLDivergence()),
        *(6, ONE + 4 * CLASSES + CLASSES, 1, 1, 2, True),
    ),
    "dropout": (lambda: models.MonteCarloDropout(network(), 3), 3, ONE, 1, 1, 3, True),
    "swag": (lambda: models.SWAG(network(), 3), 3, 2 * ONE, 1, 1, 3, True),
    "ensemble": (
        lambda: models.Ensemble([network(), models.MonteCarloDropout(network(), 2)]),
        *(3, 2 * ONE, 2, 2, 3, True),
    ),
}


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_declares_its_facts(name):
    make, members, parameters, networks, parts, rows, decomposes = PREDICTORS[name]
    model = make()
    images = IMAGES[..., : model.image_shape[-1]]
    contracts.run_predictor_test(make, images)
    assert (model.num_members, model.num_parameters) == (members, parameters)
    assert (len(model.networks), len(model.cached_predictors)) == (networks, parts)
    assert model.decomposes == decomposes
    assert model.class_names is None
    assert model.metadata is None
    assert sum(len(part.raw_outputs(images)) for part in model.cached_predictors) == rows


def test_networks_are_what_weights_files_hold():
    model = network()
    assert model.networks == [model]
    assert models.MonteCarloDropout(model).networks == [model]
    swag = models.SWAG(model)
    assert swag.networks == [swag]  # the deviations are its own
    ensemble = models.Ensemble([model, network()])
    assert ensemble.networks == ensemble.cached_predictors == ensemble.members


def test_the_member_settings_tells_draws_apart():
    model = network()
    keys = {
        repr(made.member_settings)
        for made in (
            model,
            network(models.S2DClassifier),
            models.MonteCarloDropout(model, 2),
            models.MonteCarloDropout(model, 3),
            models.SWAG(model, 2),
            models.SWAG(model, 2, seed=1),
        )
    }
    assert len(keys) == 6
    assert model.member_settings == network().member_settings


@pytest.mark.parametrize("cls", [models.Classifier, models.S2DClassifier])
def test_features_and_the_last_layer_give_the_logits(cls):
    model = network(cls)
    features = model.features(IMAGES)
    assert features.shape == (5, 4)
    kernel, bias = model.last_layer.kernel[0], model.last_layer.bias[0]
    np.testing.assert_allclose(features @ kernel + bias, model(IMAGES), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["dropout", "swag", "ensemble"])
def test_predictors_of_several_networks_name_where_their_features_are(name):
    model = PREDICTORS[name][0]()
    inside = "members" if name == "ensemble" else "model"
    with pytest.raises(ValueError, match=f"features: expected a single network.*`{inside}`"):
        model.features(IMAGES)
    with pytest.raises(ValueError, match=f"last_layer: expected a single network.*`{inside}`"):
        model.last_layer  # noqa: B018
    assert getattr(model, inside)


def test_names_of_the_classes_reach_the_predictors_that_are_made_of_a_model():
    model = network()
    model.class_names = ["a", "b", "c"]
    for made in (models.MonteCarloDropout(model), models.SWAG(model), models.Ensemble([model])):
        assert made.class_names == ["a", "b", "c"]


@pytest.fixture(scope="module")
def backbone():
    return backbones.fast_resnet(input_shape=(16, 16, 3), width=0.125, seed=0)


class TestUnfittedStem:
    IMAGES = np.random.default_rng(1).integers(0, 256, [12, 16, 16, 3]).astype(np.uint8)
    LABELS = np.arange(12) % CLASSES

    def model(self, backbone):
        stems = [layer for layer in backbone.layers if hasattr(layer, "fitted")]
        for stem in stems:
            stem.kernel.assign(tf.zeros_like(stem.kernel))
        model = models.Classifier(backbone, CLASSES, mean=[120.0] * 3, stddev=[60.0] * 3, seed=0)
        assert [stem.fitted for stem in stems] == [False]
        return model, stems[0]

    def test_prediction_and_export_say_what_to_do(self, backbone, tmp_path):
        from s2d_tf import export

        model, _ = self.model(backbone)
        message = r"not fitted\. Call model\.adapt\(images\), fit the model, or load weights"
        for predictor in (model, models.Ensemble([model])):
            with pytest.raises(ValueError, match=message):
                predictor.predict_members(self.IMAGES)
            with pytest.raises(ValueError, match=message):
                predictor.predict_uncertainty(self.IMAGES)
            with pytest.raises(ValueError, match=message):
                export.save(predictor, tmp_path / "model")
        model.adapt(self.IMAGES)
        assert model.predict_uncertainty(self.IMAGES)["total"].shape == (12,)

    @pytest.mark.parametrize("form", ["arrays", "dataset"])
    def test_fit_adapts_it_to_the_first_images(self, backbone, form, monkeypatch):
        model, stem = self.model(backbone)
        model.adapt(self.IMAGES)
        expected = stem.kernel.numpy()
        model, stem = self.model(backbone)
        trained = []
        monkeypatch.setattr(keras.Model, "fit", lambda self, x, y, **_: trained.append(x))
        if form == "arrays":
            model.fit(self.IMAGES, self.LABELS)
        else:
            data = tf.data.Dataset.from_tensor_slices((self.IMAGES, self.LABELS))
            model.fit(data.batch(5))
        assert len(trained) == 1
        np.testing.assert_allclose(stem.kernel, expected, atol=1e-6)

    def test_fit_of_what_it_cannot_look_into_says_what_to_do(self, backbone):
        model, _ = self.model(backbone)
        with pytest.raises(ValueError, match=r"Call model\.adapt"):
            model.fit(each for each in [(self.IMAGES, self.LABELS)])
