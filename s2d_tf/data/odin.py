"""The published LSUN and Tiny ImageNet pictures of the ODIN paper, as a TFDS dataset.

The archives' names, addresses, folders and MD5 sums are those of public readers of them,
pytorch-ood (`src/pytorch_ood/dataset/img/odin.py`) among them.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf.data import archives, prepared

_SIDE = 32


@dataclasses.dataclass(frozen=True)
class Archive:
    """One published archive: its file, the folder of its pictures, and how to be sure of it."""

    file_name: str
    folder: str
    md5: str
    url: str


ARCHIVES = {
    "lsun_crop": Archive(
        "LSUN.tar.gz", "LSUN/test", "458a0a0ab8e5f1cb4516d7400568e460",
        "https://www.dropbox.com/s/raw/fhtsw1m3qxlwj6h/LSUN.tar.gz",
    ),
    "lsun_resize": Archive(
        "LSUN_resize.tar.gz", "LSUN_resize/LSUN_resize", "278b7b31c8cb7e804a1465a8ce03a2dc",
        "https://www.dropbox.com/s/raw/moqh2wh8696c3yl/LSUN_resize.tar.gz",
    ),
    "tiny_imagenet_crop": Archive(
        "Imagenet.tar.gz", "Imagenet/test", "7c0827e4246c3718a5ee076e999e52e5",
        "https://www.dropbox.com/s/raw/avgm2u562itwpkl/Imagenet.tar.gz",
    ),
    "tiny_imagenet_resize": Archive(
        "Imagenet_resize.tar.gz", "Imagenet_resize/Imagenet_resize",
        "0f9ff11d45babf2eff5fe12281d1ac31",
        "https://www.dropbox.com/s/raw/kp3my3412u5k9rl/Imagenet_resize.tar.gz",
    ),
}  # fmt: skip


class OdinImages(tfds.core.GeneratorBasedBuilder):
    """The pictures of one archive, byte for byte, in the order of the numbers in their names."""

    VERSION = tfds.core.Version("1.0.0")
    # TFDS would look beside this file for a table of checksums, for which release 4.9.10 needs a
    # package that it does not install. Archives are checked by us.
    code_path = None
    BUILDER_CONFIGS = [  # noqa: RUF012 (TFDS wants a list)
        tfds.core.BuilderConfig(name=name, description=f"{archive.file_name}, {archive.folder}")
        for name, archive in ARCHIVES.items()
    ]

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description="Pictures of the ODIN paper for out-of-distribution detection, unlabelled.",
            homepage="https://github.com/facebookresearch/odin",
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3)),
                    "label": tfds.features.Scalar(np.int64),
                }
            ),
            supervised_keys=("image", "label"),
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        archive = ARCHIVES[self.builder_config.name]
        path = self.archive or pathlib.Path(dl_manager.download(archive.url))
        archives.check_md5(path, archive.md5)
        self.info.metadata[prepared.ARCHIVE_MD5] = archive.md5
        return {"test": self._generate_examples(path, archive.folder)}

    def _generate_examples(self, path, folder):
        members = {}
        for name, encoded in archives.read_tar(path):
            base_name = pathlib.PurePosixPath(name).name
            # Copies made on a Mac carry hidden files beside the pictures.
            if str(pathlib.PurePosixPath(name).parent) != folder or base_name.startswith("."):
                continue
            archives.check_picture(encoded, f"{path}: member {name!r}", _SIDE, or_larger=True)
            members[base_name] = encoded
        if not members:
            raise archives.ArchiveError(
                f"{path}: expected pictures in the folder {folder!r}, received none. Fetch it "
                "again."
            )
        for index, name in enumerate(sorted(members, key=_natural_order)):
            yield index, {"image": members[name], "label": -1}


def open_builder(name: str, data_dir: pathlib.Path, download: bool = False) -> Any:
    """The prepared builder of one of the `odin_*` datasets."""
    config = name.removeprefix("odin_")
    return prepared.open_archive_builder(
        lambda folder: OdinImages(config=config, data_dir=str(folder)),
        name, ARCHIVES[config].file_name, data_dir, download,
    )  # fmt: skip


def to_32x32(*_: Any) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """The function to the central 32x32 pixels: all of a 32x32 picture, no border of a larger."""
    return lambda index, image: tf.image.resize_with_crop_or_pad(image, _SIDE, _SIDE)


def _natural_order(name):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
