"""What every entry's folder ends with: golden predictions, record and card."""

import json
import pathlib

from s2d_tf import files, zoo
from s2d_tf.publishing import card
from s2d_tf.publishing.checks import PublishError
from s2d_tf.storage import entries, golden
from s2d_tf.storage.layout import CARD, ENTRY, GOLDEN


def complete(folder: pathlib.Path, predictor, fields: dict):
    """Writes them beside the weights and steps, then loads the entry as a user would.

    Args:
        folder: the entry's folder, still beside its place.
        predictor: what the entry shall predict.
        fields: of the `entries.Record`; its `golden` is set here.
    """
    files.write_text(folder / GOLDEN, json.dumps(golden.answers(predictor)) + "\n")
    stored = entries.GoldenFile(GOLDEN, files.sha256(folder / GOLDEN))
    record = entries.Record(**{**fields, "golden": stored})
    files.write_text(folder / ENTRY, record.to_json())
    files.write_text(folder / CARD, card.text(record))
    difference = golden.difference(zoo.load(folder), files.read_json(folder / GOLDEN))
    if difference > golden.TOLERANCE:
        raise PublishError(f"{folder} predicts otherwise than when it was made ({difference:.2g}).")
