"""Tiny ImageNet from its official zip file, as a TFDS dataset and in 32x32 pixels."""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf.data import archives, prepared

FILE_NAME = "tiny-imagenet-200.zip"
URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
OFFICIAL_MD5 = "90528d7ca1a48142e341f4ef8d21d0de"
ROOT = "tiny-imagenet-200"
SIDE = 64
CROP_SEED = 32
_TARGET = 32


class TinyImagenet(tfds.core.GeneratorBasedBuilder):
    """The official pictures, byte for byte, in the official order.

    `test` is the official validation folder, which papers on out-of-distribution detection use; the
    official test pictures have no labels. `train` exists if the zip has it. Labels are
    positions in the archive's `wnids.txt`.
    """

    VERSION = tfds.core.Version("1.0.0")
    # TFDS would look beside this file for a table of checksums, for which release 4.9.10 needs a
    # package that it does not install. Archives are checked by us.
    code_path = None

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="Tiny ImageNet: 200 classes of ImageNet in 64x64 pixels.",
            homepage="http://cs231n.stanford.edu/",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(SIDE, SIDE, 3), encoding_format="jpeg"),
                    "label": tfds.features.ClassLabel(num_classes=200),
                }
            ),
            supervised_keys=("image", "label"),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        archive = self.archive
        if archive is None:
            archive = pathlib.Path(dl_manager.download(URL))
            archives.check_md5(archive, OFFICIAL_MD5)
        self.info.metadata[prepared.ARCHIVE_MD5] = archives.md5(archive)
        # All of it: a name that is damaged in the index hides a picture.
        members = dict(archives.read_zip(archive))
        classes = {wnid: i for i, wnid in enumerate(_lines(archive, members, "wnids.txt"))}
        splits = {"test": _validation_members(archive, members, classes)}
        if train := _train_members(archive, members, classes):
            splits["train"] = train
        return {
            split: self._generate_examples(archive, [(n, members[n], label) for n, label in items])
            for split, items in splits.items()
        }

    def _generate_examples(self, archive, items):
        for index, (member, encoded, label) in enumerate(items):
            archives.check_picture(encoded, f"{archive}: member {member!r}", SIDE)
            yield index, {"image": encoded, "label": label}


def open_builder(name: str, data_dir: pathlib.Path, download: bool = False) -> Any:
    """The prepared builder behind `tiny_imagenet_resize` and `tiny_imagenet_crop`."""
    return prepared.open_archive_builder(
        lambda folder: TinyImagenet(data_dir=str(folder)), name, FILE_NAME, data_dir, download
    )


def to_32x32(name: str, count: int) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """The function (index, uint8 [64, 64, 3]) -> uint8 [32, 32, 3] of one of the two datasets.

    `tiny_imagenet_resize` takes the mean of each 2x2 block, an antialiased (area) resize that is
    exact in integers. `tiny_imagenet_crop` cuts a 32x32 window at a place fixed by (CROP_SEED,
    index).
    """
    if name == "tiny_imagenet_resize":
        return lambda index, image: _block_mean(image)
    offsets = tf.constant(crop_offsets(count))

    def crop(index, image):
        row, column = tf.unstack(offsets[index])
        return image[row : row + _TARGET, column : column + _TARGET]

    return crop


def _block_mean(image: tf.Tensor) -> tf.Tensor:
    """The mean of each 2x2 block of a uint8 picture, rounded half up."""
    blocks = tf.reshape(tf.cast(image, tf.int32), [_TARGET, 2, _TARGET, 2, 3])
    return tf.cast((tf.reduce_sum(blocks, axis=[1, 3]) + 2) // 4, tf.uint8)


def crop_offsets(count: int, seed: int = CROP_SEED) -> np.ndarray:
    """Top and left of the window of pictures 0 to count - 1; each depends on (seed, index) only."""
    places = SIDE - _TARGET + 1
    digests = (hashlib.sha256(f"{seed}/{index}".encode()).digest() for index in range(count))
    draws = np.frombuffer(b"".join(digests), dtype="<u8").reshape(count, 4)[:, :2]
    return (draws % places).astype(np.int32)


def _lines(archive, members, name):
    name = f"{ROOT}/{name}"
    if name not in members:
        raise archives.ArchiveError(
            f"{archive}: expected the member {name!r} of the official layout, received none. "
            "Fetch it again."
        )
    try:
        return members[name].decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError:
        raise archives.ArchiveError(
            f"{archive}: expected a text in {name}, received other bytes. Fetch it again."
        ) from None


def _validation_members(archive, members, classes):
    listed = {}
    for line in _lines(archive, members, "val/val_annotations.txt"):
        file_name, tab, rest = line.partition("\t")
        if not tab:
            raise archives.ArchiveError(
                f"{archive}: expected a file name and a class in each line of "
                f"val_annotations.txt, received {line[:80]!r}. Fetch it again."
            )
        label = _label(archive, classes, rest.split("\t")[0])
        listed[f"{ROOT}/val/images/{file_name}"] = label
    present = {n for n in members if n.startswith(f"{ROOT}/val/images/") and n[-1] != "/"}
    for problem, names in (
        ("missing", listed.keys() - present),
        ("not annotated", present - listed.keys()),
    ):
        if names:
            raise archives.ArchiveError(
                f"{archive}: expected the pictures of the official layout, received {len(names)} "
                f"of {len(listed)} {problem}, first {min(names)!r}. Fetch it again."
            )
    return list(listed.items())


def _train_members(archive, members, classes):
    found = []
    for name in members:
        parts = name.split("/")
        if len(parts) == 5 and parts[1] == "train" and parts[3] == "images" and parts[4]:
            number = re.fullmatch(r".*_(\d{1,9})\.\w+", parts[4], re.ASCII)
            if number is None:
                raise archives.ArchiveError(
                    f"{archive}: expected a name such as n01443537_0.JPEG, received {name!r}. "
                    "Fetch it again."
                )
            found.append((_label(archive, classes, parts[2]), int(number[1]), name))
    if missing := set(classes.values()) - {label for label, _, _ in found} if found else None:
        wnids = [wnid for wnid, label in classes.items() if label in missing]
        raise archives.ArchiveError(
            f"{archive}: expected training pictures of every class, received none of "
            f"{len(wnids)} classes, first {wnids[0]}. Fetch it again."
        )
    return [(name, label) for label, _, name in sorted(found)]


def _label(archive, classes, wnid):
    if wnid not in classes:
        raise archives.ArchiveError(
            f"{archive}: expected a class of {ROOT}/wnids.txt, received {wnid!r}. Fetch it again."
        )
    return classes[wnid]
