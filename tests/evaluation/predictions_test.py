"""Cached predictions: equal to fresh ones, found again, and never another model's."""

import numpy as np
import pytest

from s2d_tf import data, losses, models
from s2d_tf.evaluation import predictions

DATASET = "digits_heldout"


@pytest.fixture(scope="module")
def plain(network):
    return network(models.Classifier)


def whole(found):
    return found.rows(0, len(found))


def test_other_weights_and_other_draws_are_other_files(network, tmp_path, passes):
    model = network(models.Classifier, dropout=0.3)
    first = whole(predictions.predict(model, DATASET, cache_dir=tmp_path))
    model.head.set_weights([w + 0.1 * i for i, w in enumerate(model.head.get_weights(), 1)])
    second = whole(predictions.predict(model, DATASET, cache_dir=tmp_path))
    assert len(passes) == len(list(tmp_path.iterdir())) == 2
    assert np.abs(first - second).max() > 0.01
    for draws in (2, 3):
        predictions.predict(models.MonteCarloDropout(model, draws), DATASET, cache_dir=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY and nonsense", None])
def test_a_damaged_file_is_made_again(plain, tmp_path, passes, damage):
    expected = whole(predictions.predict(plain, DATASET, cache_dir=tmp_path))
    (path,) = tmp_path.iterdir()
    if damage is None:  # Another shape, as of a shorter dataset.
        np.save(path, np.zeros((1, 3, 8), np.float32))
    else:
        path.write_bytes(damage)
    found = predictions.predict(plain, DATASET, cache_dir=tmp_path)
    assert len(passes) == 2
    np.testing.assert_array_equal(whole(found), expected)


def test_an_ensemble_and_its_members_share_files(network, tmp_path, passes):
    members = [network(models.Classifier, seed) for seed in range(2)]
    found = predictions.predict(models.Ensemble(members), DATASET, cache_dir=tmp_path)
    assert len(whole(found)) == 2
    for index, member in enumerate(members):
        alone = predictions.predict(member, DATASET, cache_dir=tmp_path)
        np.testing.assert_array_equal(whole(alone)[0], whole(found)[index])
    assert passes == [354, 354]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_gaussian_student_keeps_its_outputs_and_not_its_draws(network, tmp_path):
    model = network(models.Student, objective=losses.NormalKLDivergence(), num_draws=7)
    weights = model.scale_head.get_weights()
    rng = np.random.default_rng(0)
    model.scale_head.set_weights([w + 0.05 * rng.normal(size=w.shape) for w in weights])
    found = predictions.predict(model, DATASET, cache_dir=tmp_path)
    again = predictions.predict(model, DATASET, cache_dir=tmp_path)
    images, _ = data.load_arrays(DATASET, "test")
    _, expected = model.predict_members(images)
    assert len(whole(found)) == 7
    np.testing.assert_allclose(whole(found), expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_array_equal(whole(again), whole(found))
    (path,) = tmp_path.iterdir()
    assert np.load(path).shape == (2, 354, 8)
