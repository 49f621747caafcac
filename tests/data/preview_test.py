import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data


def _decode(path):
    return tf.io.decode_png(path.read_bytes()).numpy()


@pytest.mark.parametrize("channels", [1, 3])
def test_writes_a_png_that_shows_the_pictures(tmp_path, channels):
    images = np.full([30, 8, 8, channels], 255, np.uint8)
    images[..., 0] = 10
    path = tmp_path / "sheet.png"
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


@pytest.mark.parametrize(("classes", "count"), [(3, 12), (1, 4)])
def test_the_pictures_are_spread_over_the_classes(tmp_path, monkeypatch, classes, count):
    from matplotlib.axes import Axes

    shown = []
    monkeypatch.setattr(Axes, "set_title", lambda axes, text, **_: shown.append(text))
    labels = np.random.RandomState(0).permutation(np.arange(60) % classes) - (classes == 1)
    images = np.zeros([60, 8, 8, 1], np.uint8)
    data.write_preview(tmp_path / "sheet.png", images, labels, title="t", count=count)
    names = map(str, range(classes)) if classes > 1 else ["no label"]
    assert sorted(shown) == sorted([*names] * (count // classes))


def test_a_wrong_file_name_is_refused_before_work(tmp_path):
    with pytest.raises(ValueError, match=r"ends in \.png"):
        data.write_preview(tmp_path / "x.jpg", np.zeros([1, 8, 8, 1], np.uint8), [0], title="t")
