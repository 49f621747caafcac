"""What a run is evaluated on, where it is not a registered dataset that its recipe names."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from s2d_tf import data, files
from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes as registry
from s2d_tf.zoo.layout import METRICS

if TYPE_CHECKING:
    from s2d_tf.zoo import Run
    from s2d_tf.zoo.recipes import Recipe


def known(run: Run, folder: PathLike | None = None) -> pathlib.Path | None:
    """The folder of the images of a run on own data; None of other runs."""
    if run.recipe.own_data is None:
        return None
    place = folder or run.data
    if not place:
        raise data.MissingDataError(
            f"{run.directory}: expected the folder of its images, received none. Pass "
            "--data=FOLDER."
        )
    return pathlib.Path(place)


def name_of(recipe: Recipe, folder: PathLike | None = None) -> str:
    """What metrics call the data: as the recipe does, or like a folder of other images."""
    if folder is None or recipe.own_data is not None:
        return recipe.source_dataset
    return registry.own_name(data.folder_name(folder))


def named(ood: Iterable[str]) -> dict[str, str | pathlib.Path]:
    """`{name: name or folder}` of what a person names as OOD data."""
    found: dict[str, str | pathlib.Path] = {}
    for each in ood:
        is_name = each.partition(".")[0] in data.names()
        if not is_name and not pathlib.Path(each).expanduser().is_dir():
            raise data.MissingDataError(
                f"ood: expected a dataset's name or a folder of images, received {each!r}. "
                "`s2d data` lists the names."
            )
        name = each if is_name else registry.own_name(data.folder_name(each))
        if name in found:
            raise ValueError(
                f"ood: expected folders with different names, received {name!r} twice. Rename one."
            )
        found[name] = each if is_name else pathlib.Path(each).expanduser().absolute()
    return found


def remembered(directory: PathLike, recipe: Recipe) -> dict[str, str | pathlib.Path]:
    """`{name: name or folder}` of the OOD data beside the recipe's that a run was evaluated on."""
    path = pathlib.Path(directory) / METRICS
    metrics = files.read_json(path) if path.is_file() else {}
    names = [key.split("/")[1] for key in metrics if key.endswith("/fingerprint")]
    others = set(names) - {recipe.source_dataset, *recipe.out_of_distribution}
    folders = {name: metrics.get(f"data/{name}/folder") for name in names if name in others}
    return {name: pathlib.Path(place) if place else name for name, place in folders.items()}


def folder_facts(ood: dict[str, str | pathlib.Path]) -> dict[str, str]:
    """What `remembered` finds again."""
    return {f"data/{n}/folder": str(p) for n, p in ood.items() if isinstance(p, pathlib.Path)}
