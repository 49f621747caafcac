"""The corruptions of CIFAR-100-C: their contract, their errors, and spatter's distances."""

import itertools

import numpy as np
import pytest

from s2d_tf import data
from s2d_tf.trainers.datasets import SEVERITIES, filters
from s2d_tf.trainers.datasets.corruptions import CORRUPTIONS, corrupt

NAMES = sorted(CORRUPTIONS)
# Mean squared errors of the images below. A formula that changes them needs a new
# `cifar100_c.VERSION`, or old and new files would be taken for each other.
ERRORS = {
    "brightness": (107.4, 451.2, 1023, 1799, 3799),
    "contrast": (133.4, 532.7, 766.9, 1044, 1539),
    "defocus_blur": (7.573, 45.13, 98.76, 190.4, 298.3),
    "elastic_transform": (1028, 965.7, 782.9, 622.1, 480.4),
    "fog": (180.6, 644.3, 1225, 1643, 2030),
    "gaussian_blur": (6.972, 92.92, 141.4, 183.6, 254),
    "gaussian_noise": (101.7, 224.5, 390.6, 486.6, 597.1),
    "glass_blur": (527, 509.1, 411.2, 860.1, 740.5),
    "impulse_noise": (213.9, 407.5, 628.8, 1068, 1465),
    "jpeg_compression": (86.06, 134.8, 153, 172.1, 196.6),
    "motion_blur": (123.7, 230, 329.8, 330.4, 435.6),
    "pixelate": (49.74, 87.6, 96.05, 151.3, 249.7),
    "saturate": (382.8, 636.4, 165.1, 638.7, 1124),
    "shot_noise": (46.09, 90.97, 224.3, 300.2, 442.6),
    "snow": (176.8, 708.5, 1055, 1746, 3209),
    "spatter": (69.57, 179, 369.3, 166.7, 320.5),
    "speckle_noise": (42.01, 115.1, 166.2, 282.3, 429.1),
    "zoom_blur": (179.8, 256.7, 330.1, 416.7, 490.1),
}


@pytest.fixture(scope="module")
def corrupted(images):
    """Every condition of 24 images, computed once."""
    chosen = images[:24]
    return chosen, {
        (name, severity): corrupt(chosen, name, severity)
        for name in NAMES
        for severity in SEVERITIES
    }


class TestContract:
    def test_every_published_corruption_but_frost(self):
        published = data.info("cifar100_c").conditions
        generated = data.info("cifar100_c_generated").conditions
        assert (len(published), len(generated)) == (95, 90)
        assert {name.rpartition("_")[0] for name in published} == {*NAMES, "frost"}
        assert {name.rpartition("_")[0] for name in generated} == set(NAMES)

    @pytest.mark.parametrize("name", NAMES)
    def test_an_image_does_not_depend_on_its_batch(self, corrupted, name):
        clean, results = corrupted
        for severity in (2, 5):
            whole = results[name, severity]
            parts = [
                corrupt(clean[first:last], name, severity, first_index=first)
                for first, last in ((0, 1), (1, 8), (8, 24))
            ]
            np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert not np.array_equal(*corrupt(clean[[0, 0]], "gaussian_noise", 3))
        seeds = [corrupt(clean[:1], "gaussian_noise", 3, seed=seed) for seed in (0, 1)]
        assert not np.array_equal(*seeds)

    @pytest.mark.parametrize("level", [0, 255])
    def test_flat_images(self, level):
        flat = np.full([2, 32, 32, 3], level, np.uint8)
        for name, severity in itertools.product(NAMES, SEVERITIES):
            with np.errstate(all="raise", under="ignore"):
                assert corrupt(flat, name, severity).shape == flat.shape

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"images": np.zeros([1, 28, 28, 3], np.uint8)}, r"images: expected uint8 \[n, 32.*28"),
            ({"corruption": "frost"}, r"corruption: expected one of .* received 'frost' and 1"),
            ({"severity": 2.5}, r"a severity from 1 to 5, received 'fog' and 2\.5"),
        ],
    )
    def test_errors(self, change, message):
        arguments = {
            "images": np.zeros([1, 32, 32, 3], np.uint8),
            "corruption": "fog",
            "severity": 1,
        }
        with pytest.raises(ValueError, match=message):
            corrupt(**{**arguments, **change})


@pytest.mark.parametrize("name", NAMES)
def test_the_formulas_do_not_change(corrupted, name):
    clean, results = corrupted
    errors = [results[name, severity].astype(float) - clean for severity in SEVERITIES]
    squares = [np.mean(each**2) for each in errors]
    np.testing.assert_allclose(squares, ERRORS[name], rtol=0.01)


def test_the_chamfer_distance():
    """Behind the water drops of `spatter`; of one edge pixel it has a closed form."""
    edge = np.zeros([1, 32, 32], bool)
    edge[0, 20, 4] = True
    rows, columns = np.abs(np.indices((32, 32)) - np.array([20, 4]).reshape(2, 1, 1))
    long, short = np.maximum(rows, columns), np.minimum(rows, columns)
    expected = np.where(
        long >= 2 * short,
        (long - 2 * short) + 2.1969 * short,
        1.4 * (2 * short - long) + 2.1969 * (long - short),
    )
    np.testing.assert_allclose(filters.edge_distance(edge)[0], expected, atol=1e-3)
    both = np.concatenate([edge, np.roll(edge, 7, axis=2)])
    either = filters.edge_distance(both.any(axis=0, keepdims=True))
    np.testing.assert_array_equal(either[0], filters.edge_distance(both).min(axis=0))
    assert filters.edge_distance(np.zeros([1, 32, 32], bool)).min() > 1_000
