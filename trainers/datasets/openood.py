"""The near and far sets of OpenOOD v1.5 for CIFAR-100, as 32x32 images without labels.

Zhang et al., OpenOOD v1.5: enhanced benchmark for out-of-distribution detection, 2023. Near:
CIFAR-10 and Tiny ImageNet; far: MNIST, SVHN, Textures and Places365. Two of the six are `cifar10`
and `svhn_cropped` as they are. The others are here. Which images there are, and how they get 32x32
pixels, follows OpenOOD's lists and preprocessor; the images come from the official files, not from
the copies that OpenOOD distributes.
"""

from __future__ import annotations

import functools
import io
import pathlib
import re
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from s2d_tf.data import archives, prepared, tiny_imagenet
from s2d_tf.data.odin import Archive

from . import openood_lists

ARCHIVES = {
    "openood_textures": Archive(
        "dtd-r1.0.1.tar.gz", "dtd/images", "fff73e5086ae6bdbea199a49dfb8a4c1",
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
    ),
    "openood_places365": Archive(
        "val_256.tar", "val_256", "e27b17d8d44f4af9a78502beb927f808",
        "http://data.csail.mit.edu/places/places365/val_256.tar",
    ),
}  # fmt: skip
NUM_TEXTURES = 5_640
NUM_PLACES = 33_773

_SIDE = 32


class OpenoodImages(tfds.core.GeneratorBasedBuilder):
    """The images of one archive that the protocol has, reduced to 32x32 pixels."""

    VERSION = tfds.core.Version("1.0.0")
    # As in `odin`: archives are checked by us, not by a table beside this file.
    code_path = None
    BUILDER_CONFIGS = [  # noqa: RUF012 (TFDS wants a list)
        tfds.core.BuilderConfig(name=name.removeprefix("openood_"), description=archive.file_name)
        for name, archive in ARCHIVES.items()
    ]

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="Far out-of-distribution images of OpenOOD v1.5, in 32x32 pixels.",
            homepage="https://github.com/Jingkang50/OpenOOD",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(_SIDE, _SIDE, 3), encoding_format="png"),
                    "label": tfds.features.Scalar(np.int64),
                }
            ),
            supervised_keys=("image", "label"),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        name = f"openood_{self.builder_config.name}"
        archive = ARCHIVES[name]
        path = self.archive or pathlib.Path(dl_manager.download(archive.url))
        archives.check_md5(path, archive.md5)
        self.info.metadata[prepared.ARCHIVE_MD5] = archive.md5
        select = _texture if name == "openood_textures" else _place
        return {"test": self._generate_examples(path, archive.folder, select)}

    def _generate_examples(self, path, folder, select):
        images = {}
        for name, encoded in archives.read_tar(path):
            place = pathlib.PurePosixPath(name)
            # Hidden files of a file manager are in one of the archives.
            if not place.is_relative_to(folder) or place.name.startswith("."):
                continue
            key = select(str(place.relative_to(folder)), f"{path}: member {name!r}")
            if key is not None:
                images[key] = to_32x32(encoded, f"{path}: member {name!r}")
        expected = NUM_TEXTURES if select is _texture else NUM_PLACES
        if len(images) != expected:
            raise archives.ArchiveError(
                f"{path}: expected {expected:,} images in {folder!r}, received {len(images):,}. "
                "Fetch the published archive again."
            )
        for index, key in enumerate(sorted(images)):
            yield index, {"image": images[key], "label": -1}


def open_builder(name: str, data_dir: pathlib.Path, download: bool = False) -> Any:
    """The prepared builder behind one of the `openood_*` datasets."""
    if name == "openood_mnist":
        return prepared.open_builder("mnist", data_dir, download)
    if name == "openood_tiny_imagenet":
        return tiny_imagenet.open_builder(name, data_dir, download)
    return prepared.open_archive_builder(
        lambda folder: OpenoodImages(config=name.removeprefix("openood_"), data_dir=str(folder)),
        name, ARCHIVES[name].file_name, data_dir, download,
    )  # fmt: skip


def read(name: str, builder: Any) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, 32, 32, 3] and labels, all -1, of the only split, "test"."""
    if name == "openood_mnist":
        images = _mnist(builder)
    elif name == "openood_tiny_imagenet":
        images = _tiny_imagenet(builder)
    else:
        images, _ = prepared.read_split(builder, "test", prepared.to_32x32())
    return images, np.full(len(images), -1, np.int64)


def _mnist(builder):
    """All 70,000 digits: the protocol takes the training images, too."""
    digits = [
        prepared.read_split(builder, split, prepared.to_32x32())[0] for split in ("test", "train")
    ]
    return np.stack([_reduce(Image.fromarray(d[..., 0])) for part in digits for d in part])


def _tiny_imagenet(builder):
    keep = openood_lists.kept(openood_lists.TINY_IMAGENET, openood_lists.NUM_TINY_IMAGENET)
    found = builder.info.splits["test"].num_examples
    if found != len(keep):
        raise archives.ArchiveError(
            f"{builder.data_dir}: expected {len(keep):,} validation images, received {found:,}. "
            f"Prepare it from the official {tiny_imagenet.FILE_NAME}."
        )

    def reduce(index, image):
        del index
        small = tf.numpy_function(lambda i: _reduce(Image.fromarray(i)), [image], tf.uint8)
        return tf.ensure_shape(small, [_SIDE, _SIDE, 3])

    images, _ = prepared.read_split(builder, "test", reduce)
    return images[keep]


def to_32x32(encoded: bytes, where: str) -> np.ndarray:
    """Decodes a JPEG or PNG, reduces its shorter side to 32 pixels and cuts out the center."""
    try:
        with Image.open(io.BytesIO(encoded), formats=["JPEG", "PNG"]) as image:
            return _reduce(image)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise archives.ArchiveError(
            f"{where}: expected a JPEG or PNG picture, received another file ({reason}). Get the "
            "archive again."
        ) from error


def _reduce(image):
    """torchvision's Resize(32) (bilinear, antialiased) and CenterCrop(32) of a Pillow image."""
    image = image.convert("RGB")
    width, height = image.size
    short = min(width, height)
    width, height = int(_SIDE * width / short), int(_SIDE * height / short)
    image = image.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round((width - _SIDE) / 2), round((height - _SIDE) / 2)
    return np.asarray(image.crop((left, top, left + _SIDE, top + _SIDE)))


def _texture(name, where):
    """All pictures of all 47 classes, in the order of their names."""
    if not re.fullmatch(r"[a-z-]+/[a-z-]+_\d{4}\.jpg", name):
        raise archives.ArchiveError(
            f"{where}: expected a name such as banded/banded_0002.jpg, received {name!r}. Get the "
            "archive again."
        )
    return name


def _place(name, where):
    """The number of a picture that the protocol keeps; None for one that it leaves out."""
    number = re.fullmatch(r"Places365_val_(\d{8})\.jpg", name)
    if number is None or not 1 <= int(number[1]) <= openood_lists.NUM_PLACES365:
        raise archives.ArchiveError(
            f"{where}: expected a name such as Places365_val_00000001.jpg, received {name!r}. Get "
            "the archive again."
        )
    return int(number[1]) if _kept_places()[int(number[1]) - 1] else None


@functools.cache
def _kept_places():
    return openood_lists.kept(openood_lists.PLACES365, openood_lists.NUM_PLACES365)
