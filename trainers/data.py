"""Lists all datasets, or shows one's splits, sizes, classes and fingerprints.

usage: s2d data [NAME_OR_FOLDER] [--split=SPLIT] [--data_dir=DIR] [--preview=FILE.png] [--download]

    s2d data                              # all datasets
    s2d data cifar100 --preview=100.png
    s2d data flowers                      # a folder of images with one subfolder per class

A fingerprint is a hash of all images and labels of a split, in any order. Equal fingerprints mean
equal data.
"""

import pathlib

from absl import flags

from . import _flags

_SPLIT = flags.DEFINE_string("split", None, "Show only this split.")
_DATA_DIR = _flags.data_dir()
_PREVIEW = flags.DEFINE_string(
    "preview", None, "Write images and labels of the split (default: test) to this PNG file."
)
_DOWNLOAD = flags.DEFINE_boolean(
    "download", False, "Download the dataset from its official source if it is not available."
)


def main(argv: list[str]) -> None:
    from s2d_tf import data

    if len(argv) > 2:
        raise ValueError(
            f"NAME: expected one dataset, received {argv[1:]!r}. `s2d data` lists the names."
        )
    if len(argv) < 2:
        _list(data)
        return
    if argv[1] not in data.names() and pathlib.Path(argv[1]).expanduser().is_dir():
        _show_folder(data, data.open_folder(argv[1]))
        return
    record = data.info(argv[1])
    if _PREVIEW.value and not record.image_shape:
        raise ValueError(
            f"--preview: expected a dataset of images, received {record.name!r}, which has texts. "
            "Drop the flag."
        )
    if _DOWNLOAD.value:
        data.fetch(record.name, _DATA_DIR.value)
    if record.conditions:
        _show_conditions(record)
        return
    _show(data, record)
    if _PREVIEW.value:
        split = _SPLIT.value or "test"
        images, labels = data.load_arrays(record.name, split, _DATA_DIR.value)
        title = f"{record.name}, {split}: {len(images):,} images"
        data.write_preview(
            _PREVIEW.value, images, labels, title=title, class_names=record.class_names
        )
        print(f"Wrote {_PREVIEW.value}")


def _show_folder(data, folder):
    splits = [_SPLIT.value] if _SPLIT.value else folder.files
    arrays = {split: folder.load_arrays(split) for split in splits if folder.files.get(split)}
    print(f"{folder.name}: {folder.path}")
    print(f"image     uint8 {'x'.join(map(str, folder.image_shape))}")
    print(f"classes   {len(folder.class_names)} ({', '.join(folder.class_names)})")
    print(f"\n{'split':<26}{'images':>8}   fingerprint")
    for split, (images, labels) in arrays.items():
        print(f"{split:<26}{len(images):>8,}   {data.fingerprint(images, labels)}")
    if _PREVIEW.value:
        split = _SPLIT.value or "train"
        title = f"{folder.name}, {split}: {len(arrays[split][0]):,} images"
        names = folder.class_names
        data.write_preview(_PREVIEW.value, *arrays[split], title=title, class_names=names)
        print(f"Wrote {_PREVIEW.value}")


def _list(data):
    row = "{:<28}{:<12}{:>8}{:>9}{:>9}   {}"
    print(row.format("name", "image", "classes", "train", "test", "role"))
    for name in data.names():
        record = data.info(name)
        sizes = [f"{record.splits[s]:,}" if s in record.splits else "-" for s in ("train", "test")]
        shape = "x".join(map(str, record.image_shape)) or "text"
        print(row.format(name, shape, record.num_classes or "-", *sizes, record.role))


def _show_conditions(record):
    print(f"{record.name}: {record.role}")
    print(f"citation  {record.citation}")
    print(f"Conditions, as in {record.name}.{record.conditions[0]}: {', '.join(record.conditions)}")


def _show(data, record):
    splits = [_SPLIT.value] if _SPLIT.value else data.available_splits(record.name, _DATA_DIR.value)
    # Read before anything is printed, so that missing data is all that a failure reports.
    data.load_arrays(record.name, splits[0], _DATA_DIR.value)
    names = record.class_names
    classes = f"{record.num_classes}" + (f" ({', '.join(names)})" if names else "")
    print(f"{record.name}: {record.role}")
    print(f"citation  {record.citation}")
    shape = "x".join(map(str, record.image_shape))
    print(f"image     uint8 {shape}" if shape else "input     text")
    print(f"classes   {classes if record.num_classes else 'none; every label is -1'}")
    if record.source != "embedded":
        print(f"data_dir  {data.resolve_data_dir(_DATA_DIR.value)}")
    print(f"\n{'split':<26}{'images' if shape else 'texts':>8}   fingerprint")
    for split in splits:
        images, labels = data.load_arrays(record.name, split, _DATA_DIR.value)
        official = record.splits.get(split, len(images))
        note = "" if official == len(images) else f"   (the official split has {official:,})"
        print(f"{split:<26}{len(images):>8,}   {data.fingerprint(images, labels)}{note}")
