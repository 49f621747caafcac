"""Datasets that TFDS prepares: its own, and those that are built from one published archive.

The archives are Tiny ImageNet, and the LSUN and Tiny ImageNet pictures of the ODIN paper; facts of
the latter are from pytorch-ood (`src/pytorch_ood/dataset/img/odin.py`). Nothing is unpacked to disk
and the names of members are never used as paths, so an archive cannot write anywhere.
"""

import dataclasses
import functools
import hashlib
import pathlib
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf.data import hashing, image_files
from s2d_tf.data.registry import ArchiveError, MissingDataError, writable_dir

CROP_SEED = 32
MAX_MEMBER_BYTES = 16 * 2**20
"""Far more than any picture or list in Tiny ImageNet takes; stops decompression bombs."""
_SIDE = 32


@dataclasses.dataclass(frozen=True)
class Archive:
    """A published archive: its file, the folder of its pictures, its checksum and address."""

    file_name: str
    folder: str
    md5: str
    url: str


_DROPBOX = "https://www.dropbox.com/s/raw"
ODIN = {
    "lsun_crop": Archive(
        "LSUN.tar.gz", "LSUN/test", "458a0a0ab8e5f1cb4516d7400568e460",
        f"{_DROPBOX}/fhtsw1m3qxlwj6h/LSUN.tar.gz",
    ),
    "lsun_resize": Archive(
        "LSUN_resize.tar.gz", "LSUN_resize/LSUN_resize", "278b7b31c8cb7e804a1465a8ce03a2dc",
        f"{_DROPBOX}/moqh2wh8696c3yl/LSUN_resize.tar.gz",
    ),
    "tiny_imagenet_crop": Archive(
        "Imagenet.tar.gz", "Imagenet/test", "7c0827e4246c3718a5ee076e999e52e5",
        f"{_DROPBOX}/avgm2u562itwpkl/Imagenet.tar.gz",
    ),
    "tiny_imagenet_resize": Archive(
        "Imagenet_resize.tar.gz", "Imagenet_resize/Imagenet_resize",
        "0f9ff11d45babf2eff5fe12281d1ac31", f"{_DROPBOX}/kp3my3412u5k9rl/Imagenet_resize.tar.gz",
    ),
}  # fmt: skip


class ArchiveBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Builds a dataset from one archive.

    A subclass has `published`, an `Archive`, and `read(path)`, which returns all pairs of an
    encoded or decoded image and its label.
    """

    published: Any
    read: Any
    VERSION = tfds.core.Version("1.0.0")
    # TFDS would look beside this file for a table of checksums, for which release 4.9.10 needs a
    # package that it does not install. Archives are checked by us.
    code_path = None
    image: Any = tfds.features.Image(shape=(None, None, 3))
    label: Any = tfds.features.Scalar(np.int64)
    any_archive = False
    """Whether an archive in the folder for manual downloads may have another checksum."""
    manual: pathlib.Path | None = None
    """The archive, where it need not be downloaded."""

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description=(self.__doc__ or "").splitlines()[0],
            features=tfds.features.FeaturesDict({"image": self.image, "label": self.label}),
            supervised_keys=("image", "label"),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        path = self.manual or pathlib.Path(dl_manager.download(self.published.url))
        if not (self.manual and self.any_archive):
            hashing.check_digest(path, self.published.md5)
        return {"test": self._generate_examples(self.read(path))}

    def _generate_examples(self, examples):
        for index, (image, label) in enumerate(examples):
            yield index, {"image": image, "label": label}


class TinyImagenet(ArchiveBuilder):
    """Tiny ImageNet's official pictures, byte for byte, in the official order.

    `test` is the official validation folder, which papers on out-of-distribution detection use; the
    official test pictures have no labels. Labels are positions in the archive's `wnids.txt`.
    """

    image = tfds.features.Image(shape=(64, 64, 3), encoding_format="jpeg")
    label = tfds.features.ClassLabel(num_classes=200)
    published = Archive(
        "tiny-imagenet-200.zip", "tiny-imagenet-200", "90528d7ca1a48142e341f4ef8d21d0de",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    )  # fmt: skip
    any_archive = True  # Often one without the training images.

    def read(self, path: pathlib.Path) -> list[tuple]:
        root, folder = self.published.folder, f"{self.published.folder}/val/images/"
        try:
            with zipfile.ZipFile(path) as archive:
                wnids, lines = (
                    _read_member(archive, f"{root}/{name}").decode("utf-8").split("\n")[:-1]
                    for name in ("wnids.txt", "val/val_annotations.txt")
                )
                annotations = (line.split("\t")[:2] for line in lines)
                labels = {f"{folder}{name}": wnids.index(wnid) for name, wnid in annotations}
                names = {name for name in archive.namelist() if name.startswith(folder)} - {folder}
                if different := names ^ labels.keys():
                    raise ValueError(f"expected all pictures, received other {min(different)!r}")
                return [(_read_picture(archive, name), label) for name, label in labels.items()]
        except Exception as error:  # Damaged files make zipfile raise errors of a dozen kinds.
            reason = (str(error).splitlines() or [""])[0].rstrip(":")[:200] or type(error).__name__
            raise ArchiveError(
                f"{path}: expected a complete zip file in the official layout of Tiny ImageNet, "
                f"received a damaged or another one ({reason}). Get it again."
            ) from error


def _read_member(archive, name):
    """A member of a zip file whose sizes and sums are right."""
    member = archive.getinfo(name)
    with archive.open(member) as file:
        content = file.read(MAX_MEMBER_BYTES)
    if len(content) != member.file_size:
        raise ValueError(
            f"{name!r}: expected {member.file_size:,} bytes, received {len(content):,}"
        )
    return content


def _read_picture(archive, name):
    """A member that is a whole JPEG file of 64x64 pixels."""
    encoded = _read_member(archive, name)
    size = list(image_files.decode(encoded).shape[:2])
    if size != [64, 64] or not encoded.startswith(image_files.JPEG_START):
        raise ValueError(f"{name!r}: expected a JPEG file of 64x64 pixels, received one of {size}")
    return encoded


class OdinImages(ArchiveBuilder):
    """Pictures of one archive of the ODIN paper, in the order of the numbers in their names."""

    BUILDER_CONFIGS = [  # noqa: RUF012 (TFDS wants a list)
        tfds.core.BuilderConfig(name=name, description=f"{archive.file_name}, {archive.folder}")
        for name, archive in ODIN.items()
    ]

    @property
    def published(self) -> Archive:
        return ODIN[self.builder_config.name]

    def read(self, path: pathlib.Path) -> list[tuple]:
        folder = pathlib.PurePosixPath(self.published.folder)
        members = {pathlib.PurePosixPath(name): encoded for name, encoded in read_tar(path)}
        # Copies made on a Mac carry hidden files beside the pictures.
        found = (p for p in members if p.parent == folder and not p.name.startswith("."))
        return [(members[place], -1) for place in sorted(found, key=_natural_order)]


def read_tar(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files of a tar archive whose checksum is known, in its order."""
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile():
                yield member.name, tar.extractfile(member).read()  # type: ignore[union-attr]


def _natural_order(path):
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


_BUILDERS: dict[str, Any] = {
    "tiny_imagenet_resize": TinyImagenet,
    "tiny_imagenet_crop": TinyImagenet,
    **{f"odin_{config}": functools.partial(OdinImages, config=config) for config in ODIN},
}


def load(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one split, reduced to 32x32 pixels.

    Of TFDS' own datasets, as they are. `tiny_imagenet_resize` takes the mean of each 2x2 block, an
    antialiased (area) resize that is exact in integers. `tiny_imagenet_crop` cuts a 32x32 window at
    a place fixed by (CROP_SEED, index). The ODIN images are their central 32x32 pixels: all of a
    32x32 picture, no border of a larger one.
    """
    builder = open_builder(name, data_dir, download=False)
    if not isinstance(builder, ArchiveBuilder):
        return read_split(builder, split)
    offsets = crop_offsets(builder.info.splits["test"].num_examples)

    def reduce(index, image):
        if name.startswith("odin_"):
            return tf.image.resize_with_crop_or_pad(image, _SIDE, _SIDE)
        if name == "tiny_imagenet_crop":
            return tf.slice(image, [*tf.unstack(tf.gather(offsets, index)), 0], [_SIDE, _SIDE, 3])
        # The mean of each 2x2 block, rounded half up.
        blocks = tf.reshape(tf.cast(image, tf.int32), [_SIDE, 2, _SIDE, 2, 3])
        return tf.cast((tf.reduce_sum(blocks, axis=[1, 3]) + 2) // 4, tf.uint8)

    return read_split(builder, split, reduce)


def crop_offsets(count: int, seed: int = CROP_SEED) -> np.ndarray:
    """Top and left of the window of pictures 0 to count - 1; each depends on (seed, index) only."""
    digests = (hashlib.sha256(f"{seed}/{index}".encode()).digest() for index in range(count))
    numbers = np.frombuffer(b"".join(digests), dtype="<u8").reshape(count, 4)[:, :2]
    return (numbers % (64 - _SIDE + 1)).astype(np.int32)


def open_builder(name: str, data_dir: pathlib.Path, download: bool = True) -> Any:
    """The prepared builder of one of our datasets, or of a dataset of TFDS.

    Args:
        name: the dataset.
        data_dir: the TFDS folder.
        download: fetch and prepare the dataset when it is not there, which is an error otherwise.
    """
    if name in _BUILDERS:
        return open_archive(_BUILDERS[name], name, data_dir, download)
    # Looked up here first: TFDS would ask the network about a dataset that it does not find.
    is_there = any((data_dir / name).glob("*/dataset_info.json"))
    if not is_there and not download:
        raise MissingDataError(
            f"{data_dir}: expected the dataset {name!r}, received none. Set --data_dir or "
            f"TFDS_DATA_DIR to the folder that holds it, or run `s2d data {name} --download`."
        )
    builder = tfds.builder(name, data_dir=str(data_dir))
    if not is_there:
        builder.download_and_prepare()
    return builder


def open_archive(
    make_builder: Callable[..., ArchiveBuilder],
    name: str,
    data_dir: pathlib.Path,
    download: bool,
) -> ArchiveBuilder:
    """The builder of a dataset that is made from one archive, prepared where that is possible.

    A copy already prepared in `data_dir` is used. Otherwise one is prepared from the archive in
    `data_dir/downloads/manual`: in `data_dir` itself, or, when that is read-only, in the cache
    folder under the archive's MD5, so that different archives never share a copy.

    Arguments as for `open_builder`; `make_builder` is a function of `data_dir`.
    """
    folder, builder = data_dir, make_builder(data_dir=data_dir)
    if builder.info.splits:
        return builder
    archive = data_dir / "downloads" / "manual" / builder.published.file_name  # as TFDS does
    has_archive = archive.is_file()
    if not has_archive and not download:
        raise MissingDataError(
            f"{archive.parent}: expected {archive.name}, which {name!r} is prepared from, "
            "received none. Put it there, set --data_dir or TFDS_DATA_DIR to another "
            f"folder, or run `s2d data {name} --download`."
        )
    if has_archive and writable_dir(data_dir) != data_dir:
        builder = make_builder(data_dir=writable_dir(data_dir) / hashing.file_digest(archive))
    builder.manual = archive if has_archive else None
    try:
        # Does nothing where there is a copy. Downloads go to the same folder: TFDS makes its
        # subfolders even when it fetches nothing.
        builder.download_and_prepare(
            download_dir=str(folder / "downloads"),
            download_config=tfds.download.DownloadConfig(try_download_gcs=False),
        )
    except OSError:
        # Another process may have prepared the same copy meanwhile. TFDS moves a finished copy
        # into place in one step, so what is there is complete.
        if not (pathlib.Path(builder.data_dir) / "dataset_info.json").is_file():
            raise
    return make_builder(data_dir=folder)


def read_split(
    builder: Any, split: str, transform: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one split, in the order of its files.

    Args:
        builder: a prepared builder with features "image" and "label".
        split: name of the split.
        transform: function (index, uint8 [h, w, 3]) -> uint8 [H, W, 3], in a graph.
    """
    if split not in builder.info.splits:
        raise MissingDataError(
            f"{builder.data_dir}: expected the split {split!r}, received only "
            f"{', '.join(builder.info.splits)}. Set --data_dir or TFDS_DATA_DIR to a complete copy."
        )
    dataset = builder.as_dataset(
        split=split,
        as_supervised=True,
        shuffle_files=False,
        decoders={"image": tfds.decode.SkipDecoding()},
        # Files one after the other: with several read at once the order would depend on their
        # number.
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
    )

    def decode(index, example):
        encoded, label = example
        image = image_files.decode(encoded)
        return transform(index, image) if transform else image, label

    dataset = dataset.enumerate().map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    images, labels = zip(*dataset.batch(1_000).as_numpy_iterator(), strict=True)
    return np.concatenate(images), np.concatenate(labels)
