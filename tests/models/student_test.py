"""Students of ensembles: objectives, online and cached targets, H2D-Gauss at prediction."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from s2d_tf import losses, models
from tests import contracts
from tests.models.tiny import CLASSES, IMAGES, LABELS, backbone

TEACHER_LOGITS = np.random.default_rng(1).normal(1, 1.5, [12, 4, CLASSES]).astype(np.float32)
TARGETS = {"labels": LABELS, "teacher_logits": TEACHER_LOGITS}

OBJECTIVES = {
    "end": lambda: losses.SoftCrossEntropy(2.0),
    "en2d": lambda: losses.DirichletNegativeLogLikelihood(),
    "h2d_dir": lambda: losses.DirichletKLDivergence(),
    "h2d_gauss": lambda: losses.NormalKLDivergence(),
    "h2d": lambda: losses.WithSoftCrossEntropy(losses.DirichletFisherDistance(), 0.1),
    "plain_dir": lambda: losses.DirichletFisherDistance("categorical"),
}
GAUSSIAN = {"h2d_gauss"}


def student(objective, **kwargs):
    if isinstance(objective, str):
        objective = OBJECTIVES[objective]()
    kwargs = {"mean": [128.0], "stddev": [64.0], "seed": 0, **kwargs}
    model = models.Student(backbone(), CLASSES, objective, **kwargs)
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), run_eagerly=True)
    return model


def teachers(kind=models.S2DClassifier):
    common = {"mean": [128.0], "stddev": [64.0]}
    return models.Ensemble([kind(backbone(seed=i), CLASSES, seed=i, **common) for i in range(3)])


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_loss_is_the_objective_plus_decay_and_ignores_labels(name):
    model = student(name, weight_decay=0.2)
    outputs = model(IMAGES, training=True)
    flat = outputs
    if name in GAUSSIAN:
        assert set(outputs) == {"loc", "log_scale"}
        flat = np.concatenate([outputs["loc"], outputs["log_scale"]], axis=-1)
    expected = OBJECTIVES[name]()(TEACHER_LOGITS, flat)
    decay = 0.1 * sum((v.numpy() ** 2).sum() for v in model.trainable_variables)
    found = model.compute_loss(IMAGES, TARGETS, outputs)
    np.testing.assert_allclose(found, expected + decay, rtol=1e-5)
    other = model.compute_loss(IMAGES, {**TARGETS, "labels": LABELS[::-1]}, outputs)
    np.testing.assert_array_equal(found, other)


@pytest.mark.parametrize("name", ["end", "h2d_gauss"])
def test_evaluate_takes_labels_or_targets(name):
    model = student(name)
    expected = model.evaluate(IMAGES, LABELS, verbose=0, return_dict=True)
    assert set(expected) == {"loss", "accuracy"}
    logits = (model(IMAGES)["loc"] if name in GAUSSIAN else model(IMAGES)).numpy()
    nll = -scipy.special.log_softmax(logits, axis=-1)[np.arange(12), LABELS].mean()
    np.testing.assert_allclose(expected["loss"], nll, rtol=1e-5)
    dataset = tf.data.Dataset.from_tensor_slices((IMAGES, TARGETS)).batch(12)
    assert model.evaluate(dataset, verbose=0, return_dict=True) == pytest.approx(expected)


def test_targets_that_the_teacher_makes_equal_cached_ones():
    ensemble = teachers()
    _, members = ensemble.predict_members(IMAGES)
    cached = {"labels": LABELS, "teacher_logits": members.transpose(1, 0, 2)}
    settings = {"epochs": 2, "batch_size": 12, "shuffle": False, "verbose": 0}
    offline, online = student("h2d_gauss"), student("h2d_gauss").learn_from(ensemble)
    expected = offline.fit(IMAGES, cached, **settings).history
    found = online.fit(IMAGES, LABELS, **settings).history
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    contracts.assert_same(online.get_weights(), offline.get_weights(), atol=1e-6)


def test_the_teacher_warms_the_student_and_is_no_part_of_it(tmp_path):
    ensemble = teachers()
    alone, taught = student("h2d_dir"), student("h2d_dir").learn_from(ensemble)
    taught.warm_start(ensemble.members[2])
    np.testing.assert_array_equal(taught(IMAGES), ensemble.members[2](IMAGES))
    before = [w.copy() for w in ensemble.get_weights()]
    assert taught.count_params() == alone.count_params()
    assert len(taught.variables) == len(alone.variables)
    taught.fit(IMAGES, LABELS, batch_size=6, verbose=0)
    contracts.assert_same(ensemble.get_weights(), before)
    taught.save_weights(tmp_path / "taught.weights.h5")
    alone.load_weights(tmp_path / "taught.weights.h5")
    np.testing.assert_array_equal(alone(IMAGES), taught(IMAGES))


def test_independent_draws_are_those_of_published_entries():
    """Their golden predictions hang on these very numbers."""
    model = student("h2d_gauss", initial_scale=0.05)
    outputs = {key: value.numpy() for key, value in model(IMAGES).items()}
    np.testing.assert_allclose(outputs["log_scale"], np.full([12, CLASSES], np.log(0.05)))
    noise = tf.random.stateless_normal([50, 1, CLASSES], (2022, 0))
    expected = outputs["loc"] + np.exp(outputs["log_scale"]) * noise
    np.testing.assert_allclose(model.predict_members(IMAGES)[1], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["end", "h2d_gauss", "h2d"])
def test_config_round_trip(name):
    model = student(name, num_draws=7, initial_scale=0.2, weight_decay=1e-3)
    twin = contracts.run_saving_test(model, IMAGES)
    assert twin.objective.get_config() == model.objective.get_config()
    assert (twin.num_draws, twin.initial_scale) == (7, 0.2)
    models.Student.from_config({**model.get_config(), "draws": "independent"})  # of version 0.1
    with pytest.raises(ValueError, match="draws"):
        models.Student.from_config({**model.get_config(), "draws": "mean"})


def test_missing_teacher_is_refused():
    with pytest.raises(ValueError, match=r"call learn_from\(teacher\) first"):
        student("end").fit(IMAGES, LABELS)


def test_bad_teachers_are_refused():
    categorical = teachers(models.Classifier)
    for name in ("end", "en2d", "plain_dir"):
        student(name).learn_from(categorical)
    for name, teacher, message in (
        ("h2d_dir", categorical, "expected kind 'dirichlet'"),
        ("h2d_gauss", categorical, "expected kind 'dirichlet'"),
        ("plain_dir", teachers(), "expected kind 'categorical'"),
        ("end", models.Classifier(backbone(), 4), "expected num_classes 3, .* received 4"),
    ):
        with pytest.raises(ValueError, match=f"teacher: {message}"):
            student(name).learn_from(teacher)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"objective": "kl"}, r"objective: expected a losses.DistillationLoss"),
        ({"num_draws": 0}, "num_draws: expected at least 1"),
        ({"initial_scale": 0.0}, "initial_scale: expected a number above 0"),
        ({"backbone": backbone(2), "num_heads": 2}, "num_heads: expected 1 for a student"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    usual = {"backbone": backbone(), "objective": losses.NormalKLDivergence()}
    with pytest.raises(ValueError, match=message):
        models.Student(num_classes=CLASSES, **{**usual, **arguments})


@pytest.mark.parametrize("shape", [[12, CLASSES], [12, 4, CLASSES + 1]])
def test_bad_teacher_logits_are_refused(shape):
    targets = {"labels": LABELS, "teacher_logits": np.zeros(shape, np.float32)}
    with pytest.raises(ValueError, match=r"expected the shape \[batch, members, 3\]") as error:
        student("end").fit(IMAGES, targets, verbose=0)
    assert "\n" not in str(error.value)
