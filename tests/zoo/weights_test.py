"""Weights files: what is in them, and that they give back what was saved or nothing at all."""

import errno
import resource

import numpy as np
import pytest

from s2d_tf import backbones, files, losses, models
from s2d_tf.zoo import weights
from tests import contracts


def backbone(seed=0, dropout=0.1):
    return backbones.wide_resnet((8, 8, 1), depth=10, width=1, dropout=dropout, seed=seed)


def classifier(seed=0):
    return models.S2DClassifier(backbone(seed), 4, seed=seed)


def swag(seed=0):
    predictor = models.SWAG(models.Classifier(backbone(seed), 4, seed=seed), num_samples=2)
    rng = np.random.default_rng(seed)
    for weight in [*predictor.stddev, *predictor.statistics]:
        weight.assign(rng.random(weight.shape))
    return predictor


def gaussian(seed=0):
    return models.Student(backbone(seed), 4, losses.NormalKLDivergence(), seed=seed)


def values(model):
    return [weight.numpy().copy() for weight in model.weights]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = classifier()
    path = tmp_path_factory.mktemp("weights") / "a.safetensors"
    weights.save(model, path)
    return model, path


@pytest.mark.parametrize("make", [classifier, swag, gaussian])
def test_what_was_saved_comes_back_and_no_name_or_byte_depends_on_other_models(make, tmp_path):
    path = tmp_path / "a.safetensors"
    model, other = make(0), make(1)
    weights.save(model, path)
    for known in (files.sha256(path), None):
        for weight in other.weights:
            weight.assign(weight + 1)
        weights.load(other, path, known)
        contracts.assert_same(values(other), values(model))
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 1)).astype(np.float32)
    np.testing.assert_array_equal(other.member_logits(images), model.member_logits(images))
    # Keras has counted the second model and its parts; the file does not.
    assert other.name != model.name
    assert list(weights.by_name(other)) == list(weights.by_name(model))
    weights.save(other, tmp_path / "b.safetensors")
    assert (tmp_path / "b.safetensors").read_bytes() == path.read_bytes()


def test_half_precision_rounds_and_halves_the_file(saved, tmp_path):
    model, path = saved
    half = tmp_path / "half.safetensors"
    weights.save(model, half, half=True)
    other = classifier(1)
    weights.load(other, half)
    for expected, received in zip(values(model), values(other), strict=True):
        assert received.dtype == np.float32
        np.testing.assert_array_equal(received, expected.astype(np.float16).astype(np.float32))
    arrays = 2 * sum(value.size for value in values(model))
    assert path.stat().st_size - half.stat().st_size == pytest.approx(arrays, rel=0.05)


def test_two_weights_of_one_name_are_refused(tmp_path):
    ensemble = models.Ensemble([classifier(0), classifier(1)])
    with pytest.raises(weights.WeightsError, match="weights have different names, received"):
        weights.save(ensemble, tmp_path / "a.safetensors")
    assert not list(tmp_path.iterdir())


def test_what_is_not_finite_is_neither_written_nor_read(saved, tmp_path):
    model, path = classifier(), tmp_path / "a.safetensors"
    model.head.bias.assign([[0.0, 1e5, 0.0, 0.0]])
    with pytest.raises(weights.WeightsError, match=r"head/bias: expected finite .* Half precision"):
        weights.save(model, path, half=True)
    model.head.bias.assign([[0.0, np.nan, 0.0, 0.0]])
    with pytest.raises(weights.WeightsError, match="head/bias: expected finite"):
        weights.save(model, path)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_explained_and_leaves_what_was_there(saved, tmp_path):
    """A write beyond 64 KB of a file fails, as on a full disk or under a quota."""
    path, before = tmp_path / "a.safetensors", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_bytes(b"older")
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))
    try:
        with pytest.raises(files.DiskFullError, match="expected room to write") as stopped:
            weights.save(saved[0], path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert stopped.value.errno == errno.EFBIG
    assert "\n" not in str(stopped.value)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [(path.name, b"older")]
