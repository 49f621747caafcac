"""Training pipelines: the order of examples, what a resumed run sees, what happens to images."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data
from s2d_tf.data.pipelines import shifted_views

COUNT, BATCH, EPOCHS = 84, 8, 3
STEPS = COUNT // BATCH
AUGMENTED = {"augmentation": "mirror_shift", "padding": "reflect", "max_shift": 3}
GROWING = {"resolutions": (0.5, 0.75), "resolution_milestones": (0.2, 0.5)}
ALTERNATING = {"augmentation": "alternating_mirror_shift"}
GOLDEN_INDEX = [12, 20, 5, 8, 14, 19, 10, 21]
GOLDEN_SUMS = [7518, 7924, 7987, 9706, 8318, 8033, 5537, 9355]


def examples(count=COUNT, channels=1):
    images = np.random.RandomState(5).randint(0, 256, size=[count, 8, 8, channels])
    return images.astype(np.uint8), np.arange(count) % 7


def train(images=None, labels=None, **options):
    images, labels = (
        given if given is not None else own
        for given, own in zip((images, labels), examples(), strict=True)
    )
    options = {"batch_size": BATCH, "seed": 11, "epochs": EPOCHS, "with_index": True} | options
    return data.train_pipeline(images, labels, **options)


def as_numpy(dataset):
    return list(dataset.as_numpy_iterator())


def make_batches(*arrays, **options):
    return as_numpy(train(*arrays, **options))


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, a, b)


def _index(batches):
    return np.concatenate([target["index"] for _, target in batches])


class TestOrder:
    def test_an_epoch_visits_images_once_and_epochs_differ(self):
        index = _index(make_batches()).reshape(EPOCHS, STEPS * BATCH)
        for epoch in index:
            assert len(set(epoch)) == STEPS * BATCH
            assert not np.array_equal(epoch, np.sort(epoch))
        assert not np.array_equal(index[0], index[1])

    def test_the_seed_decides(self):
        first = make_batches(**AUGMENTED)
        assert_same(first, make_batches(**AUGMENTED))
        assert not np.array_equal(_index(first), _index(make_batches(seed=12, **AUGMENTED)))
        for seed in (0, -1, 2**40 + 7):
            assert len(set(_index(make_batches(seed=seed, epochs=1)))) == STEPS * BATCH

    def test_the_stream_is_the_one_of_the_first_release(self):
        """A change here breaks the resumption of runs that were started before it."""
        images, labels = examples(24)
        batch = make_batches(images, labels, seed=0, batch_size=8, epochs=2, **AUGMENTED)[3]
        assert batch[1]["index"].tolist() == GOLDEN_INDEX
        assert batch[0].astype(int).sum(axis=(1, 2, 3)).tolist() == GOLDEN_SUMS


class TestResume:
    @pytest.mark.parametrize(
        ("options", "starts"),
        [
            ({}, (STEPS + 3,)),
            (AUGMENTED | GROWING | ALTERNATING, (3, 2 * STEPS + 5)),
            (AUGMENTED | {"num_heads": 2}, (STEPS, 3 * STEPS - 1, 3 * STEPS)),
        ],
    )
    def test_any_step_of_any_epoch_continues_the_stream(self, options, starts):
        whole = make_batches(**options)
        for start in starts:
            resumed = train(start_step=start, **options)
            assert len(resumed) == len(whole) - start
            assert_same(as_numpy(resumed), whole[start:])


class TestShape:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 85}, "batch_size: expected 1 to 84, all images, received 85"),
            ({"start_step": 31}, "start_step: expected 0 to 30, received 31"),
            ({"epochs": 0}, "epochs: expected at least 1"),
            ({"augmentation": "flip"}, "augmentation: expected None or mirror_shift"),
            (AUGMENTED | {"padding": "zero"}, "padding: expected one of mean, reflect"),
            (AUGMENTED | {"padding": "mean"}, "mean: expected a value in .* for each of 1"),
            (GROWING | {"resolutions": (0.5,)}, "resolution_milestones: expected as many"),
            (GROWING | {"resolution_milestones": (0.5, 0.4)}, "resolution_milestones:"),
            ({"images": np.zeros([84, 8, 8, 1])}, r"images: expected .*uint8 .* received float64"),
            ({"labels": np.zeros(83, int)}, r"labels: expected integers \[84\], .*\[83\]"),
            (AUGMENTED | {"max_shift": 8}, "max_shift: expected 0 to 7, received 8"),
        ],
    )
    def test_bad_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            train(**options)


@pytest.mark.parametrize("options", [{}, {"num_heads": 2}])
def test_two_replicas_share_the_batches_of_one(two_replicas, options):
    dataset = train(start_step=4, **AUGMENTED, **options)
    expected = [tf.nest.flatten(batch) for batch in as_numpy(dataset)]
    received = []
    for parts in two_replicas.experimental_distribute_dataset(dataset):
        local = map(two_replicas.experimental_local_results, tf.nest.flatten(parts))
        received.append([np.concatenate([piece.numpy() for piece in pieces]) for pieces in local])
    assert_same(received, expected)


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
        batches = make_batches(**AUGMENTED, **options)
        steps = len(batches) // EPOCHS
        for step, (images, target) in enumerate(batches):
            for image, index in zip(images, target["index"], strict=True):
                views[step // steps, index] = image
        return views

    def test_a_view_is_a_function_of_seed_epoch_and_index(self):
        small, large = self._views(batch_size=7), self._views(batch_size=42)
        assert small.keys() == large.keys()
        assert all(np.array_equal(small[key], large[key]) for key in small)

    def test_alternating_mirrors_show_each_image_both_ways_in_turn(self):
        images, labels = examples()
        options = {"augmentation": "alternating_mirror_shift", "padding": "mean", "mean": (0,)}
        batches = make_batches(images, labels, max_shift=0, epochs=4, **options)
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
        batches = make_batches(**GROWING)
        ends = [round(milestone * total) for milestone in GROWING["resolution_milestones"]]
        expected = [4] * ends[0] + [6] * (ends[1] - ends[0]) + [8] * (total - ends[1])
        assert [batch.shape[1:3] for batch, _ in batches] == [(side, side) for side in expected]
        assert_same(batches[ends[1] :], make_batches()[ends[1] :])

    def test_only_the_size_changes(self):
        images, _ = examples()
        for batch, target in make_batches(**GROWING)[:8]:
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
    return make_batches(num_heads=3)


class TestHeads:
    def test_pairs_hold_each_image_once_per_head(self, paired):
        images, labels = examples()
        plain = make_batches()
        for (x, target), (heads_x, heads_target) in zip(plain, paired, strict=True):
            assert heads_x.shape == (BATCH, 3, 8, 8, 1)
            np.testing.assert_array_equal(heads_x[:, 0], x)
            np.testing.assert_array_equal(heads_target["index"][:, 0], target["index"])
            for head in range(3):
                index = heads_target["index"][:, head]
                assert set(index) == set(target["index"])
                np.testing.assert_array_equal(heads_x[:, head], images[index])
                np.testing.assert_array_equal(heads_target["labels"][:, head], labels[index])
