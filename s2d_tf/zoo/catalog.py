"""The zoo's entries by name, and what is known about them. Only `build` needs TensorFlow."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING

from s2d_tf.zoo import entries, loading, recipes, sources
from s2d_tf.zoo.recipe_fields import Recipe

if TYPE_CHECKING:
    from s2d_tf.models import Predictor


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the zoo.

    Attributes:
        name: `architecture.method.dataset`.
        recipe: all that defines its training.
        folder: where its weights and card are, or `None` if it has not been trained.
        record: what `entry.json` in that folder says, a `zoo.entries.Record`, or `None`.

    Example:

    >>> held = zoo.entry("wrn_10_2_s2.s2d.digits")
    >>> held.pretrained, round(held.record.metrics["digits/accuracy"], 2)
    (True, 0.95)
    """

    name: str
    recipe: Recipe
    folder: pathlib.Path | None = None
    record: entries.Record | None = None

    @property
    def pretrained(self) -> bool:
        return self.record is not None


def names(pretrained: bool | None = None) -> list[str]:
    """Names of entries.

    Args:
        pretrained: `True` for those with weights, `False` for those without, `None` for all.

    Example:

    >>> "wrn_10_2_s2.s2d.digits" in zoo.names(pretrained=True)
    True
    """
    held = sources.pretrained_names()
    return [n for n in recipes.names() if pretrained is None or (n in held) == pretrained]


def entry(name: str) -> Entry:
    """The `Entry` of a name.

    Raises:
        RecipeError: the name is unknown; the message lists the closest ones.

    Example:

    >>> zoo.entry("wrn_28_10.s2d.cifar100").pretrained
    False
    """
    if name not in sources.pretrained_names():
        return Entry(name, recipes.resolve(name))
    folder = sources.pretrained_directory() / name
    record = loading.read_record(sources.Folder(folder))
    if record.name != name:
        raise entries.ZooError(
            f"{folder}: expected the entry {name}, received {record.name}. Rename the folder."
        )
    return Entry(name, record.recipe, folder, record)


def build(name: str, seed: int = 0) -> Predictor:
    """The untrained network of an entry (of a deep ensemble: an ensemble of them).

    Args:
        name: `architecture.method.dataset`.
        seed: of the weights; the members of an ensemble have this and the following ones.

    Example:

    >>> zoo.build("wrn_10_2_s2.s2d.digits").num_classes
    8
    """
    from s2d_tf.zoo import networks

    recipe = recipes.resolve(name)
    count = recipe.num_members if recipe.draws == "ensemble" else 1
    built = [networks.build_network(recipe, seed + i) for i in range(count)]
    return networks.build_predictor(recipe, built)


def listing(chosen: list[str]) -> str:
    """A table of entries for a person: how good those with weights are, and what they cost.

    Args:
        chosen: names of entries.

    Example:

    >>> print(zoo.listing(["wrn_10_2_s2.s2d.digits"]).splitlines()[0].split()[:3])
    ['entry', 'accuracy', 'NLL']
    """
    rows = [("entry", "accuracy", "NLL", "ECE", "parameters", "time", "method")]
    rows += [_row(entry(name)) for name in chosen]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if index in (0, len(row) - 1) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    end = ["", "time: of a prediction, relative to one plain network"]
    if any(not row[1] for row in rows):
        end.append("without metrics: not trained; `s2d train NAME --workdir=DIR`")
    return "\n".join([*lines, *end])


def _row(held: Entry) -> tuple:
    recipe, record = held.recipe, held.record
    if record is None:
        return (held.name, "", "", "", "", "", recipe.title)
    accuracy, nll, ece = (
        record.metrics[f"{recipe.source_dataset}/{key}"] for key in ("accuracy", "nll", "ece")
    )
    time = record.metrics.get("cost/relative_inference_time")
    return (
        held.name,
        f"{accuracy:.1%}",
        f"{nll:.3f}",
        f"{ece:.1%}",
        f"{record.parameters:,}",
        "" if time is None else f"{time:.1f}x",
        recipe.title,
    )
