"""Damaged archives without a published checksum: rejected, or read as they were; never in parts."""

import random
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.data import archives, prepared


def picture(seed):
    """Four flat squares: few bytes, so that much of the archive is structure."""
    colors = np.random.RandomState(seed).randint(0, 256, [2, 2, 3]).astype(np.uint8)
    return tf.io.encode_jpeg(np.kron(colors, np.ones([32, 32, 1], np.uint8))).numpy()


def write(path, compression):
    root, classes = prepared.ROOT, ["n0", "n1"]
    lines = [f"val_{i}.JPEG\t{classes[i]}\t0\t0\t1\t1\n" for i in range(2)]
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(f"{root}/wnids.txt", "n0\nn1\n")
        file.writestr(f"{root}/val/val_annotations.txt", "".join(lines))
        for i in range(2):
            file.writestr(f"{root}/val/images/val_{i}.JPEG", picture(i))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_copies(tmp_path, mutate, compression, count):
    """Every copy is rejected in one line or gives the very pictures."""
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "tiny.zip"
    write(path, compression)
    builder = prepared.TinyImagenet(data_dir=tmp_path / "tiny")
    good, expected = path.read_bytes(), builder.read(path)
    rng, reasons = random.Random(count), []
    for i in range(count):
        path.write_bytes(mutate(good, rng))
        try:
            received = builder.read(path)
        except archives.ArchiveError as error:
            reasons.append(str(error))
            continue
        assert received == expected, f"copy {i}"
    assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
    assert 0.65 * count < len(reasons) <= count
    assert [each.name for each in path.parent.iterdir()] == ["tiny.zip"]
