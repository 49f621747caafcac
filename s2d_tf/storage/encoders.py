"""Encoders on which heads stand: in a folder of their own, and known by the hashes of their files.

They come through KerasHub, which is the extra `text`. Nothing is downloaded.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.recipes import Encoder, Recipe
from s2d_tf.storage.entries import ZooError

if TYPE_CHECKING:
    import keras

    from s2d_tf.models import Encoded, Predictor


def in_front(predictor: Predictor, recipe: Recipe, folder: PathLike) -> Encoded:
    """A predictor of the texts whose vectors a recipe's network takes.

    Args:
        predictor: what the recipe's networks are in.
        recipe: the recipe.
        folder: the files of its encoder.

    Returns:
        A `models.Encoded`.
    """
    from s2d_tf import models

    if recipe.stands_on is None:
        raise ZooError(
            f"encoder: expected none for {recipe.name}, which takes images, received {folder}. "
            "Leave it out."
        )
    return models.Encoded(load(recipe.stands_on, folder), predictor)


def check(encoder: Encoder, folder: PathLike) -> None:
    """Rejects a folder whose files are not those of an encoder, by their hashes."""
    for name, expected in encoder.sha256.items():
        path = pathlib.Path(folder).expanduser() / name
        if not path.is_file():
            raise ZooError(
                f"encoder: expected the folder of {encoder.name} with its {name}, received "
                f"{folder}. Download it as it is published."
            )
        received = files.sha256(path)
        if received != expected:
            raise ZooError(
                f"{path}: expected the sha256 {expected[:12]}... of {encoder.name}, received "
                f"{received[:12]}... Download it again; with another encoder the answers would "
                "mean nothing."
            )


def load(encoder: Encoder, folder: PathLike) -> keras.Model:
    """The checked encoder as a `keras.Model` from texts to vectors."""
    check(encoder, folder)
    return sentence_encoder(folder, encoder.sequence_length)


def sentence_encoder(folder: PathLike, sequence_length: int) -> keras.Model:
    """A BERT encoder from texts to the means of its outputs over their tokens.

    Args:
        folder: its files, as Hugging Face or KerasHub arrange them.
        sequence_length: tokens of a text that it sees.

    Returns:
        A functional `keras.Model`.
    """
    from s2d_tf.models import cast

    try:
        import keras_hub
    except ImportError as error:
        raise ZooError(
            f"keras_hub: expected the package, received {error}. Run pip install 's2d_tf[text]'."
        ) from None
    folder = str(pathlib.Path(folder).expanduser())
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        folder, sequence_length=sequence_length
    )
    return cast.mean_over_tokens(keras_hub.models.BertBackbone.from_preset(folder), preprocessor)
