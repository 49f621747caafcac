"""Lists all datasets, or shows one's splits, sizes, classes and fingerprints.

usage: s2d data [NAME_OR_FOLDER] [--split=SPLIT] [--data_dir=DIR] [--download]

    s2d data                              # all datasets
    s2d data cifar100
    s2d data flowers                      # a folder of images with one subfolder per class

A fingerprint is a hash of all images and labels of a split, in any order. Equal fingerprints mean
equal data.
"""

import pathlib

from absl import flags

from . import _flags

_SPLIT = flags.DEFINE_string("split", None, "Show only this split.")
_DATA_DIR = _flags.data_dir()
_DOWNLOAD = flags.DEFINE_boolean(
    "download", False, "Download the dataset from its official source if it is not available."
)


def main(argv: list[str]) -> None:
    from s2d_tf import data

    named = _flags.arguments(argv, "NAME", "one dataset", "s2d data", 0, 1)
    if not named:
        _list(data)
    elif named[0] not in data.names() and pathlib.Path(named[0]).expanduser().is_dir():
        folder = data.open_folder(named[0])
        splits = [_SPLIT.value] if _SPLIT.value else [s for s in folder.files if folder.files[s]]
        _show(data, folder, f"{folder.name}: {folder.path}", splits, folder.load_arrays)
    else:
        _show_registered(data, data.info(named[0]))


def _list(data):
    row = "{:<28}{:<12}{:>8}{:>9}{:>9}   {:<10}{}"
    print(row.format("name", "image", "classes", "train", "test", "distance", "title"))
    for record in map(data.info, data.names()):
        sizes = [f"{record.splits[s]:,}" if s in record.splits else "-" for s in ("train", "test")]
        shape = "x".join(map(str, record.image_shape)) or "-"
        facts = record.num_classes or "-", *sizes, record.distance or "-", record.title
        print(row.format(record.name, shape, *facts))


def _show_registered(data, record):
    if _DOWNLOAD.value:
        data.fetch(record.name, _DATA_DIR.value)
    title = f"{record.name}: {record.title}\ncitation  {record.citation}"
    title += f"\nterms     {record.terms}" if record.terms else ""
    if record.conditions and "." not in record.name:
        names = ", ".join(record.conditions)
        print(f"{title}\nConditions, as in {record.name}.{record.conditions[0]}: {names}")
        return
    folder = data.resolve_data_dir(_DATA_DIR.value)
    splits = [_SPLIT.value] if _SPLIT.value else data.splits(record.name)
    read = lambda split: data.load_arrays(record.name, split, folder)  # noqa: E731
    _show(data, record, title, splits, read)


def _show(data, record, title, splits, read):
    arrays, missing = {}, []
    for split in splits:  # All before anything is printed: a failure reports nothing else.
        try:
            arrays[split] = read(split)
        except data.MissingDataError as error:
            missing.append(error)
    if not arrays:
        raise missing[-1]
    names = record.class_names or ()
    shape = "x".join(map(str, record.image_shape))
    official = getattr(record, "splits", {})
    print(title)
    print(f"image     uint8 {shape}" if shape else "input     text")
    classes = getattr(record, "num_classes", len(names)) or "none; every label is -1"
    print(f"classes   {classes}" + (f" ({', '.join(names)})" if names else ""))
    print(f"\n{'split':<26}{'images' if shape else 'inputs':>8}   fingerprint")
    for split, (inputs, labels) in arrays.items():
        count = official.get(split, len(inputs))
        note = "" if count == len(inputs) else f"   (the official split has {count:,})"
        print(f"{split:<26}{len(inputs):>8,}   {data.fingerprint(inputs, labels)}{note}")
