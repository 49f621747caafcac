"""Training pipelines: the order of examples, what a resumed run sees, shapes."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data
from tests.data import numbered
from tests.data.numbered import AUGMENTED, BATCH, COUNT, EPOCHS, GROWING, STEPS

ALTERNATING = {"augmentation": "alternating_mirror_shift"}
GOLDEN_INDEX = [12, 20, 5, 8, 14, 19, 10, 21]
GOLDEN_SUMS = [7518, 7924, 7987, 9706, 8318, 8033, 5537, 9355]


def _index(batches):
    return np.concatenate([target["index"] for _, target in batches])


class TestOrder:
    def test_an_epoch_visits_images_once_and_epochs_differ(self):
        index = _index(numbered.batches()).reshape(EPOCHS, STEPS * BATCH)
        for epoch in index:
            assert len(set(epoch)) == STEPS * BATCH
            assert not np.array_equal(epoch, np.sort(epoch))
        assert not np.array_equal(index[0], index[1])

    def test_the_seed_decides(self):
        first = numbered.batches(**AUGMENTED)
        numbered.assert_same(first, numbered.batches(**AUGMENTED))
        assert not np.array_equal(_index(first), _index(numbered.batches(seed=12, **AUGMENTED)))
        for seed in (0, -1, 2**40 + 7):
            assert len(set(_index(numbered.batches(seed=seed, epochs=1)))) == STEPS * BATCH

    def test_the_order_does_not_depend_on_the_batch_size(self):
        small = _index(numbered.batches(batch_size=4, epochs=1))
        large = _index(numbered.batches(batch_size=21, epochs=1))
        np.testing.assert_array_equal(small, large)

    def test_the_stream_is_the_one_of_the_first_release(self):
        """A change here breaks the resumption of runs that were started before it."""
        images, labels = numbered.examples(24)
        batch = numbered.batches(images, labels, seed=0, batch_size=8, epochs=2, **AUGMENTED)[3]
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
        whole = numbered.batches(**options)
        for start in starts:
            resumed = numbered.train(start_step=start, **options)
            assert len(resumed) == len(whole) - start
            numbered.assert_same(numbered.numpy(resumed), whole[start:])


class TestShape:
    def test_spec_options_and_length(self):
        dataset = numbered.train(with_index=False)
        images, labels = dataset.element_spec
        assert images == tf.TensorSpec([BATCH, 8, 8, 1], tf.uint8)
        assert labels == tf.TensorSpec([BATCH], tf.int64)
        assert len(dataset) == EPOCHS * data.steps_per_epoch(COUNT, BATCH)
        options = dataset.options()
        assert options.deterministic
        policy = options.experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.DATA

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"batch_size": 85}, "batch_size: expected 1 to 84, all images, received 85"),
            ({"start_step": 31}, "start_step: expected 0 to 30, received 31"),
            ({"epochs": 0}, "epochs: expected at least 1"),
            ({"augmentation": "flip"}, "augmentation: expected None or mirror_shift"),
            ({"augmentation": "mirror_shift"}, "padding: expected one of mean, reflect, .* None"),
            (AUGMENTED | {"padding": "zero"}, "padding: expected one of mean, reflect"),
            (AUGMENTED | {"padding": "mean"}, "mean: expected a value in .* for each of 1"),
            (AUGMENTED | {"padding": "mean", "mean": (1.0, 2.0)}, "for each of 1"),
            (GROWING | {"resolutions": (0.5,)}, "resolution_milestones: expected as many"),
            (GROWING | {"resolutions": (0.5, 1.5)}, "resolution_milestones:"),
            (GROWING | {"resolution_milestones": (0.5, 0.4)}, "resolution_milestones:"),
            ({"images": np.zeros([84, 8, 8, 1])}, r"images: expected .*uint8 .* received float64"),
            ({"labels": np.zeros(83, int)}, r"labels: expected integers \[84\], .*\[83\]"),
            (AUGMENTED | {"max_shift": 8}, "max_shift: expected 0 to 7, received 8"),
        ],
    )
    def test_bad_arguments(self, options, message):
        with pytest.raises(ValueError, match=message):
            numbered.train(**options)


@pytest.mark.parametrize("options", [{}, {"num_heads": 2}])
def test_two_replicas_share_the_batches_of_one(two_replicas, options):
    dataset = numbered.train(start_step=4, **AUGMENTED, **options)
    expected = [tf.nest.flatten(batch) for batch in numbered.numpy(dataset)]
    received = []
    for parts in two_replicas.experimental_distribute_dataset(dataset):
        local = map(two_replicas.experimental_local_results, tf.nest.flatten(parts))
        received.append([np.concatenate([piece.numpy() for piece in pieces]) for pieces in local])
    numbered.assert_same(received, expected)
