"""The near and far sets of OpenOOD v1.5 for CIFAR-100, as 32x32 images without labels.

Zhang et al., OpenOOD v1.5: enhanced benchmark for out-of-distribution detection, 2023. Near:
CIFAR-10 and Tiny ImageNet; far: MNIST, SVHN, Textures and Places365. Two of the six are `cifar10`
and `svhn_cropped` as they are. The others are here. Which images there are, and how they get 32x32
pixels, follows OpenOOD's lists and preprocessor; the images come from the official files, not from
the copies that OpenOOD distributes.
"""

from __future__ import annotations

import base64
import functools
import io
import pathlib
import zlib
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from s2d_tf.data import ArchiveError, builders

ARCHIVES = {
    "textures": builders.Archive(
        "dtd-r1.0.1.tar.gz", "dtd/images", "fff73e5086ae6bdbea199a49dfb8a4c1",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
    ),
    "places365": builders.Archive(
        "val_256.tar", "val_256", "e27b17d8d44f4af9a78502beb927f808",
        "http://data.csail.mit.edu/places/places365/val_256.tar",
    ),
}  # fmt: skip
NUM_TINY_IMAGENET = 10_000
NUM_PLACES365 = 36_500
_SIDE = 32


class OpenoodImages(builders.ArchiveBuilder):
    """Far out-of-distribution images of OpenOOD v1.5, in 32x32 pixels."""

    BUILDER_CONFIGS = [  # noqa: RUF012 (TFDS wants a list)
        tfds.core.BuilderConfig(name=name, description=archive.file_name)
        for name, archive in ARCHIVES.items()
    ]
    image = tfds.features.Image(shape=(_SIDE, _SIDE, 3), encoding_format="png")

    @property
    def published(self) -> builders.Archive:
        return ARCHIVES[self.builder_config.name]

    def read(self, path: pathlib.Path) -> list[tuple]:
        places = enumerate(kept(PLACES365_LEFT_OUT, NUM_PLACES365), start=1)
        left_out = {f"Places365_val_{number:08}.jpg" for number, keep in places if not keep}
        images = {}
        for member, encoded in builders.read_tar(path):
            place = pathlib.PurePosixPath(member)
            # Hidden files of a file manager are in one of the archives.
            is_picture = place.is_relative_to(self.published.folder) and place.name[0] != "."
            if is_picture and place.name not in left_out:
                images[member] = _reduced(Image.open(io.BytesIO(encoded)))
        return [(images[name], -1) for name in sorted(images)]


def open_builder(name: str, data_dir: pathlib.Path, download: bool = True) -> Any:
    """The prepared builder behind one of the `openood_*` datasets."""
    config = name.removeprefix("openood_")
    if config == "mnist":
        return builders.open_builder("mnist", data_dir, download)
    if config == "tiny_imagenet":
        return builders.open_archive(builders.TinyImagenet, name, data_dir, download)
    make = functools.partial(OpenoodImages, config=config)
    return builders.open_archive(make, name, data_dir, download)


def load(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, 32, 32, 3] and labels, all -1, of the only split, "test"."""
    builder = open_builder(name, data_dir, download=False)
    if name == "openood_mnist":  # All 70,000 digits: the protocol takes the training images, too.
        parts = [builders.read_split(builder, part)[0] for part in ("test", "train")]
        digits = (Image.fromarray(digit[..., 0]) for part in parts for digit in part)
        images = np.stack([_reduced(digit) for digit in digits])
    elif name == "openood_tiny_imagenet":
        images = _tiny_imagenet(builder)
    else:
        images, _ = builders.read_split(builder, split)
    return images, np.full(len(images), -1)


def _tiny_imagenet(builder):
    found = builder.info.splits["test"].num_examples
    ArchiveError.unless(
        found == NUM_TINY_IMAGENET,
        f"{builder.data_dir}: expected {NUM_TINY_IMAGENET:,} validation images, received "
        f"{found:,}. Prepare it from the official {builders.TinyImagenet.published.file_name}.",
    )

    def reduce(_, image):
        small = tf.numpy_function(lambda i: _reduced(Image.fromarray(i)), [image], tf.uint8)
        return tf.ensure_shape(small, [_SIDE, _SIDE, 3])

    images, _ = builders.read_split(builder, "test", reduce)
    return images[kept(TINY_IMAGENET_LEFT_OUT, NUM_TINY_IMAGENET)]


def _reduced(image):
    """torchvision's Resize(32) (bilinear, antialiased) and CenterCrop(32) of a Pillow image."""
    image = image.convert("RGB")
    width, height = image.size
    short = min(width, height)
    width, height = int(_SIDE * width / short), int(_SIDE * height / short)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - _SIDE) / 2), round((height - _SIDE) / 2)
    return np.asarray(image.crop((left, top, left + _SIDE, top + _SIDE)))


def kept(left_out: str, size: int) -> np.ndarray:
    """bool [size], whether the protocol has the image of each number from 0."""
    gaps = np.frombuffer(zlib.decompress(base64.b64decode(left_out)), np.uint8)
    mask = np.ones(size, bool)
    mask[np.cumsum(gaps, dtype=np.int64) - 1] = False
    return mask


# The images that the protocol leaves out: facts from the lists that
# https://github.com/Jingkang50/OpenOOD downloads (MIT license,
# `benchmark_imglist/cifar100/test_tin.txt` and `test_places365.txt`): images whose content overlaps
# with a class of CIFAR-100, chosen image by image. A string holds the distances between the numbers
# that are left out, one byte each, compressed, in base 64.
TINY_IMAGENET_LEFT_OUT = (
    "eNo9VwlyIzkMK55Sq+PMUbX//+oCoDJOynHLEsUDAJk0c/vYDstMfs5wK7cwPrjjr0eEHsy2JZYW1yrDIt0W182W00DZPG"
    "EZRyq243HhECylfVfjnio84NXaG7TbMIVP4boVL1jGp8AW7B+DhgPR2kFPS66d8gcfKuQU9igE3Bc7FJG8sbSAwcYCPPak"
    "V/4UPccmHvbXeCVi4HULphHe8omabjkt1AeZ2KE8FCLBPYsBMoLNvw9+8PeLW3wx6mD27NBVL9gOhr0RsOLOWp8F8/hF2h"
    "sOMny4eGiNWVdebLXvuCvwA7dylY/e2smkKXrfzFkgNtUsYC35qWzTekfZ7J2cIielqCdvhfiWvueZTcNIC8rQMIUUXTeU"
    "DQTC9BELQoHpFq8+C9mEjV24fm1sjWrGgS2sWsOlVKERyQOXY7Eqxt9EPLlgjTXhiwUzASOEInyBi3PC2EQIzrC0/vXNrx"
    "++ESklbDFSJGepgG5vF3HoWSh609AD7ExC8IHYtlIxGBIKTjTkyxI2mWHMIpcZsr32wA6DfpN5eoLu5q2ZPCSb1vCI+fL4"
    "RgkEyhQAiMyMhzWo+CIPGgmAgS9jZojJ4AM3LsWil/DqKY64P4AEqMfAhLBUEJbHL5fmECNneVOMFvfIiiL9Ovu8qet4l2"
    "prxMOwgUcrEbBV941MlFTVprbf7usA9APaUQ44U/7fQvLqkAtSmFy+Vgk8wUyhaDGIoy2oQ9VZwEy6EEU3XFRY/ovMFkFq"
    "7hDkYPUP6q2s69q+B5FLxs/tSArvF3IG/cyA6tU9F60JBvfioXROPKZnxUzxiPwBBlRVbMirVO7abESTQQtIttpkuIDeSp"
    "h0jXdROilCjw+FyBbKmCSRpJYU0G1eB841MzSMD3+aUUjwkgygIsAxHCjmV+qGkJpfw/FDbmbbhEbpob8AxzFpNjXqmAQZ"
    "WkimAz1fJ6VEKYWudVQt1RRqQH/xXCNRqUXuw6WATJy87BM//Qe3YpBfMKpwMcRGhCyxFAxxdN72o77TkgXG/I6gjljAZ/"
    "+WQ4xU3YAEuNpGQaOGi0tze/WtA0GYH6rAALKzGtvWUpP4qKmV5eh6CCeMbmPt02sw9vOGNgKoQvTIN8KHOcE7+gMSyx5I"
    "fUuu9VVpZ7NDRHuwzLSipFvIF7dSeuFola6WgS8AU8uBymISw/ZarA7OSwpDmc1WqJuij/CGBj6JzxEbWZ9+7HSMR9TI1D"
    "RZe6OGphoWKlF/RAo2PrYa0Y4oXUpPN+qyeKhsWinzoigkfofCjJ4DmWc/YImCkLLRmfI7LpwaB129SrZv3XBpabOPmuPn"
    "Fce1acTWpwW1xI85rfZp7fDT3oc+bfGq1C5bVeAVGmR6SqA8lEhVkgayjR1IFRkB3xox2Nema1Ru07SkBmp7BggVioLeQr"
    "pycgS/mEHIyVQORnAUVE775dIJml3fzLdmK4GB3ff4ziGKsD0kkoYjxiZN4P4esWIDZZJ+BgAbJ4h1WJnpDl2oarDyxrQi"
    "VvuZvNlvdiFT/xY3R+hLv4TJaHIJZBhtWHW26BzJp7Q3By+pmLGfh6iB/irRq5jjJqnOFiDIOHYncY8dh3x9CEVJOaDaZ9"
    "ntKFOQf6UXfl1yQUw3b3jJESLPJYpHU9GAX+I4MsFmwL4dI9Nki9oQ6eozEFKdNWs9OiXOSRYJZU1QfWdO5TE4NfpkvJ9i"
    "9eIFdGL9dTJfuRKI/jIM+2L3FSpndJ5R09hoQrHcNpdbgd82gKvGZ90LkMChVbf3iwCRf0a5qEGLM0vkDPSpgXCUMdkTRn"
    "FIIaU0Rz/dbyvCtUsdVTMH0a//AQQRpWsAmYKDl91zKuJ0eRbtNkCAxkt6CJHX+JpaYfMhPbqPDR5ka8o0qmnTlxHPq4KU"
    "5Jb/h6hFU3jPHQ8x4f/0GMzrE5gWY8Zq7N0cMIVSXfAIRfXWPjxUHFeET9kRN/MTe3EufwmA4WD/G+KYk0V+0w8+MFafTM"
    "4w9czAMBbz/pfUfjRYUBjgwRcH6P8BvxonDQ=="
)
"""Of val_0.JPEG to val_9999.JPEG; 972 of those left out, in 20 classes, are for validation."""

PLACES365_LEFT_OUT = (
    "eNoVltdyI8kRRSNdedPVDo1uGIIkaGY5s8vx0khao9CEVm/6Bf3/Rygn8NYAqjNv3nuyWif2wdiw7JHpKxqo1s2AllxzWX"
    "qfWyWYQ3fHeEnOX6kDlzwNl3EwznYDteqxSRe4771s+dY54PB5YEyHeIh+Fe8Rf0XK7hwtWM+JB/wgjqAriwmA0OZS7Evu"
    "jhVgxLy4WxohH95vrRQaGU0FZ68xu4GZLGPoWwsUIFt7sYHbREZM8s5IBp4GhvdDR2g3+ACPBztqPdhfpXVnJsmS2D0wLQ"
    "IyW4hY2ZwtfjqPlnlIQ/UXwGDM6UJhLP1eT8MQ0iiHt3QlDglnB0dp7vNUbE+Cgyy+cieF3FPJyPuopTkpjjrjYTEJcmAD"
    "KaT7wRr6jGavbwS2/jb3VCRjXQhyJU+HyXF1JVnXFeftbk4Om935N6YjwkQ00Q3jQtk0cTupYk9kVB4byqNwMhKn6zx6/Z"
    "ZX62LzuHGoKCutOaBb5AX+t+9sET+csxGpEFJMzeA+U3KcUp+kzqc9XPdVClK6ENBwmixfxHL4GxJS6Gb93CTJT/iRCvPR"
    "m+i0OLvRntbPxoLEQyi9k6WDMn8/QnhyaPj4sCt6UpooVDrCOs9MTGB2b8VTbqh9iHMBdKxvJCL6spNw608wYzd4eoACFO"
    "8htjl6QXnUAXpMiV9tmurNy2PHqILcjP0TnW8MYWC2bDc/QSQuwR1Fp/1oTDWo0vEWp4xEa5jmvuhI283DVA1TXNVfYXec"
    "EVDIhLlK8vbvUd2goqzkLS9+C29Sw84ZDp2O/Kqn/uxO2sca0Xw1ZG5nl3OmZTrq4LqOoszm0+Pzb1hXCOfow/R7uUEcM6"
    "vAls6/+CGlRC8IQ6zYIHGi1EsSG9TWKHD/HBsN0AntiEaXhtxrzgq8s8j5ITq4jGZydXnDtoDrntI4DqthOMT+zjTjKpqG"
    "D+1C1vF+hwHzd2NMd60IMxyWOy/LXA9Z3B2uG6yCpWPHYnz0yeKfVSYT+RtozvgwVf4IU/jsMc7fDGlZzo4/tZEesbz6ln"
    "JVBwbizsvDWh084GYX+I9MoMJKvChj+qQiyd0e+AX80+A17sYoSmZyNxapFNFK5fjD8a/UEwHe5aZPvDqONOcaIRx6s9CK"
    "ZABODz1S9f1sdNTIbI7Klbme2Tx2VRF1VshAHgzS2LpU+nd3sPCWyLPN6TxESxkx9sH8tuTUGTckpVOO7oA12lqxD1RHn7"
    "Lj2UgIRwxN+1bKrV0OLv4TRv5jStPTRvWp10fWLF/JqWt9OmZwu0Xm1L8PJ01GyvnOpC/9eSLqHUC0Ozh583BAVL+BYK0D"
    "L71M92t6Js6YbC+el05C4mA7kuic2cpevWtyamGoNtGZfDYXtZA1kuJ9z0/mKUcRifBXmHAxrSnUvvTBwTmyvII4Homfm+"
    "w2AJyeA39w8Rw3c+dHc9llPLciA8z5BEQaIG02zr4Z3/PIdLqeNWD0VC2aGKIrs6i2W7s3Ske+tfkwOJJkwLavo0M8jEDL"
    "yfFg2TQnZnrcZVJ0WfsDgKAK2YLjkvQv5mHWxQAP49NJKN987qS/17ffdaeq+FG1j1hyUiafhc3pe7p34y0q4Vmns+AwIA"
    "eD9RdVXd2l9tkhpBPAH2C8ffy39++ir/f9jJljBzbF3l1/7Q3VoFztgebE2+I+YkjBJoMarC07a+PbM6iT/JqFjru+Q4uN"
    "+3rzc1npggm6pHL2NQYlvmy0ToFT130Ko/UhC7py7XWRqAuM5aaa8Z5fe+g2r4vqzvndarGsODRWe49DhLC+ssy7221K5k"
    "NRsgNcIl/R/lL3FdiE47zjaPg9X4oOmYN7lf2ZbCvWbkMLwK4R1b9YeV6HA+gS+q76GAx2dS3SMGpAX/eLSi+MWACSyFnX"
    "OXoC1kpTOqM/5sssknQLOvTaOPofTFSqZ9NB60l/7UYAEjXIDgWTrteYaTo60u/6b4rBxhOg0xloZouVDqcfUUzPBgxO0w"
    "1Hx9Hak5bQPLw9aervtQCzA8JqTwOFf9mLUjCi274pMsDDy2kLbsvqm/+mngZxq+v3IAHuU/B5mOBPn19upwAltGLwvpp3"
    "tDdXNA4+xiJNhdaBytXunEP5x7ugqWM8aGsjd2ecTPlpXxcdQfc6Sqc4dD/8GkQ72r/Ebh+7rpKhzcZTkL2eYm8Z5+tqrI"
    "Y2di6oNvE+JVBLFoq6RZ8jjFaVbpruqteS5GC6FMeTCzY6mg2iY3Q+Fb2NJONlzqOEp7i3ttvdCFrTGdUY9Y7E19vV7MXE"
    "Ic80VZ2wtcKHBnuc02/GmiAnJt9ugRzhkEC2L6AbQqcYO/WmKPK22r/hCglK3UDf5+jNSsabYxS8C34JCeglZSXRBJfzJw"
    "i9HMoaE5kX6J703iIaZm9spEVh27u6AzDW4qQOiO5L2kxmG48hKL/Lj+Wxh51Qkxb2Kojj3ge9q/xcbQvdoLZW054qWOCS"
    "B2jnH5eCOcE4aSZ2ab8sR6Ns9vP/AYqEjpE="
)
"""Of Places365_val_00000001.jpg to Places365_val_00036500.jpg."""
