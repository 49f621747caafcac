"""Settings of a linear head compared on validation data."""

import keras
import numpy as np
import pytest

from s2d_tf import evaluation, models

RANDOM = np.random.default_rng(0)
CENTERS = 3 * RANDOM.normal(size=[3, 4])
LABELS = np.arange(60) % 3
TABLE = (CENTERS[LABELS] + RANDOM.normal(size=[60, 4])).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    x = keras.Input([4])
    source = keras.Model(x, keras.layers.Dense(3)(keras.layers.Dense(6, "tanh")(x)))
    return models.S2DClassifier.from_classifier(source, freeze=True, seed=0)


def test_a_better_setting_is_found_with_numbers_that_are_those_of_the_head(model):
    weights = model.get_weights()
    train, validation = (TABLE[:36], LABELS[:36]), (TABLE[36:], LABELS[36:])
    found = evaluation.tune_head(
        model,
        train,
        validation,
        [{"weight_decay": 1.0}, {"weight_decay": 0.0}],
        num_seeds=2,
        ood={"far": TABLE[:6] + 50},
        optimizer=keras.optimizers.SGD(0.3),
        epochs=4,
        batch_size=36,
        run_eagerly=True,
    )
    best, other = found.trials
    assert (best.settings, found.num_examples, found.num_seeds) == ({"weight_decay": 0.0}, 24, 2)
    assert (best.worse.low, best.worse.high) == (0, 0)
    assert 0 < other.worse.low < other.worse.estimate < other.worse.high
    np.testing.assert_allclose(other.worse.estimate, other.nll.estimate - best.nll.estimate)
    assert best.nll.low < best.nll.estimate < best.nll.high
    assert set(best.auroc) == {"far"}
    for before, after in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)

    losses = []
    for seed in range(2):
        keras.utils.set_random_seed(seed)
        head = model.head_only(fresh=True, seed=seed, weight_decay=0.0)
        head.compile(keras.optimizers.SGD(0.3), run_eagerly=True)
        head.fit(model.predict_features(train[0]), train[1], batch_size=36, epochs=4, verbose=0)
        probs = head.predict_uncertainty(model.predict_features(validation[0]))["probs"]
        losses.append(-np.log(probs[np.arange(24), validation[1]]).mean())
    np.testing.assert_allclose(best.nll.estimate, np.mean(losses), rtol=1e-4)
    np.testing.assert_allclose(best.nll_stddev, np.std(losses, ddof=1), rtol=1e-3, atol=1e-7)

    text = found.markdown()
    assert text.startswith("24 validation examples, 2 seeds, 95% intervals")
    assert text.count("\n") == 5


def test_settings_must_be_comparable(model):
    with pytest.raises(ValueError, match="settings: expected dicts with the same keys"):
        evaluation.tune_head(model, None, None, [{"temperature": 1.0}, {"seed": 1}])
