"""What `entry.json` says, as a typed record. It is data from outside: all of it is checked."""

import dataclasses
import json
import math
import re

from s2d_tf import recipes

FORMAT = 1
ENTRY, CARD, GOLDEN = "entry.json", "README.md", "golden.json"
MAX_TEXT_BYTES = 2**20
MAX_MEMBERS, MAX_DRAWS = 100, 1000
PRECISIONS = ("float16", "float32")

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
        entry: name of the entry that holds the file, where it is another one.
        sha256: of the file.
        precision: of the numbers in the file.
        seed: of the training run; it also fixes the masks of Monte Carlo dropout.
        source: sha256 of the run's own weights file, from which this one was made.
    """

    file: str
    sha256: str
    precision: str
    seed: int
    source: str
    entry: str | None = None


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
    class_names: tuple
    kind: str
    num_members: int
    parameters: int
    weights: tuple
    golden: dict
    metrics: dict
    spread: dict
    provenance: dict

    def to_json(self):
        """The text of `entry.json`."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, indent=1) + "\n"


def read(text, where):
    """The `Record` in the text of an `entry.json`.

    Raises:
        ZooError: where anything is missing, unknown, of a wrong type or out of bounds, or where the
            network is not one of this zoo.
    """
    try:
        return _record(_parse_json(text))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ZooError(f"{where} is not an entry of a zoo: {reason[:400]}") from None


def read_json(text, where):
    """JSON values without repeated keys, infinities and NaN."""
    try:
        return _parse_json(text)
    except (ValueError, RecursionError) as error:
        raise ZooError(f"{where} is damaged: {' '.join(str(error).split())[:200]}") from None


def _parse_json(text):
    def unique(pairs):
        values = dict(pairs)
        if len(values) != len(pairs):
            raise ZooError("a key appears twice")
        return values

    def refuse(constant):
        raise ZooError(f"expected a number, received {constant}")

    if isinstance(text, bytes):
        text = text.decode("utf-8")
    return json.loads(text, object_pairs_hook=unique, parse_constant=refuse)


def _record(values):
    fields = {field.name for field in dataclasses.fields(Record)}
    _keys(values, fields | {"format"}, "entry")
    _expect(values["format"] == FORMAT, "format", FORMAT, values["format"])
    recipe = _recipe(values["recipe"])
    _expect(values["name"] == recipe.name, "name", recipe.name, values["name"])
    _keys(values["golden"], {"file", "sha256"}, "golden")
    networks = recipe.num_members if recipe.draws == "ensemble" else 1
    listed = values["weights"]
    _expect(
        isinstance(listed, list) and len(listed) == networks,
        "weights",
        f"a list of {networks}",
        listed,
    )
    class_names = values["class_names"]
    _expect(
        isinstance(class_names, list)
        and len(class_names) == recipe.num_classes
        and all(isinstance(name, str) and len(name) <= 100 for name in class_names),
        "class_names",
        f"{recipe.num_classes} short names",
        class_names,
    )
    _expect(
        values["preprocessing"] == preprocessing(recipe),
        "preprocessing",
        preprocessing(recipe),
        values["preprocessing"],
    )
    kind = values["kind"]
    _expect(kind in ("categorical", "dirichlet"), "kind", "categorical or dirichlet", kind)
    return Record(
        name=values["name"],
        recipe=recipe,
        preprocessing=values["preprocessing"],
        class_names=tuple(class_names),
        kind=kind,
        num_members=_integer(values["num_members"], "num_members", 1, MAX_MEMBERS * MAX_DRAWS),
        parameters=_integer(values["parameters"], "parameters", 1, 10**12),
        weights=tuple(_weights_file(item) for item in listed),
        golden={
            "file": file_name(values["golden"]["file"]),
            "sha256": _matches(values["golden"]["sha256"], _SHA256, "golden sha256"),
        },
        metrics=_flat(values["metrics"], "metrics"),
        spread={
            key: _flat(part, f"spread of {key[:60]}")
            for key, part in _dict(values["spread"], "spread").items()
        },
        provenance=_flat(values["provenance"], "provenance"),
    )


def preprocessing(recipe):
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


def within(data, limit, where):
    """The bytes, if they are no more than `limit`."""
    if len(data) > limit:
        raise ZooError(f"{where} is larger than the {limit:,} bytes that it can have.")
    return data


def _weights_file(values):
    fields = {field.name for field in dataclasses.fields(WeightsFile)}
    _keys(values, fields, "weights")
    _expect(values["precision"] in PRECISIONS, "precision", PRECISIONS, values["precision"])
    return WeightsFile(
        file=file_name(values["file"]),
        sha256=_matches(values["sha256"], _SHA256, "sha256"),
        precision=values["precision"],
        seed=_integer(values["seed"], "seed", 0, 2**31 - 1),
        source=_matches(values["source"], _SHA256, "source"),
        entry=None if values["entry"] is None else entry_name(values["entry"]),
    )


def _recipe(values):
    """A recipe whose network is the one that this zoo builds under that name.

    Training numbers may be others; what decides the network's size may not, so that an entry
    cannot ask for more memory than the model it names.
    """
    try:
        recipe = recipes.Recipe.from_dict(_dict(values, "recipe"))
        known = recipes.resolve(entry_name(recipe.name))
    except (TypeError, AttributeError, KeyError) as error:
        raise ZooError(f"recipe: {error}") from None
    for field in (
        "backbone", "arguments", "source_dataset", "num_classes", "heads", "learns", "draws",
        "member", "objective",
    ):  # fmt: skip
        received, expected = getattr(recipe, field), getattr(known, field)
        _expect(received == expected, f"recipe, {field}", expected, received)
    for section in (recipe.data, recipe.training, recipe.model):
        for name, value in dataclasses.asdict(section).items():
            for number in value if isinstance(value, tuple) else (value,):
                ok = not isinstance(number, float) or math.isfinite(number)
                _expect(ok, name, "finite numbers", number)
    channels = len(known.data.mean)
    for name in ("mean", "stddev"):
        numbers = getattr(recipe.data, name)
        ok = len(numbers) == channels and all(type(n) in (int, float) for n in numbers)
        _expect(ok, f"recipe, {name}", f"{channels} numbers", numbers)
    _integer(recipe.num_members, "num_members", 1, MAX_MEMBERS)
    _integer(recipe.model.num_draws, "num_draws", 1, MAX_DRAWS)
    _integer(recipe.model.num_samples, "num_samples", 1, MAX_DRAWS)
    return recipe


def _dict(values, where):
    _expect(isinstance(values, dict), where, "a JSON object", values)
    return values


def _keys(values, expected, where):
    received = set(_dict(values, where))
    unknown, missing = sorted(received - expected), sorted(expected - received)
    _expect(not unknown, where, f"only {sorted(expected)}", f"also {[k[:60] for k in unknown[:5]]}")
    _expect(not missing, where, missing, "an object without")


def _flat(values, where):
    """A dict of texts, numbers, and lists of them."""
    for key, value in _dict(values, where).items():
        for item in value if isinstance(value, list) else [value]:
            ok = item is None or isinstance(item, (str, bool, int, float))
            ok = ok and not (isinstance(item, float) and not math.isfinite(item))
            _expect(ok, f"{where}, {key[:60]}", "a text or a finite number", item)
    return values


def _integer(value, where, low, high):
    _expect(type(value) is int and low <= value <= high, where, f"{low} to {high}", value)
    return value


def _matches(value, pattern, where):
    ok = isinstance(value, str) and pattern.fullmatch(value)
    _expect(ok, where, f"a text like {pattern.pattern}", value)
    return value


def _expect(condition, where, expected, received):
    if not condition:
        text = repr(received)
        text = text if len(text) <= 80 else f"{text[:77]}..."
        raise ZooError(f"{where}: expected {expected}, received {text}.")
