"""The recipe that a command line asks for: on images of one's own, or with values changed."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable

import numpy as np
from absl import logging

from s2d_tf import data
from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes
from s2d_tf.zoo.recipes import SECTIONS, OwnData, Recipe, RecipeError

CHUNK_IMAGES = 256


def resolve(name: str, path: PathLike | None = None, image_size: int | None = None) -> Recipe:
    """The recipe of a name, or of `architecture.method` on a folder of images, which it reads.

    Args:
        name: `architecture.method.dataset`; without the dataset if there is a folder.
        path: the folder; see `data.open_folder`.
        image_size: height and width of its images; `None` chooses.
    """
    if path is None:
        return recipes.resolve(name)
    recipes.check_network(name)
    folder = data.open_folder(path, image_size)
    counts = {split: len(files) for split, files in folder.files.items()}
    shape = "x".join(map(str, folder.image_shape))
    logging.info("reading %s as %s: %s", folder.path, shape, counts)
    for split in ("test", "validation"):
        folder.load_arrays(split)  # A damaged image is an error now and not after the training.
    images, labels = folder.load_arrays("train")
    mean, stddev = statistics(images)
    own_data = OwnData(
        image_shape=folder.image_shape,
        class_names=folder.class_names,
        mean=mean,
        stddev=stddev,
        images=len(images),
        fingerprint=data.fingerprint(images, labels),
    )
    return recipes.resolve_own(name, folder.name, own_data)


def statistics(images: np.ndarray) -> tuple[tuple, tuple]:
    """Mean and standard deviation of each channel of raw pixels, to one decimal.

    A channel with less than one gray level of variation has a deviation of 1.
    """
    sums = np.zeros([2, images.shape[-1]])
    for start in range(0, len(images), CHUNK_IMAGES):
        pixels = images[start : start + CHUNK_IMAGES].astype(np.float64)
        sums += [pixels.sum(axis=(0, 1, 2)), (pixels**2).sum(axis=(0, 1, 2))]
    mean, square = sums / (images.size / images.shape[-1])
    stddev = np.sqrt(np.maximum(square - mean**2, 1.0))
    return tuple(mean.round(1).tolist()), tuple(stddev.round(1).tolist())


def override(
    recipe: Recipe,
    assignments: Iterable[str] = (),
    epochs: int | None = None,
    members: int | None = None,
) -> Recipe:
    """A recipe with some values changed.

    A student may have another loss, other teachers and another start:
    `["objective=normal_kl_divergence", "teachers=ensemble", "start=individual"]`, where
    `start=none` is from scratch, and `start=s2d@0.5` from half of the epochs of `s2d`.

    Args:
        recipe: the recipe, which stays as it is.
        assignments: texts such as "model.noise_stddev=0.2", as `--set` takes them.
        epochs: the number of epochs.
        members: the number of members of an ensemble.

    Raises:
        RecipeError: a key is unknown, or a value is of another type or out of its range.

    Example:

    >>> recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    >>> training.override(recipe, ["model.temperature=2.0"], epochs=5).model.temperature
    2.0
    """
    changes = recipe.to_dict()
    if epochs is not None:
        changes["training"]["epochs"] = epochs
    if members is not None:
        if recipe.draws == "point":
            raise RecipeError(
                f"--members: expected none for {recipe.name}, which has one member, received "
                f"{members}. Leave it out."
            )
        changes["num_members"] = members
    for assignment in assignments:
        key, _, text = assignment.partition("=")
        section, _, name = key.partition(".")
        if key in ("objective", "teachers", "start") and recipe.objective:
            changes[key] = _start(text) if key == "start" else text
            continue
        if section not in SECTIONS or name not in changes[section]:
            known = [f"{s}.{n}" for s in SECTIONS for n in changes[s]]
            # A name without its section is as good as a typo.
            typed = [k for k in known if k.endswith(f".{key}")]
            near = typed or difflib.get_close_matches(key, known, n=3, cutoff=0.7)
            keys = f"a key such as {' or '.join(near)}" if near else f"one of {', '.join(known)}"
            raise RecipeError(f"--set: expected {keys}, received {assignment!r}. Correct the key.")
        try:
            changes[section][name] = json.loads(text)
        except json.JSONDecodeError:
            changes[section][name] = text
    return Recipe.from_dict(changes)


def _start(text):
    """A start as a recipe has it, from `METHOD`, `METHOD@FRACTION` or `none`."""
    method, _, at = text.partition("@")
    try:
        return None if text == "none" else {"method": method, "at": float(at or 1)}
    except ValueError:
        raise RecipeError(
            f"start: expected METHOD, METHOD@FRACTION or none, received {text!r}."
            " Write it as s2d@0.5."
        ) from None
