"""Reads a split of a dataset that TFDS has prepared."""

import pathlib

import numpy as np

from s2d_tf.data.location import MissingDataError


def read_split(builder, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one split of a prepared TFDS builder, in the order of its files."""
    import tensorflow_datasets as tfds

    # Files one after the other: with several read at once the order would depend on their number.
    read_config = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    images, labels = builder.as_dataset(
        split=split, batch_size=-1, shuffle_files=False, as_supervised=True, read_config=read_config
    )
    return images.numpy(), labels.numpy().astype(np.int64)


def open_builder(name: str, data_dir: pathlib.Path, download: bool = False):
    """The builder of one of TFDS' own datasets, prepared in `data_dir`.

    Args:
        name: a dataset name of TFDS.
        data_dir: the TFDS folder.
        download: fetch and prepare the dataset when it is not there. Never done unasked.

    Raises:
        MissingDataError: the dataset is not there and `download` is false.
    """
    import tensorflow_datasets as tfds

    builder = tfds.builder(name, data_dir=str(data_dir))
    if not builder.info.splits:
        if not download:
            raise MissingDataError(
                f"Dataset {name!r} is not in {data_dir}; set --data_dir or TFDS_DATA_DIR to the folder "
                f"that holds it, or fetch it with: s2d data {name} --download"
            )
        builder.download_and_prepare()
    return builder
