import numpy as np
import pytest

from s2d_tf import data
from s2d_tf.data.splits import validation_mask


def _examples(per_class=20, classes=5):
    random = np.random.RandomState(0)
    labels = random.permutation(np.repeat(np.arange(classes), per_class))
    return random.randint(0, 256, size=[len(labels), 4, 4, 1]).astype(np.uint8), labels


def test_a_tenth_of_each_class():
    images, labels = _examples()
    mask = validation_mask(images, labels)
    np.testing.assert_array_equal(np.bincount(labels[mask]), [2] * 5)


def test_uneven_classes_are_rounded():
    labels = np.array([0] * 14 + [1] * 16 + [2] * 4)
    images = np.arange(len(labels), dtype=np.uint8).reshape(-1, 1, 1, 1)
    np.testing.assert_array_equal(np.bincount(labels[validation_mask(images, labels)]), [1, 2])


def test_the_same_images_in_whatever_order_they_are_stored():
    images, labels = _examples()
    order = np.random.RandomState(1).permutation(len(labels))
    chosen = images[validation_mask(images, labels)]
    again = images[order][validation_mask(images[order], labels[order])]
    assert data.fingerprint(chosen, np.zeros(10, int)) == data.fingerprint(again, np.zeros(10, int))
    np.testing.assert_array_equal(validation_mask(images, labels), validation_mask(images, labels))


@pytest.mark.parametrize("name", ["digits"])
def test_validation_and_the_rest_make_up_train(name):
    def rows(split):
        images, labels = data.load_arrays(name, split)
        return sorted((i.tobytes(), n) for i, n in zip(images, labels, strict=True))

    assert sorted(rows("validation") + rows("train_without_validation")) == rows("train")
    assert not set(rows("validation")) & set(rows("train_without_validation"))
    sizes = np.bincount(data.load_arrays(name, "validation")[1])
    np.testing.assert_array_equal(sizes, [2] * 8)


def test_held_out_examples_are_others_than_validation_and_are_not_trained_on():
    images, labels = data.load_arrays("digits", "train")
    (kept, kept_labels), (held, held_labels) = data.hold_out(images, labels, 100)
    assert len(kept) + len(held) == len(images) == len(kept_labels) + len(held_labels)
    assert abs(len(held) - 100) <= 8
    assert np.ptp(np.bincount(held_labels)) <= 2
    pixels = {image.tobytes() for image in held}
    assert not pixels & {image.tobytes() for image in kept}
    validation = {image.tobytes() for image in images[validation_mask(images, labels)]}
    assert not pixels <= validation
    with pytest.raises(ValueError, match="held_out: expected 1 to"):
        data.hold_out(images, labels, len(images))
