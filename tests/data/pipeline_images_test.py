"""What a training pipeline does to images: augmentation, sizes, and pairs for several heads."""

import itertools

import numpy as np
import pytest

from s2d_tf.data.pipelines import shifted_views
from tests.data import numbered
from tests.data.numbered import AUGMENTED, BATCH, EPOCHS, GROWING, STEPS


def _one_at_a_time(images, index, shift, mirror, padding, mean=None):
    """The same by NumPy: pad, cut the window out, mirror."""
    pad = 4
    out = []
    for i, (row, column), flip in zip(index, shift, mirror, strict=True):
        image = images[i].astype(np.int64)
        if padding == "reflect":
            image = np.pad(image, [(pad, pad), (pad, pad), (0, 0)], mode="reflect")
        else:
            canvas = np.empty([image.shape[0] + 2 * pad, image.shape[1] + 2 * pad, image.shape[2]])
            canvas[:] = np.rint(mean)
            canvas[pad:-pad, pad:-pad] = image
            image = canvas
        height, width = images.shape[1:3]
        window = image[pad + row : pad + row + height, pad + column : pad + column + width]
        out.append(window[:, ::-1] if flip else window)
    return np.stack(out).astype(np.uint8)


@pytest.mark.parametrize("padding", ["reflect", "mean"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_view_is_that_of_numpy(padding, channels):
    shape = [6, 7, 9, channels]
    images = np.random.RandomState(0).randint(0, 256, size=shape).astype(np.uint8)
    mean = np.array([129.3, 124.1, 112.4])[:channels]
    gather = shifted_views(images, padding, mean)
    views = list(itertools.product(range(-4, 5), range(-4, 5), (False, True)))
    index = np.arange(len(views)) % len(images)
    shift = np.array([view[:2] for view in views], np.int32)
    mirror = np.array([view[2] for view in views])
    received = gather(index, shift, mirror).numpy()
    assert received.dtype == np.uint8
    expected = _one_at_a_time(images, index, shift, mirror, padding, mean)
    np.testing.assert_array_equal(received, expected)


class TestAugmentation:
    def _views(self, **options):
        """Image by (epoch, index)."""
        views = {}
        batches = numbered.batches(**AUGMENTED, **options)
        steps = len(batches) // EPOCHS
        for step, (images, target) in enumerate(batches):
            for image, index in zip(images, target["index"], strict=True):
                views[step // steps, index] = image
        return views

    def test_a_view_is_a_function_of_seed_epoch_and_index(self):
        small, large = self._views(batch_size=7), self._views(batch_size=42)
        assert small.keys() == large.keys()
        assert all(np.array_equal(small[key], large[key]) for key in small)

    def test_all_views_are_equally_likely(self):
        """Shifts and mirroring from the pictures themselves, against the uniform distribution."""
        count, side, reach = 6_000, 9, 2
        # One bright row and one brighter column half: position gives shift, asymmetry the mirror.
        image = np.zeros([side, side, 1], np.uint8)
        image[4, 4] = 1
        image[4, 5] = 2
        images = np.broadcast_to(image, [count, side, side, 1])
        options = AUGMENTED | {"padding": "mean", "mean": (0,), "max_shift": reach}
        labels = np.zeros(count, int)
        batch, _ = numbered.batches(images, labels, batch_size=count, epochs=1, **options)[0]
        flat = batch.reshape(count, -1)
        one, two = np.argmax(flat == 1, axis=-1), np.argmax(flat == 2, axis=-1)
        row, column, mirrored = one // side, one % side, two < one
        assert 0.48 < np.mean(mirrored) < 0.52
        for place in (row, column):
            counts = np.bincount(place, minlength=side)[4 - reach : 4 + reach + 1]
            assert counts.sum() == count
            # Standard deviation of each count: 31.
            np.testing.assert_allclose(counts, count / (2 * reach + 1), atol=130)
        assert abs(np.corrcoef(row, column)[0, 1]) < 0.05
        assert abs(np.corrcoef(row, mirrored)[0, 1]) < 0.05

    def test_alternating_mirrors_show_each_image_both_ways_in_turn(self):
        images, labels = numbered.examples()
        options = {"augmentation": "alternating_mirror_shift", "padding": "mean", "mean": (0,)}
        batches = numbered.batches(images, labels, max_shift=0, epochs=4, **options)
        mirrored = {}
        for batch, target in batches:
            for image, index in zip(batch, target["index"], strict=True):
                is_plain = np.array_equal(image, images[index])
                assert is_plain or np.array_equal(image, images[index][:, ::-1])
                mirrored.setdefault(index, []).append(not is_plain)
        whole = [seen for seen in mirrored.values() if len(seen) == 4]
        assert all(seen in ([False, True] * 2, [True, False] * 2) for seen in whole)
        first = [seen[0] for seen in whole]
        assert 0.25 < np.mean(first) < 0.75, "images begin with either view"


class TestResolutions:
    def test_sizes_follow_the_steps_of_the_whole_run(self):
        total = EPOCHS * STEPS
        batches = numbered.batches(**GROWING)
        ends = [round(milestone * total) for milestone in GROWING["resolution_milestones"]]
        expected = [4] * ends[0] + [6] * (ends[1] - ends[0]) + [8] * (total - ends[1])
        assert [batch.shape[1:3] for batch, _ in batches] == [(side, side) for side in expected]
        numbered.assert_same(batches[ends[1] :], numbered.batches()[ends[1] :])

    def test_only_the_size_changes(self):
        images, _ = numbered.examples()
        for batch, target in numbered.batches(**GROWING)[:8]:
            expected = _resized(images[target["index"]], batch.shape[1])
            np.testing.assert_allclose(batch, expected, atol=0.501)


def _resized(images, side):
    """An antialiased resize in NumPy: each output is a triangle-weighted mean of the inputs."""
    scale = images.shape[1] / side
    places, centers = np.arange(images.shape[1]) + 0.5, (np.arange(side) + 0.5) * scale
    weights = np.maximum(0.0, 1.0 - np.abs(places - centers[:, None]) / scale)
    weights /= weights.sum(axis=1, keepdims=True)
    return np.einsum("rh,nhwc,sw->nrsc", weights, images.astype(float), weights)


@pytest.fixture(scope="module")
def paired():
    return numbered.batches(num_heads=3)


class TestHeads:
    def test_pairs_hold_each_image_once_per_head(self, paired):
        images, labels = numbered.examples()
        plain = numbered.batches()
        for (x, target), (heads_x, heads_target) in zip(plain, paired, strict=True):
            assert heads_x.shape == (BATCH, 3, 8, 8, 1)
            np.testing.assert_array_equal(heads_x[:, 0], x)
            np.testing.assert_array_equal(heads_target["index"][:, 0], target["index"])
            for head in range(3):
                index = heads_target["index"][:, head]
                assert set(index) == set(target["index"])
                np.testing.assert_array_equal(heads_x[:, head], images[index])
                np.testing.assert_array_equal(heads_target["labels"][:, head], labels[index])

    def test_pairings_differ_from_step_to_step_and_head_to_head(self, paired):
        orders = set()
        for _, target in paired:
            position = {index: place for place, index in enumerate(target["index"][:, 0])}
            for head in (1, 2):
                orders.add(tuple(position[index] for index in target["index"][:, head]))
        # 60 draws of 40,320 permutations: rarely two alike.
        assert len(orders) >= 2 * len(paired) - 2

    def test_an_augmented_image_is_the_same_in_every_head(self):
        for x, target in numbered.batches(num_heads=2, **AUGMENTED):
            by_index = dict(zip(target["index"][:, 0], x[:, 0], strict=True))
            for image, index in zip(x[:, 1], target["index"][:, 1], strict=True):
                np.testing.assert_array_equal(image, by_index[index])
