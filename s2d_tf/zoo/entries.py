"""The zoo's entries by name, and what an `entry.json` says, all of it checked. No TensorFlow."""

from __future__ import annotations

import dataclasses
import json
import operator
import pathlib
import re

from s2d_tf import _paths, files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.zoo import recipes

# The files of an entry's folder beside its weights.
ENTRY = "entry.json"
CARD = "README.md"
GOLDEN = "golden.json"

FORMAT = 1
MAX_TEXT_BYTES = 2**20
MAX_MEMBERS, MAX_STEPS = 100, 20
BOUNDS = {
    "recipe.num_classes": (2, 10**5),
    "recipe.heads": (1, MAX_MEMBERS),
    "recipe.num_members": (1, MAX_MEMBERS),
    "recipe.model.num_draws": (1, 1000),
    "recipe.model.num_samples": (1, 1000),
    "parameters": (1, 10**12),
}
"""The least and the most that numbers of a record may be."""

TEXTS = ("data", "run", "time", "versions")
"""How the names of metrics begin that may be texts."""

_NAME, _SHA256 = r"[a-z0-9_]{1,64}(\.[a-z0-9_]{1,64}){2}", "[0-9a-f]{64}"
PATTERNS = {
    "name": _NAME,
    "entry": _NAME,
    "file": r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}",
    "sha256": _SHA256,
    "source": _SHA256,
    "precision": "float16|float32",
}
"""What texts of a record and of its files must look like."""


class ZooError(UserError):
    """An entry is unknown, has no weights, or its files are damaged."""


@dataclasses.dataclass(frozen=True)
class EntryFile:
    """A file in an entry's folder, and its sha256."""

    file: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class WeightsFile(EntryFile):
    """The weights of one network.

    Attributes:
        file: name of the file in the entry's folder, or in that of `entry`.
        sha256: of the file.
        precision: of the numbers in the file.
        seed: of the training run; it also fixes the masks of Monte Carlo dropout.
        source: sha256 of the run's own weights file, from which this one was made.
        entry: name of the entry that holds the file, if it is another one.
    """

    precision: str
    seed: int
    source: str
    entry: str | None


@dataclasses.dataclass(frozen=True)
class StepFile(EntryFile):
    """A fitted post-hoc step.

    Attributes:
        step: the step with its options, as text.
        fitted_on: `dataset/split`; empty where nothing was fitted.
    """

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
        golden: predictions for fixed images.
        metrics: the flat dict of `s2d evaluate`, for these very weights and steps.
        spread: `{metric: {"mean", "stddev", "seeds"}}` over runs with other seeds, if any.
        provenance: flat facts on the run and its publication.
        steps: fitted post-hoc steps, in the order in which they stack.
        inputs: what the model takes, as `models.contract.Contract.to_dict` writes it; `None` in
            entries from before there was one.
    """

    name: str
    recipe: recipes.Recipe
    preprocessing: dict
    class_names: tuple[str, ...]
    kind: str
    num_members: int
    parameters: int
    weights: tuple[WeightsFile, ...]
    golden: EntryFile
    metrics: dict
    spread: dict
    provenance: dict
    steps: tuple[StepFile, ...] = ()
    inputs: dict | None = None

    def to_json(self) -> str:
        """The text of `entry.json`; steps and inputs are in it only where there are some."""
        values = dataclasses.asdict(self) | {"recipe": self.recipe.to_dict()}
        kept = {k: v for k, v in values.items() if v or k not in ("steps", "inputs")}
        return json.dumps({"format": FORMAT, **kept}, indent=1) + "\n"


def read(text: str | bytes, where: PathLike) -> Record:
    """The `Record` in the text of an `entry.json`, which errors call `where`.

    Raises:
        ZooError: anything is missing, unknown, of a wrong type or out of bounds, or the network is
            not one of this zoo.
    """
    try:
        values = files.parse_json(text)
        ZooError.unless(
            isinstance(values, dict) and values.pop("format", None) == FORMAT,
            f"expected an object of format {FORMAT}, received {values!r:.80}",
        )
        if isinstance(values.get("recipe"), dict):
            values["recipe"] = recipes.Recipe.from_dict(values["recipe"])
        record = files.read_record(Record, values, "entry", ZooError)
        for name, holds, expected, received in _rules(record):
            ZooError.unless(
                holds,
                f"{name}: expected {expected}, received {received!r:.80}",
            )
        return record
    # OverflowError: of an integer that no float can hold.
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise ZooError(
            f"{where}: expected the record of a zoo entry, received an invalid one: {reason[:400]}."
            " Get the entry again."
        ) from None


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
    recipe: recipes.Recipe
    folder: pathlib.Path | None = None
    record: Record | None = None

    @property
    def pretrained(self) -> bool:
        return self.record is not None


def directory() -> pathlib.Path:
    """The folder of this library's entries with weights.

    Example:

    >>> (zoo.directory() / "wrn_10_2_s2.s2d.digits" / "README.md").is_file()
    True
    """
    return _paths.zoo_directory() / "pretrained"


def names(pretrained: bool | None = None) -> list[str]:
    """Names of entries.

    Args:
        pretrained: `True` for those with weights, `False` for those without, `None` for all.

    Example:

    >>> "wrn_10_2_s2.s2d.digits" in zoo.names(pretrained=True)
    True
    """
    held = {path.parent.name for path in directory().glob(f"*/{ENTRY}")}
    return [n for n in recipes.names() if pretrained is None or (n in held) == pretrained]


def entry(name: str) -> Entry:
    """The `Entry` of a name; an error lists the closest names to an unknown one.

    Example:

    >>> zoo.entry("wrn_28_10.s2d.cifar100").pretrained
    False
    """
    recipe, folder = recipes.resolve(name), directory() / name
    if not (folder / ENTRY).exists():
        return Entry(name, recipe)
    text = files.read_bytes(folder / ENTRY, MAX_TEXT_BYTES, ZooError, follow_links=False)
    record = read(text, folder / ENTRY)
    return Entry(name, record.recipe, folder, record)


def preprocessing(recipe: recipes.Recipe) -> dict:
    """What a model of this recipe does with the raw pixels that it is given."""
    return {
        "input": "raw pixels 0 to 255, [batch, height, width, channels], uint8 or float32",
        "normalisation": "(pixels - mean) / stddev, inside the model",
        "mean": list(recipe.data.mean),
        "stddev": list(recipe.data.stddev),
    }


def _rules(record):
    """`(name, whether it holds, what is expected, what was received)` beyond names and types.

    Training numbers may be any; what decides the network's size is bounded or that of the
    architecture, so that an entry cannot request more memory than the model it names.
    """
    recipe, names, weights = record.recipe, record.class_names, record.weights
    network = recipes.network(recipe.architecture).items()
    count = recipe.num_members if recipe.draws == "ensemble" else 1
    channels, numbers = recipe.image_shape[-1], (recipe.data.mean, recipe.data.stddev)
    short = len(names) == recipe.num_classes and all(len(name) <= 100 for name in names)
    learns = recipe.learns and (recipe.objective or recipe.learns != "teachers")
    stated, parts = preprocessing(recipe), (record, *weights, record.golden, *record.steps)
    texts = [(key, getattr(part, key, None)) for part in parts for key in PATTERNS]
    bounded = [(operator.attrgetter(key)(record), key, *ends) for key, ends in BOUNDS.items()]
    bounded += [(item.seed, "seed", 0, 2**31 - 1) for item in weights]
    facts = {"metrics": record.metrics, "provenance": record.provenance, **record.spread}
    measured = {k: v for k, v in record.metrics.items() if k.split("/")[0] not in TEXTS}
    for key, values in record.spread.items():
        measured |= {f"{key}/{name}": dict(values).get(name) for name in ("mean", "stddev")}
    return [
        ("name", record.name == recipe.name, recipe.name, record.name),
        *((k, re.fullmatch(PATTERNS[k], v), PATTERNS[k], v) for k, v in texts if v is not None),
        *((f"recipe, {k}", getattr(recipe, k) == v, v, getattr(recipe, k)) for k, v in network),
        ("recipe, learns", learns, "what the network learns from", recipe.learns),
        ("recipe, own_data", recipe.own_data is None, None, recipe.own_data),
        ("recipe, data", {*map(len, numbers)} == {channels}, f"{channels} numbers each", numbers),
        ("preprocessing", record.preprocessing == stated, stated, record.preprocessing),
        *((key, low <= v <= high, f"{low} to {high}", v) for v, key, low, high in bounded),
        ("class_names", short, f"{recipe.num_classes} short names", names),
        ("weights", len(weights) == count, f"{count} files", weights),
        ("steps", len(record.steps) <= MAX_STEPS, f"up to {MAX_STEPS}", record.steps),
        *((k[:80], type(v) in (int, float), "a number", v) for k, v in measured.items()),
        *((k[:80], _is_flat(v), "texts, numbers and lists of them", v) for k, v in facts.items()),
    ]


def _is_flat(values):
    plain = (str, bool, int, float, type(None))
    return isinstance(values, dict) and all(
        isinstance(item, plain)
        for value in values.values()
        for item in (value if isinstance(value, list) else [value])
    )


def listing(chosen: list[str]) -> str:
    """A table of the named entries: how good those with weights are, and what they cost.

    Example:

    >>> print(zoo.listing(["wrn_10_2_s2.s2d.digits"]).splitlines()[0].split()[:3])
    ['entry', 'accuracy', 'NLL']
    """
    rows = [("entry", "accuracy", "NLL", "ECE", "parameters", "time", "method")]
    rows += [_row(entry(name)) for name in chosen]
    width = max(len(row[0]) for row in rows)
    line = "{:{width}}  {:>8}  {:>5}  {:>5}  {:>11}  {:>5}  {}"
    lines = [line.format(*row, width=width) for row in rows]
    lines += ["", "time: of a prediction, relative to one plain network"]
    if any(not row[1] for row in rows):
        lines.append("without metrics: not trained; `s2d train NAME --workdir=DIR`")
    return "\n".join(lines)


def _row(held):
    if held.record is None:
        return (held.name, "", "", "", "", "", held.recipe.title)
    metrics, known = held.record.metrics, held.recipe.source_dataset
    accuracy, nll, ece = (metrics[f"{known}/{key}"] for key in ("accuracy", "nll", "ece"))
    cost = f"{held.record.parameters:,}", f"{metrics['cost/relative_inference_time']:.1f}x"
    return (held.name, f"{accuracy:.1%}", f"{nll:.3f}", f"{ece:.1%}", *cost, held.recipe.title)
