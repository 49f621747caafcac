"""A folder of JPEG and PNG images with one subfolder per class as a dataset.

Either `FOLDER/CLASS/*.jpg`, or split already: `FOLDER/train/CLASS/*.jpg` with `test/` and
`validation/` (or `val/`) beside `train/`. A missing test split is a fixed fifth of the
training images of each class, a validation split a fixed tenth of the rest: those with the smallest
hash of the file, so that neither names nor image size nor a copy of the folder change them.

Files are decoded and resized like those that are sent to an exported model. TFDS and Keras read
such folders, too, but neither names the file that cannot be read, makes splits, or reduces images
without aliasing.
"""

import concurrent.futures
import dataclasses
import functools
import itertools
import os
import pathlib
import re
import warnings
from typing import Any

import numpy as np

from s2d_tf.data import hashing, image_files
from s2d_tf.data.registry import MissingDataError
from s2d_tf.errors import UserError

TEST_FRACTION = 0.2
DEFAULT_SIZE = 32
LARGEST_OWN_SIZE = 64
"""Images that all have one size keep it up to this many pixels a side."""

_OTHER_SUFFIXES = (".bmp", ".gif", ".heic", ".jp2", ".tif", ".tiff", ".webp", ".avif")
_SPLITS = {"train": "train", "test": "test", "validation": "validation", "val": "validation"}
_GRAY = ("1", "L", "LA", "I", "I;16")


class FolderError(UserError):
    """A folder is not a dataset of images; the message says what to change."""


@dataclasses.dataclass(frozen=True)
class ImageFolder:
    """A folder of images as a dataset.

    Attributes:
        path: the folder.
        image_shape: (height, width, channels) that every image is brought to.
        class_names: names of the subfolders, sorted; labels are positions in it.
        files: `{split: ((file, label), ...)}` of "train", "test", "validation" and
            "train_without_validation".

    Example:

    >>> folder = data.open_folder("pictures")
    >>> folder.name, folder.class_names
    ('pictures', ('cat', 'dog'))
    """

    path: pathlib.Path
    image_shape: tuple[int, int, int]
    class_names: tuple[str, ...]
    files: dict[str, tuple[tuple[pathlib.Path, int], ...]]

    @property
    def name(self) -> str:
        """For keys and recipes."""
        return folder_name(self.path)

    def load_arrays(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [N, H, W, C] and labels int64 [N] of a split, sorted by class and name."""
        FolderError.unless(
            self.files.get(split),
            f"{self.path}: expected images in one of the splits {', '.join(self.files)}, "
            f"received {split!r} with none. Add images.",
        )
        paths, labels = zip(*self.files[split], strict=True)
        return _read_images(paths, self.image_shape), np.array(labels, np.int64)


def open_folder(
    path: str | os.PathLike,
    image_size: int | None = None,
    image_shape: tuple[int, int, int] | None = None,
    class_names: tuple[str, ...] | None = None,
) -> ImageFolder:
    """Opens a folder of images; reads the headers of all files, and no pixels yet.

    Args:
        path: the folder.
        image_size: height and width of the images. `None`: their own, if they all have the same
            and it is at most 64x64, else 32x32. They have one channel if all are gray, else three.
        image_shape: all of that, for a model that exists.
        class_names: those of a model that exists; the folder may have fewer.

    Example:

    >>> folder = data.open_folder("pictures")              # pictures/cat/0.png, pictures/dog/0.png
    >>> folder.class_names
    ('cat', 'dog')
    >>> images, labels = folder.load_arrays("train")
    """
    root = _existing(path)
    folders = _split_folders(root)
    found = {split: _classes(folder) for split, folder in folders.items()}
    names = tuple(class_names or found["train"])
    for split, classes in found.items():
        if unknown := [name for name in classes if name not in names]:
            raise FolderError(
                f"{folders[split]}: expected the classes {_some(names)}, received {_some(unknown)}."
                " Rename or remove the folder."
            )
    FolderError.unless(
        class_names is not None or len(names) >= 2,
        f"{folders['train']}: expected at least two classes, received only {names[0]!r}. Put "
        "the images of each class into a subfolder of their own.",
    )
    files = {
        split: tuple((file, names.index(name)) for name, own in classes.items() for file in own)
        for split, classes in found.items()
    }
    headers = [_header(file) for own in files.values() for file, _ in own]
    _raise_for(root, [error for *_, error in headers if error])
    sizes, grays, _ = map(set, zip(*headers, strict=True))
    keeps_size = image_size is None and len(sizes) == 1 and max(max(sizes)) <= LARGEST_OWN_SIZE
    size = max(sizes) if keeps_size else (image_size or DEFAULT_SIZE,) * 2
    shape: Any = tuple(image_shape or (*size, 1 if grays == {True} else 3))
    return ImageFolder(root, shape, names, _with_splits(files))


def folder_name(path: str | os.PathLike) -> str:
    """A folder's own name in small letters, digits and underscores.

    Example:

    >>> data.folder_name("photos/My Flowers")
    'my_flowers'
    """
    name = pathlib.Path(path).expanduser().absolute().name.lower()
    return re.sub(r"[^a-z0-9]+", "_", name).strip("_")[:64] or "images"


def load_images(path: str | os.PathLike, image_shape: tuple[int, int, int]) -> np.ndarray:
    """All JPEG and PNG images in a folder and below it, whatever their class.

    For out-of-distribution data. A warning lists damaged files, which are skipped.

    Args:
        path: the folder.
        image_shape: (height, width, channels) that every image is brought to.

    Returns:
        uint8 [N, H, W, C].

    Raises:
        MissingDataError: there is no such folder.
        FolderError: it holds no image that can be read, or one of another format.

    Example:

    >>> data.load_images("pictures", image_shape=(8, 8, 1)).shape
    (8, 8, 8, 1)
    """
    paths = _images(_existing(path))
    FolderError.unless(
        paths,
        f"{path}: expected JPEG or PNG images, received none. Add some.",
    )
    return _read_images(paths, image_shape, skip=True)


def _existing(path):
    path = pathlib.Path(path).expanduser().absolute()
    MissingDataError.unless(
        path.is_dir(),
        f"{path}: expected a folder of images, received none. Check the path.",
    )
    return path


def _read_images(paths, image_shape, skip=False):
    """Decodes files to uint8 [N, H, W, C]; the array is shared and read-only."""
    versions = tuple((stat.st_mtime_ns, stat.st_size) for stat in map(os.stat, paths))
    stacked, damaged = _read(paths, versions, tuple(image_shape))
    if not skip or len(damaged) == len(paths):
        _raise_for(paths[0].parent.parent, damaged)
    elif damaged:
        warnings.warn(f"skipped {len(damaged)} files: {', '.join(damaged)}", stacklevel=3)
    return stacked


@functools.lru_cache(maxsize=8)
def _read(paths, _versions, image_shape):  # With times and sizes, a changed file is read again.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        images = list(pool.map(lambda path: _decode(path, image_shape), paths))
    damaged = [f"{p} (damaged)" for p, image in zip(paths, images, strict=True) if image is None]
    stacked = np.array([image for image in images if image is not None], np.uint8)
    stacked.setflags(write=False)
    return stacked, damaged


def _decode(path, image_shape):
    """Pixels, or None of a damaged file."""
    import tensorflow as tf

    *size, channels = image_shape
    try:
        pixels = image_files.decode(path.read_bytes(), channels)
    except tf.errors.InvalidArgumentError:
        return None
    return image_files.resize(pixels, size).numpy()


def _header(path):
    """(height, width), whether it is gray, and what is wrong with the file or `None`."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            error = None if image.format in ("JPEG", "MPO", "PNG") else f"{path} ({image.format})"
            return (image.height, image.width), image.mode in _GRAY, error
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        return None, False, f"{path} ({'not an image' if path.stat().st_size else 'empty'})"


def _raise_for(path, errors):
    FolderError.unless(
        not errors,
        f"{path}: expected JPEG and PNG images that can be read, received {len(errors)} other "
        f"files: {_some(errors)}. Replace or remove them.",
    )


def _split_folders(path):
    """`{split: folder}`; a folder that is not split is all "train"."""
    inside = _subfolders(path)
    if "train" not in inside or not _subfolders(path / "train"):
        return {"train": path}
    folders = {_SPLITS.get(name, name): path / name for name in inside}
    FolderError.unless(
        len(folders) >= len(inside) and set(folders) <= set(_SPLITS),
        f"{path}: expected only the splits test and validation (or val) beside train, received "
        f"{_some(inside)}. Move or remove the others.",
    )
    return folders


def _classes(folder):
    """`{class: files}`, sorted; every class has some."""
    found = {name: _images(folder / name) for name in _subfolders(folder)}
    empty = [name for name, files in found.items() if not files]
    FolderError.unless(
        not empty and found,
        f"{folder}: expected one subfolder of JPEG or PNG images per class, received "
        f"{f'no image in {_some(empty)}' if empty else 'no subfolder'}. Put the images of each "
        "class into a subfolder with its name.",
    )
    return found


def _subfolders(folder):
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _images(folder):
    _raise_for(folder, list(image_files.find(folder, _OTHER_SUFFIXES)))
    return tuple(image_files.find(folder))


def _with_splits(files):
    """Adds the splits that are made from "train"."""
    train, made = files["train"], {}
    if "test" not in files:
        train, made["test"] = _divided(train, TEST_FRACTION)
    rest = train
    if "validation" not in files:
        rest, made["validation"] = _divided(train, hashing.VALIDATION_FRACTION)
    return files | {"train": train} | made | {"train_without_validation": rest}


def _divided(files, fraction):
    """The files without, and those with, the smallest hashes."""
    contents = (file.read_bytes() for file, _ in files)
    mask = hashing.smallest_hashes(contents, [label for _, label in files], fraction, at_least=1)
    return tuple(itertools.compress(files, ~mask)), tuple(itertools.compress(files, mask))


def _some(names, count=5):
    shown = ", ".join(map(str, list(names)[:count]))
    return f"{shown}, ..." if len(names) > count else shown
