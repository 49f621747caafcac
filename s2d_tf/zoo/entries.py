"""What `entry.json` says, as a typed record. It is data from outside: all of it is checked."""

from __future__ import annotations

import dataclasses
import json
import re

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.zoo import recipes
from s2d_tf.zoo.recipe_fields import Recipe

FORMAT = 1
MAX_TEXT_BYTES = 2**20
MAX_MEMBERS, MAX_DRAWS, MAX_STEPS, MAX_CLASSES = 100, 1000, 20, 10**5
PRECISIONS = ("float16", "float32")
KINDS = ("categorical", "dirichlet")

_NAME = re.compile(r"[a-z0-9_]{1,64}(\.[a-z0-9_]{1,64}){2}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ZooError(UserError):
    """An entry is unknown, has no weights, or its files are damaged."""


@dataclasses.dataclass(frozen=True)
class WeightsFile:
    """The weights of one network.

    Attributes:
        file: name of the file in the entry's folder, or in that of `entry`.
        sha256: of the file.
        precision: of the numbers in the file.
        seed: of the training run; it also fixes the masks of Monte Carlo dropout.
        source: sha256 of the run's own weights file, from which this one was made.
        entry: name of the entry that holds the file, if it is another one.
    """

    file: str
    sha256: str
    precision: str
    seed: int
    source: str
    entry: str | None


@dataclasses.dataclass(frozen=True)
class GoldenFile:
    """Predictions for fixed images."""

    file: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class StepFile:
    """A fitted post-hoc step.

    Attributes:
        file: name of the file in the entry's folder.
        sha256: of the file.
        step: the step with its options, as text.
        fitted_on: `dataset/split`; empty where nothing was fitted.
    """

    file: str
    sha256: str
    step: str
    fitted_on: str


@dataclasses.dataclass(frozen=True)
class Record:
    """A published entry.

    Attributes:
        name: `architecture.method.dataset`.
        recipe: the resolved `Recipe` of the run.
        preprocessing: what the model does with raw pixels by itself.
        class_names: one for each class.
        kind, num_members: of the member predictions, before any step.
        parameters: trained numbers that a prediction needs.
        weights: a `WeightsFile` for each network; several only for deep ensembles.
        golden: file and sha256 of the predictions for fixed images.
        metrics: the flat dict of `s2d evaluate`, for these very weights and steps.
        spread: `{metric: {"mean", "stddev", "seeds"}}` over runs with other seeds, if any.
        provenance: flat facts on the run and its publication.
        steps: fitted post-hoc steps, in the order in which they stack.
        inputs: what the model takes, as `models.contract.Contract.to_dict` writes it; `None` in
            entries from before there was one.
    """

    name: str
    recipe: Recipe
    preprocessing: dict
    class_names: tuple[str, ...]
    kind: str
    num_members: int
    parameters: int
    weights: tuple[WeightsFile, ...]
    golden: GoldenFile
    metrics: dict
    spread: dict
    provenance: dict
    steps: tuple[StepFile, ...] = ()
    inputs: dict | None = None

    def to_json(self) -> str:
        """The text of `entry.json`; steps and inputs are in it only where there are some."""
        values = dataclasses.asdict(self) | {"recipe": self.recipe.to_dict()}
        for name in ("steps", "inputs"):
            if not values[name]:
                del values[name]
        return json.dumps({"format": FORMAT, **values}, indent=1) + "\n"


def read(text: str | bytes, where: PathLike) -> Record:
    """The `Record` in the text of an `entry.json`.

    Raises:
        ZooError: where anything is missing, unknown, of a wrong type or out of bounds, or where the
            network is not one of this zoo.
    """
    try:
        values = files.parse_json(text)
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise ZooError(f"expected an object of format {FORMAT}, received {values!r:.80}")
        if isinstance(values.get("recipe"), dict):
            values["recipe"] = Recipe.from_dict(values["recipe"])
        record = files.read_record(Record, values, "entry", ZooError)
        for name, holds, expected, received in _rules(record):
            if not holds:
                raise ZooError(f"{name}: expected {expected}, received {received!r:.80}")
        return record
    # TypeError: of values in lists, which the rules of recipes compare.
    except (ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ZooError(
            f"{where}: expected the record of a zoo entry, received another: {reason[:400]}. Get "
            "the entry again."
        ) from None


def preprocessing(recipe: Recipe) -> dict:
    """What a model of this recipe does with the raw pixels that it is given."""
    return {
        "input": "raw pixels 0 to 255, [batch, height, width, channels], uint8 or float32",
        "normalisation": "(pixels - mean) / stddev, inside the model",
        "mean": list(recipe.data.mean),
        "stddev": list(recipe.data.stddev),
    }


def entry_name(name: str) -> str:
    """The name, if it can only be that of an entry: no path, nothing hidden."""
    return _matching(name, _NAME)


def file_name(name: str) -> str:
    """The name, if it can only be that of a file in the entry's own folder."""
    return _matching(name, _FILE)


def _matching(name, pattern):
    if not pattern.fullmatch(name):
        raise ZooError(
            f"name: expected {pattern.pattern}, received {name!r:.80}. Get the entry again."
        )
    return name


def _rules(record):
    """`(name, whether it holds, what is expected, what was received)` beyond names and types.

    Training numbers may be any; what decides the network's size is bounded or that of the
    architecture, so that an entry cannot request more memory than the model it names.
    """
    recipe, names = record.recipe, record.class_names
    network = recipes.network(recipe.architecture)
    count = recipe.num_members if recipe.draws == "ensemble" else 1
    channels = recipe.image_shape[-1]
    short = len(names) == recipe.num_classes and all(len(name) <= 100 for name in names)
    learns = recipe.learns and (recipe.objective or recipe.learns != "teachers")
    weights, stated = record.weights, preprocessing(recipe)
    files_named = (*weights, record.golden, *record.steps)
    facts = {f"spread, {key}"[:80]: values for key, values in record.spread.items()}
    facts |= {"metrics": record.metrics, "provenance": record.provenance}
    return [
        ("name", record.name == recipe.name, recipe.name, record.name),
        _matches("name", record.name, _NAME),
        *((f"recipe, {k}", getattr(recipe, k) == v, v, getattr(recipe, k)) for k, v in network),
        ("recipe, learns", learns, "what the network learns from", recipe.learns),
        ("recipe, own_data", recipe.own_data is None, None, recipe.own_data),
        *(
            ("recipe, data", len(numbers) == channels, f"{channels} numbers", numbers)
            for numbers in (recipe.data.mean, recipe.data.stddev)
        ),
        _between("num_classes", recipe.num_classes, 2, MAX_CLASSES),
        _between("heads", recipe.heads, 1, MAX_MEMBERS),
        _between("num_members", recipe.num_members, 1, MAX_MEMBERS),
        _between("num_draws", recipe.model.num_draws, 1, MAX_DRAWS),
        _between("num_samples", recipe.model.num_samples, 1, MAX_DRAWS),
        ("preprocessing", record.preprocessing == stated, stated, record.preprocessing),
        ("class_names", short, f"{recipe.num_classes} short names", names),
        ("kind", record.kind in KINDS, KINDS, record.kind),
        _between("num_members", record.num_members, 1, MAX_MEMBERS * MAX_DRAWS),
        _between("parameters", record.parameters, 1, 10**12),
        ("weights", len(weights) == count, f"{count} files", weights),
        ("steps", len(record.steps) <= MAX_STEPS, f"up to {MAX_STEPS}", record.steps),
        *(_matches("file", item.file, _FILE) for item in files_named),
        *(_matches("sha256", item.sha256, _SHA256) for item in files_named),
        *(_matches("source", item.source, _SHA256) for item in weights),
        *(_matches("entry", item.entry, _NAME) for item in weights if item.entry is not None),
        *(("precision", i.precision in PRECISIONS, PRECISIONS, i.precision) for i in weights),
        *(_between("seed", item.seed, 0, 2**31 - 1) for item in weights),
        *(
            (key, _is_flat(values), "texts, numbers and lists of them", values)
            for key, values in facts.items()
        ),
    ]


def _matches(name, value, pattern):
    return name, pattern.fullmatch(value), pattern.pattern, value


def _between(name, value, low, high):
    return name, low <= value <= high, f"{low} to {high}", value


def _is_flat(values):
    plain = (str, bool, int, float, type(None))
    return isinstance(values, dict) and all(
        isinstance(item, plain)
        for value in values.values()
        for item in (value if isinstance(value, list) else [value])
    )
