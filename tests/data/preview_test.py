import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data
from s2d_tf.data.preview import _spread_over_classes


def _decode(path):
    return tf.io.decode_png(path.read_bytes()).numpy()


@pytest.mark.parametrize("channels", [1, 3])
def test_writes_a_png_that_shows_the_pictures(tmp_path, channels):
    images = np.full([30, 8, 8, channels], 255, np.uint8)
    images[..., 0] = 10
    path = tmp_path / "folder" / "sheet.png"
    labels = np.arange(30) % 3
    data.write_preview(path, images, labels, title="t", class_names=("red", "green", "blue"))
    sheet = _decode(path)
    colour = [10, 255, 255] if channels == 3 else [10, 10, 10]
    shown = np.mean(np.all(sheet[..., :3] == colour, axis=-1))
    assert 0.3 < shown < 0.9
    assert [file.name for file in path.parent.iterdir()] == ["sheet.png"]


def test_labels_are_written(tmp_path):
    images = np.full([1, 8, 8, 1], 255, np.uint8)
    sheets = []
    for names in (("a", "b"), ("WWWWWWWWWW", "b"), None):
        path = tmp_path / "sheet.png"
        data.write_preview(path, images, np.array([0]), title="t", class_names=names)
        sheets.append(np.mean(_decode(path) < 128))
    assert sheets[1] > sheets[0]
    assert sheets[1] > sheets[2] > 0


def test_every_class_comes_once_before_any_comes_twice():
    labels = np.array([2, 2, 2, 0, 0, 1, 2, 0])
    np.testing.assert_array_equal(_spread_over_classes(labels, 8), [3, 5, 0, 4, 1, 7, 2, 6])
    np.testing.assert_array_equal(_spread_over_classes(labels, 4), [3, 5, 0, 4])
    unlabelled = np.full(1000, -1)
    assert len(_spread_over_classes(unlabelled, 100)) == 100
    assert _spread_over_classes(unlabelled, 100)[-1] == 999


def test_a_wrong_file_name_is_refused_before_work(tmp_path):
    with pytest.raises(ValueError, match=r"ending in \.png"):
        data.write_preview(tmp_path / "x.jpg", np.zeros([1, 8, 8, 1], np.uint8), [0], title="t")
