"""Fingerprints, also those of the digits, and the splits that hashes choose."""

import hashlib

import numpy as np
import pytest
from sklearn import datasets

from s2d_tf import data
from s2d_tf.data.hashing import smallest_hashes


def _examples(count=50):
    random = np.random.RandomState(3)
    images = random.randint(0, 256, size=[count, 4, 5, 3]).astype(np.uint8)
    return images, random.randint(-1, 9, size=count)


def test_definition():
    images, labels = _examples(3)
    digests = [
        hashlib.sha256(int(n).to_bytes(8, "little", signed=True) + i.tobytes()).digest()
        for i, n in zip(images, labels, strict=True)
    ]
    expected = hashlib.sha256(b"(3, 4, 5, 3)" + b"".join(sorted(digests))).hexdigest()
    assert data.fingerprint(images, labels) == expected


def test_order_and_layout_do_not_count():
    images, labels = _examples()
    order = np.random.RandomState(0).permutation(len(labels))
    expected = data.fingerprint(images, labels)
    assert data.fingerprint(images[order], labels[order].astype(np.int32)) == expected
    assert data.fingerprint(np.asfortranarray(images), labels) == expected


def test_everything_else_counts():
    images, labels = _examples()
    pixel, label = images.copy(), labels.copy()
    pixel[7, 1, 2, 0] ^= 1
    label[7] += 1
    changed = [
        (images, labels),
        (pixel, labels),
        (images, label),
        (images[:-1], labels[:-1]),
        (np.concatenate([images, images[:1]]), np.append(labels, labels[0])),
        (images.reshape(-1, 5, 4, 3), labels),
    ]
    assert len({data.fingerprint(*each) for each in changed}) == len(changed)


def test_several_inputs_count_with_their_places():
    images, labels = _examples()
    inputs = {"pixels": images, "more": [labels, labels * 0.5]}
    content = data.Content()
    for part in (slice(20), slice(20, None)):
        batch = {"pixels": images[part], "more": [labels[part], labels[part] * 0.5]}
        content.update(batch, labels[part])
    assert content.fingerprint == data.fingerprint(inputs, labels)
    np.testing.assert_array_equal(content.labels, labels)
    moved = {"pixels": images, "more": [labels * 0.5, labels]}
    assert data.fingerprint(moved, labels) != content.fingerprint


def test_a_split_is_a_rounded_share_of_each_class_in_any_order():
    labels = np.array([0] * 14 + [1] * 16 + [2] * 4)
    rows = [bytes([number]) for number in range(len(labels))]
    mask = smallest_hashes(rows, labels, 0.1)
    assert np.bincount(labels[mask]).tolist() == [1, 2]
    order = np.random.RandomState(1).permutation(len(labels))
    again = smallest_hashes([rows[i] for i in order], labels[order], 0.1)
    assert set(order[again]) == set(np.flatnonzero(mask))


# What every model of the digits family in the zoo was trained and measured on.
FINGERPRINTS = {
    ("digits", "train"): "b3bb05e66d22590053bb22b4fa0f870515e7b0f81ddcfd3aeea52d0c10b2ee97",
    ("digits", "test"): "e41aedb165078c5afa2bf60f0204a8abb4a76afe462d5df40bd23421b36fc9a3",
    ("digits", "validation"): "710f2a9a5cde4a1652c3a19b08fe1e3bb98154d1b57280c0a3612892d58a92b7",
    ("digits_heldout", "test"): "91cccdda63e6c76a925b5ee1beaea36fdff3012e43afa58ba5685c24029a0e1c",
    ("digits_photos", "test"): "85f4c2ae5444c9d16fdc88c2d3ba958f40b5b5880d018b5d2eb0c6141ed7c33b",
}


@pytest.mark.parametrize(("name", "split"), FINGERPRINTS)
def test_the_digits_never_change(name, split):
    assert data.fingerprint(*data.load_arrays(name, split)) == FINGERPRINTS[name, split]


def test_validation_and_the_rest_make_up_train():
    def rows(split):
        images, labels = data.load_arrays("digits", split)
        return sorted((i.tobytes(), n) for i, n in zip(images, labels, strict=True))

    assert sorted(rows("validation") + rows("train_without_validation")) == rows("train")
    assert np.bincount(data.load_arrays("digits", "validation")[1]).tolist() == [2] * 8


def test_the_three_parts_are_all_of_scikit_learns_digits():
    """Every original digit lands in exactly one of train, test and held out, with its label."""
    original = datasets.load_digits()
    expected = sorted(
        (np.rint(image * 255 / 16).astype(np.uint8).tobytes(), label)
        for image, label in zip(original.images, original.target, strict=True)
    )
    received = []
    for name, split, offset in (
        ("digits", "train", 0),
        ("digits", "test", 0),
        ("digits_heldout", "test", 8),
    ):
        images, labels = data.load_arrays(name, split)
        received += [(i.tobytes(), n + offset) for i, n in zip(images, labels, strict=True)]
    assert sorted(received) == expected
    assert data.load_arrays("digits", "train")[0].max() == 255
