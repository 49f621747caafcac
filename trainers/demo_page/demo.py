"""What the demo page shows: models side by side, and examples of what they know and do not."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from s2d_tf import data, zoo
from s2d_tf.evaluation import names, run_evaluation
from s2d_tf.models import Predictor

DEFAULT = ("wrn_10_2_s2.individual.digits", "wrn_10_2_s2.s2d.digits")
"""Shipped with their data, so that the demo needs neither network nor downloads."""
MAX_MODELS = 4
EXAMPLES = 2000
"""Known examples, at most, behind the distributions and the thresholds."""
UNKNOWN_EXAMPLES = 500
_TITLES = {"individual": "Plain classifier", "s2d": "S2D classifier"}


@dataclasses.dataclass(frozen=True)
class Demo:
    """Models side by side, and what they are compared on.

    Attributes:
        models: `{title: predictor}`; all take the same inputs, images of one size or texts, and
            have the same classes.
        known: `(inputs, labels)` like those that the models were trained on, but not among them.
            Distributions and thresholds come from these; `None` leaves both out.
        unknown: `{name: inputs}` that are none of the classes.
        data_name: what to call the known inputs.
        note: why examples are missing, for the person who looks at the page.
        fills: whether known images fill their frame, so that drawings are enlarged to fill it, too.

    Example:

    >>> demo = Demo({"mine": zoo.load("wrn_10_2_s2.s2d.digits")})
    >>> demo.kind
    'image'
    """

    models: dict[str, Predictor]
    known: tuple[np.ndarray, np.ndarray] | None = None
    unknown: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    data_name: str = "known inputs"
    note: str = ""
    fills: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.models) <= MAX_MODELS:
            raise ValueError(
                f"models: expected 1 to {MAX_MODELS}, which a page has room for, received "
                f"{len(self.models)}. Choose which to show."
            )
        first, *others = self.models.values()
        same = [first.contract.fits(other.contract) for other in others]
        classes = {(each.num_classes, *(each.class_names or ())) for each in self.models.values()}
        if not all(same) or len(classes) > 1:
            raise ValueError(
                "models: expected the same inputs and classes for all, received models of "
                f"different ones as {list(self.models)}. Show them one by one."
            )
        if self.kind is None:
            raise ValueError(
                "models: expected a model of images of one size with pixels from 0 to 255, or of "
                f"texts, received one of {self.contract.tensors}. Use `predict_uncertainty`."
            )

    @property
    def contract(self) -> Any:
        """What all models take."""
        return next(iter(self.models.values())).contract

    @property
    def kind(self) -> str | None:
        """What goes in: "image", "text", or `None` for what the page has no way to enter."""
        contract = self.contract
        if contract.takes_raw_pixels and None not in contract.image.shape:
            return "image" if contract.image.shape[-1] in (1, 3) else None
        return "text" if [each.dtype for each in contract.tensors] == ["string"] else None

    @property
    def class_names(self) -> list[str]:
        """One for each class; numbers where the models have no names."""
        model = next(iter(self.models.values()))
        return [str(name) for name in model.class_names or range(model.num_classes)]


def open_demo(
    where: Sequence[str | os.PathLike] = (),
    data_dir: str | None = None,
    folder: str | os.PathLike | None = None,
    examples: int = EXAMPLES,
) -> Demo:
    """Opens models by name and looks for the data of the first.

    Args:
        where: zoo entries or run directories, as `zoo.open_model` takes them. A single entry
            of the zoo is shown beside its twin, a plain classifier beside S2D. Default: `DEFAULT`.
        data_dir: TFDS folder.
        folder: images of a run on own data, if they have moved.
        examples: known examples to read, at most.

    Returns:
        The `Demo`; without examples, and with a note that says why, where the data is not
        available.

    Example:

    >>> demo = open_demo(["wrn_10_2_s2.s2d.digits"])
    >>> list(demo.models), len(demo.known[0])
    (['Plain classifier', 'S2D classifier'], 1283)
    """
    chosen = _with_twin(list(where) or list(DEFAULT))
    opened = [zoo.open_model(each) for each in chosen]
    titles = [_TITLES.get(each.recipe.method, each.recipe.title) for each in opened]
    if len(set(titles)) < len(titles):
        titles = [f"{title} ({place})" for title, place in zip(titles, chosen, strict=True)]
    models = {title: each.predictor for title, each in zip(titles, opened, strict=True)}
    recipe, run = opened[0].recipe, opened[0].run
    try:
        place = run_evaluation.own_folder(run, folder) if run is not None else None
        inputs, labels = recipe.load_arrays("test", data_dir, place)
    except data.MissingDataError as error:
        return Demo(models, note=f"No distribution and no threshold: {error}")
    unknown, missing = {}, []
    for name in recipe.out_of_distribution:
        try:
            found, _ = data.load_arrays(name, "test", data_dir)
            unknown[names.dataset_title(name)] = _some(UNKNOWN_EXAMPLES, found)[0]
        except data.MissingDataError:
            missing.append(names.dataset_title(name))
    note = f"Not available on this machine: {', '.join(missing)}." if missing else ""
    title = names.dataset_title(recipe.source_dataset)
    known = _some(examples, inputs, labels)
    return Demo(models, known, unknown, title, note, fills=recipe.source_dataset == "digits")


def _with_twin(where):
    """A single zoo entry with its twin, if that has weights; anything else as it is."""
    if len(where) != 1 or where[0] not in zoo.names(pretrained=True):
        return where
    architecture, method, dataset = where[0].split(".")
    pair = next((pair for pair in names.TWINS.items() if method in pair), ("individual", method))
    found = [f"{architecture}.{each}.{dataset}" for each in pair]
    return found if set(found) <= set(zoo.names(pretrained=True)) else where


def _some(count, *arrays):
    """At most `count` examples, evenly spaced, since some datasets are sorted by class."""
    size = len(arrays[0])
    chosen = np.linspace(0, size - 1, min(count, size)).astype(int)
    return tuple(array[chosen] for array in arrays)
