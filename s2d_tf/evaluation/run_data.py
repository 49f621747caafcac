"""What a run is evaluated on, where it is not a registered dataset that its recipe names."""

import pathlib

from s2d_tf import data, files
from s2d_tf.recipes import registry
from s2d_tf.storage.layout import METRICS


def known(run, folder=None) -> pathlib.Path | None:
    """The folder of the images of a run on own data; None of other runs."""
    if run.recipe.own_data is None:
        return None
    if not (folder or run.data):
        raise data.MissingDataError(
            f"{run.directory}: expected the folder of its images, received none. Pass "
            "--data=FOLDER."
        )
    return pathlib.Path(folder or run.data)


def name_of(recipe, folder=None) -> str:
    """What metrics call the data: as the recipe does, or like a folder of other images."""
    if folder is None or recipe.own_data is not None:
        return recipe.source_dataset
    return registry.own_name(data.folder_name(folder))


def named(ood) -> dict[str, str | pathlib.Path]:
    """`{name: name or folder}` of what a person names as OOD data."""
    found = {}
    for each in ood:
        is_name = each.partition(".")[0] in data.names()
        name = each if is_name else registry.own_name(data.folder_name(each))
        if name in found:
            raise ValueError(
                f"ood: expected folders with different names, received {name!r} twice. Rename one."
            )
        found[name] = each if is_name else pathlib.Path(each).expanduser().absolute()
    return found


def remembered(directory, recipe) -> dict[str, str | pathlib.Path]:
    """`{name: name or folder}` of the OOD data beside the recipe's that a run was evaluated on."""
    path = directory / METRICS
    metrics = files.read_json(path) if path.is_file() else {}
    names = [key.split("/")[1] for key in metrics if key.endswith("/fingerprint")]
    others = set(names) - {recipe.source_dataset, *recipe.out_of_distribution}
    folders = {name: metrics.get(f"data/{name}/folder") for name in names if name in others}
    return {name: pathlib.Path(place) if place else name for name, place in folders.items()}


def folder_facts(ood) -> dict[str, str]:
    """What `remembered` finds again."""
    return {f"data/{n}/folder": str(p) for n, p in ood.items() if isinstance(p, pathlib.Path)}
