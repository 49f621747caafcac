"""What every entry's folder ends with: record and card."""

from __future__ import annotations

import pathlib

from s2d_tf import files, zoo
from s2d_tf.zoo import entries
from s2d_tf.zoo.layout import CARD, ENTRY, GOLDEN

from . import card, golden
from .checks import PublishError


def complete(folder: pathlib.Path, record: entries.Record) -> None:
    """Writes both beside weights, steps and golden predictions; then loads the entry as a user."""
    files.write_text(folder / ENTRY, record.to_json())
    files.write_text(folder / CARD, card.text(record))
    difference = golden.difference(zoo.load(folder), files.read_json(folder / GOLDEN))
    if difference > golden.TOLERANCE:
        raise PublishError(
            f"{folder}: expected the predictions of {GOLDEN}, received others, different by up to "
            f"{difference:.2g}. Publish it again."
        )
