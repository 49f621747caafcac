"""Labels that are wrong on purpose."""

import collections

import numpy as np
import pytest

from s2d_tf import data

LABELS = np.random.default_rng(0).integers(0, 10, 4_000)


@pytest.mark.parametrize("kind", ["symmetric", "class_dependent"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 1.0])
def test_the_rate_is_exact_in_every_class(kind, rate):
    noisy = data.noisy_labels(LABELS, rate, kind, seed=3)
    assert noisy.dtype == np.int64
    for label in range(10):
        changed = noisy[np.equal(LABELS, label)] != label
        assert changed.sum() == round(rate * changed.size)
    assert noisy.min() >= 0
    assert noisy.max() < 10


def test_symmetric_noise_favors_no_class():
    labels = np.repeat(np.arange(4), 6_000)
    noisy = data.noisy_labels(labels, 0.5)
    for label in range(4):
        counts = np.bincount(noisy[labels == label], minlength=4)
        assert counts[label] == 3_000
        np.testing.assert_allclose(np.delete(counts, label), 1_000, atol=150)


def test_class_dependent_noise_goes_to_the_partner():
    noisy = data.noisy_labels(LABELS, 0.4, "class_dependent")
    changed = noisy != LABELS
    np.testing.assert_array_equal(noisy[changed], (LABELS[changed] + 1) % 10)
    partners = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8]
    noisy = data.noisy_labels(LABELS, 0.4, "class_dependent", partners=partners)
    changed = noisy != LABELS
    np.testing.assert_array_equal(noisy[changed], np.array(partners)[LABELS[changed]])


def test_partners_of_cifar100_share_a_superclass():
    partners = data.cifar100_partners()
    names = data.info("cifar100").class_names
    assert sorted(partners) == list(range(100))
    follow = {names[c]: names[p] for c, p in enumerate(partners)}
    circle = ["beaver"]
    while follow[circle[-1]] != "beaver":
        circle.append(follow[circle[-1]])
    assert circle == ["beaver", "dolphin", "otter", "seal", "whale"]
    assert follow["apple"] == "mushroom"
    assert follow["woman"] == "baby"


@pytest.mark.slow
def test_superclasses_are_those_of_the_data(real_data_dir):
    import tensorflow_datasets as tfds

    builder = tfds.builder("cifar100", data_dir=real_data_dir)
    coarse = {
        int(e["label"]): int(e["coarse_label"])
        for e in builder.as_dataset(split="test").as_numpy_iterator()
    }
    members = collections.Counter(coarse.values())
    assert set(members.values()) == {5}
    assert all(coarse[c] == coarse[p] for c, p in enumerate(data.cifar100_partners()))


def test_a_pure_function():
    before = LABELS.copy()
    first = data.noisy_labels(LABELS, 0.3, seed=1)
    np.testing.assert_array_equal(first, data.noisy_labels(LABELS, 0.3, seed=1))
    assert not np.array_equal(first, data.noisy_labels(LABELS, 0.3, seed=2))
    assert not np.array_equal(first, data.noisy_labels(LABELS, 0.3, seed=-1))
    np.testing.assert_array_equal(LABELS, before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rate": 1.1}, r"rate: expected a share from 0 to 1, received 1\.1"),
        ({"rate": float("nan")}, "rate: expected"),
        ({"kind": "pair"}, "kind: expected one of symmetric, class_dependent, received 'pair'"),
        ({"labels": np.array([0, -1])}, "labels: expected .* received -1 to 0"),
        ({"labels": np.array([0.0, 1.0])}, "labels: expected integers"),
        ({"labels": np.zeros([0], int)}, "labels: expected integers"),
        ({"num_classes": 5}, "labels from 0 to 4, received 0 to 9"),
        ({"labels": np.zeros([3], int)}, "at least 2 classes"),
        ({"partners": [0] * 10, "kind": "class_dependent"}, "partners: expected another class"),
    ],
)
def test_errors(change, message):
    with pytest.raises(ValueError, match=message):
        data.noisy_labels(**{"labels": LABELS, "rate": 0.1, **change})


class TestCifar100N:
    clean = np.random.default_rng(1).integers(0, 100, 500)
    noisy = data.noisy_labels(clean, 0.4, num_classes=100)

    def _write(self, path, **columns):
        if path.suffix == ".npz":
            np.savez(path, **columns)
        elif path.suffix == ".npy":
            np.save(path, columns["noisy_label"])
        else:
            rows = zip(*columns.values(), strict=True)
            lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
        return path

    @pytest.mark.parametrize("suffix", [".npz", ".npy", ".csv"])
    def test_formats(self, tmp_path, suffix):
        path = tmp_path / f"CIFAR-100N{suffix}"
        self._write(path, clean_label=self.clean, noisy_label=self.noisy)
        received = data.read_cifar100n(path, self.clean)
        np.testing.assert_array_equal(received, self.noisy)
        assert received.dtype == np.int64

    def test_the_name_in_the_file_for_tensorflow(self, tmp_path):
        path = self._write(tmp_path / "n.npz", noise_label=self.noisy)
        np.testing.assert_array_equal(data.read_cifar100n(path, self.clean), self.noisy)

    @pytest.mark.parametrize("columns", [["clean_label", "noisy_label"], ["noisy_label"]])
    def test_another_order_of_the_images_is_an_error(self, tmp_path, columns):
        values = {"clean_label": self.clean, "noisy_label": self.noisy}
        path = self._write(tmp_path / "n.npz", **{key: values[key] for key in columns})
        with pytest.raises(ValueError, match=r"order of your training images.*image_order_c100"):
            data.read_cifar100n(path, np.roll(self.clean, 1))

    def test_pickles_are_rejected(self, tmp_path):
        path = tmp_path / "CIFAR-100_human.pt"
        path.write_bytes(b"PK")
        with pytest.raises(ValueError, match=r"ends in \.npz.*pickles and can run code"):
            data.read_cifar100n(path, self.clean)
        path = tmp_path / "CIFAR-100_human_ordered.npy"
        np.save(path, np.array({"noise_label": self.noisy}, dtype=object))
        with pytest.raises(ValueError, match=r"expected plain integer arrays.*np\.savez"):
            data.read_cifar100n(path, self.clean)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"label": [1]}, "expected 'noisy_label', received label"),
            ({"noisy_label": noisy[:9]}, r"noisy_label: expected 500 labels .*\[9\]"),
            ({"noisy_label": noisy + 1}, "labels from 0 to 99"),
            ({"noisy_label": noisy / 2}, "received float64"),
            ({"noisy_label": noisy, "clean_label": noisy[:3]}, "clean_label: expected 500"),
        ],
    )
    def test_bad_content(self, tmp_path, columns, message):
        path = self._write(tmp_path / "n.npz", **columns)
        with pytest.raises(ValueError, match=message):
            data.read_cifar100n(path, self.clean)

    @pytest.mark.parametrize("name", ["n.npz", "n.npy", "n.csv"])
    def test_damaged_files(self, tmp_path, name):
        path = tmp_path / name
        path.write_bytes(b"noisy_label\nseven\n")
        with pytest.raises(ValueError, match="expected plain integer arrays"):
            data.read_cifar100n(path, self.clean)
        with pytest.raises(FileNotFoundError):
            data.read_cifar100n(tmp_path / f"no_{name}", self.clean)
