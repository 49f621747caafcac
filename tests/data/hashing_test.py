import hashlib
import time

import numpy as np
import pytest

from s2d_tf import data


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
    seen = {data.fingerprint(images, labels)}
    pixel = images.copy()
    pixel[7, 1, 2, 0] ^= 1
    seen.add(data.fingerprint(pixel, labels))
    label = labels.copy()
    label[7] += 1
    seen.add(data.fingerprint(images, label))
    swapped = labels.copy()
    swapped[[0, 1]] = [labels[0] + 1, labels[0]]
    seen.add(data.fingerprint(images, swapped))
    seen.add(data.fingerprint(images[:-1], labels[:-1]))
    seen.add(data.fingerprint(np.concatenate([images, images[:1]]), np.append(labels, labels[0])))
    seen.add(data.fingerprint(images.reshape(-1, 5, 4, 3), labels))
    assert len(seen) == 7


def test_refuses_what_is_not_a_dataset():
    images, labels = _examples()
    with pytest.raises(ValueError, match="uint8 images or texts and as many labels"):
        data.fingerprint(images.astype(np.float32), labels)
    with pytest.raises(ValueError, match="uint8 images or texts and as many labels"):
        data.fingerprint(images, labels[:-1])


def test_speed_is_enough_for_a_whole_dataset():
    images = np.zeros([6_000, 32, 32, 3], np.uint8)
    start = time.perf_counter()
    data.fingerprint(images, np.zeros(6_000, np.int64))
    # A tenth of CIFAR-100. A few milliseconds a hundred images; the bound is for busy machines.
    assert time.perf_counter() - start < 3
