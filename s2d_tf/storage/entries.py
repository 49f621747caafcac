"""What `entry.json` says, as a typed record. It is data from outside: all of it is checked."""

import dataclasses
import json
import math
import re

from s2d_tf import files, recipes

FORMAT = 1
MAX_TEXT_BYTES = 2**20
MAX_MEMBERS, MAX_DRAWS = 100, 1000
PRECISIONS = ("float16", "float32")
KINDS = ("categorical", "dirichlet")

_NAME = re.compile(r"[a-z0-9_]{1,64}(\.[a-z0-9_]{1,64}){2}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ZooError(ValueError):
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
    """Predictions for fixed images, see `golden`."""

    file: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Record:
    """A published entry.

    Attributes:
        name: `architecture.method.dataset`.
        recipe: the resolved `Recipe` of the run.
        preprocessing: what the model does with raw pixels by itself.
        class_names: one for each class.
        kind, num_members: of the member predictions.
        parameters: trained numbers that a prediction needs.
        weights: a `WeightsFile` for each network; several only for deep ensembles.
        golden: file and sha256 of the predictions for fixed images.
        metrics: the flat dict of `s2d evaluate`, for these very weights.
        spread: `{metric: {"mean", "stddev", "seeds"}}` over runs with other seeds, if any.
        provenance: flat facts on the run and its publication.
    """

    name: str
    recipe: recipes.Recipe
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

    def to_json(self) -> str:
        """The text of `entry.json`."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"


def read(text: str | bytes, where) -> Record:
    """The `Record` in the text of an `entry.json`.

    Raises:
        ZooError: where anything is missing, unknown, of a wrong type or out of bounds, or where the
            network is not one of this zoo.
    """
    try:
        values = files.parse_json(text)
        _expect(isinstance(values, dict), "entry", "a JSON object", values)
        stated = values.pop("format", None)
        _expect(stated == FORMAT, "format", FORMAT, stated)
        record = files.read_record(Record, values, "entry", ZooError)
        _check_recipe(record.recipe)
        _check(record)
        return record
    # TypeError: of values in lists, which the rules of recipes compare.
    except (ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ZooError(f"{where} is not an entry of a zoo: {reason[:400]}") from None


def preprocessing(recipe) -> dict:
    """What a model of this recipe does with the raw pixels that it is given."""
    return {
        "input": "raw pixels 0 to 255, [batch, height, width, channels], uint8 or float32",
        "normalisation": "(pixels - mean) / stddev, inside the model",
        "mean": list(recipe.data.mean),
        "stddev": list(recipe.data.stddev),
    }


def entry_name(name):
    """The name, if it can only be that of an entry: no path, nothing hidden."""
    return _matches(name, _NAME, "entry name")


def file_name(name):
    """The name, if it can only be that of a file in the entry's own folder."""
    return _matches(name, _FILE, "file name")


def _check(record):
    """Values beyond their types."""
    recipe = record.recipe
    _expect(record.name == recipe.name, "name", recipe.name, record.name)
    stated, expected = record.preprocessing, preprocessing(recipe)
    _expect(stated == expected, "preprocessing", expected, stated)
    names, count = record.class_names, recipe.num_classes
    short = len(names) == count and all(len(name) <= 100 for name in names)
    _expect(short, "class_names", f"{count} short names", names)
    _expect(record.kind in KINDS, "kind", " or ".join(KINDS), record.kind)
    _within(record.num_members, "num_members", 1, MAX_MEMBERS * MAX_DRAWS)
    _within(record.parameters, "parameters", 1, 10**12)
    networks = recipe.num_members if recipe.draws == "ensemble" else 1
    _expect(len(record.weights) == networks, "weights", f"{networks} files", record.weights)
    for item in (*record.weights, record.golden):
        file_name(item.file)
        _matches(item.sha256, _SHA256, "sha256")
    for item in record.weights:
        _expect(item.precision in PRECISIONS, "precision", PRECISIONS, item.precision)
        _within(item.seed, "seed", 0, 2**31 - 1)
        _matches(item.source, _SHA256, "source")
        if item.entry is not None:
            entry_name(item.entry)
    _check_flat(record.metrics, "metrics")
    _check_flat(record.provenance, "provenance")
    for key, values in record.spread.items():
        _expect(isinstance(values, dict), f"spread, {key[:60]}", "a JSON object", values)
        _check_flat(values, f"spread, {key[:60]}")


def _check_recipe(recipe):
    """Rejects a recipe whose network is not the one that this zoo builds under that name.

    Training numbers may differ; what decides the network's size may not, so that an entry cannot
    request more memory than the model it names.
    """
    known = recipes.resolve(entry_name(recipe.checked().name))
    for field in (
        "backbone", "arguments", "source_dataset", "num_classes", "heads", "learns", "draws",
        "member", "objective",
    ):  # fmt: skip
        received, expected = getattr(recipe, field), getattr(known, field)
        _expect(received == expected, f"recipe, {field}", expected, received)
    for section in (recipe.data, recipe.training, recipe.model):
        for name, value in dataclasses.asdict(section).items():
            for number in value if isinstance(value, tuple) else (value,):
                finite = not isinstance(number, float) or math.isfinite(number)
                _expect(finite, name, "finite numbers", number)
    channels = len(known.data.mean)
    for name in ("mean", "stddev"):
        numbers = getattr(recipe.data, name)
        ok = len(numbers) == channels and all(type(n) in (int, float) for n in numbers)
        _expect(ok, f"recipe, {name}", f"{channels} numbers", numbers)
    _within(recipe.num_members, "num_members", 1, MAX_MEMBERS)
    _within(recipe.model.num_draws, "num_draws", 1, MAX_DRAWS)
    _within(recipe.model.num_samples, "num_samples", 1, MAX_DRAWS)


def _check_flat(values, where):
    """Allows texts, finite numbers, and lists of them."""
    for key, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            ok = item is None or isinstance(item, (str, bool, int, float))
            ok = ok and not (isinstance(item, float) and not math.isfinite(item))
            _expect(ok, f"{where}, {key[:60]}", "a text or a finite number", item)


def _within(value, where, low, high):
    _expect(low <= value <= high, where, f"{low} to {high}", value)


def _matches(value, pattern, where):
    ok = isinstance(value, str) and pattern.fullmatch(value)
    _expect(ok, where, f"a text like {pattern.pattern}", value)
    return value


def _expect(condition, where, expected, received):
    if not condition:
        raise ZooError(f"{where}: expected {expected}, received {received!r:.80}.")
