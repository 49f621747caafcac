import pathlib

import numpy as np
import pytest
from sklearn import datasets

from s2d_tf import data

# What every model of the digits family in the zoo was trained and measured on.
FINGERPRINTS = {
    ("digits", "train"): "b3bb05e66d22590053bb22b4fa0f870515e7b0f81ddcfd3aeea52d0c10b2ee97",
    ("digits", "test"): "e41aedb165078c5afa2bf60f0204a8abb4a76afe462d5df40bd23421b36fc9a3",
    ("digits", "validation"): "710f2a9a5cde4a1652c3a19b08fe1e3bb98154d1b57280c0a3612892d58a92b7",
    ("digits_heldout", "test"): "91cccdda63e6c76a925b5ee1beaea36fdff3012e43afa58ba5685c24029a0e1c",
    ("digits_photos", "test"): "85f4c2ae5444c9d16fdc88c2d3ba958f40b5b5880d018b5d2eb0c6141ed7c33b",
}


@pytest.mark.parametrize(("name", "split"), FINGERPRINTS)
def test_contents_never_change(name, split):
    assert data.fingerprint(*data.load_arrays(name, split)) == FINGERPRINTS[name, split]


def test_validation_and_the_rest_make_up_train():
    def rows(split):
        images, labels = data.load_arrays("digits", split)
        return sorted((i.tobytes(), n) for i, n in zip(images, labels, strict=True))

    assert sorted(rows("validation") + rows("train_without_validation")) == rows("train")
    assert np.bincount(data.load_arrays("digits", "validation")[1]).tolist() == [2] * 8


def test_the_page_shows_them():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    for (name, split), fingerprint in FINGERPRINTS.items():
        assert f"| `{name}` | {split} | `{fingerprint[:16]}` |" in page


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
