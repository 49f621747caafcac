"""Fingerprints, and the splits that hashes choose."""

import hashlib

import numpy as np

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
