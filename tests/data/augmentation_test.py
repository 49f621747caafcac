import itertools

import numpy as np
import pytest

from s2d_tf.data.augmentation import shifted_views


def _images(count=6, height=7, width=9, channels=3):
    shape = [count, height, width, channels]
    return np.random.RandomState(0).randint(0, 256, size=shape).astype(np.uint8)


def _one_at_a_time(images, index, shift, mirror, padding, mean=None):
    """The same by NumPy: pad, cut the window out, mirror."""
    pad = 4
    out = []
    for i, (row, column), flip in zip(index, shift, mirror, strict=True):
        image = images[i].astype(np.int64)
        if padding == "reflect":
            image = np.pad(image, [(pad, pad), (pad, pad), (0, 0)], mode="reflect")
        else:
            canvas = np.empty([image.shape[0] + 2 * pad, image.shape[1] + 2 * pad, image.shape[2]])
            canvas[:] = np.rint(mean)
            canvas[pad:-pad, pad:-pad] = image
            image = canvas
        height, width = images.shape[1:3]
        window = image[pad + row : pad + row + height, pad + column : pad + column + width]
        out.append(window[:, ::-1] if flip else window)
    return np.stack(out).astype(np.uint8)


@pytest.mark.parametrize("padding", ["reflect", "mean"])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_view_is_that_of_numpy(padding, channels):
    images = _images(channels=channels)
    mean = np.array([129.3, 124.1, 112.4])[:channels]
    gather = shifted_views(images, padding, mean)
    views = list(itertools.product(range(-4, 5), range(-4, 5), (False, True)))
    assert len(views) == 162
    index = np.arange(len(views)) % len(images)
    shift = np.array([view[:2] for view in views], np.int32)
    mirror = np.array([view[2] for view in views])
    received = gather(index, shift, mirror).numpy()
    assert received.dtype == np.uint8
    expected = _one_at_a_time(images, index, shift, mirror, padding, mean)
    np.testing.assert_array_equal(received, expected)


def test_padding_color_is_the_rounded_mean_not_black():
    black = np.zeros([1, 8, 8, 3], np.uint8)
    gather = shifted_views(black, "mean", (129.3, 124.1, 112.4))
    moved = gather([0], np.array([[-4, 0]], np.int32), np.array([False])).numpy()
    np.testing.assert_array_equal(moved[0, 0, 0], [129, 124, 112])
    np.testing.assert_array_equal(moved[0, 4:], 0)


@pytest.mark.parametrize(
    ("padding", "mean", "message"),
    [
        ("zero", None, "padding: expected one of mean, reflect, received 'zero'"),
        (None, None, "padding: expected one of"),
        ("mean", None, "a value in .* for each of 3"),
        ("mean", (1.0, 2.0), "a value in .* for each of 3"),
        ("mean", (1.0, 2.0, 300.0), "a value in .* for each of 3"),
    ],
)
def test_bad_arguments(padding, mean, message):
    with pytest.raises(ValueError, match=message):
        shifted_views(_images(), padding, mean)
