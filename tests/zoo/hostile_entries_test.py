"""Entries that mean harm, and thousands of damaged ones: rejected in one line, or harmless."""

import dataclasses
import json
import os
import random

import pytest

from s2d_tf import files, zoo
from s2d_tf.zoo import entries, weights
from s2d_tf.zoo.entries import ENTRY
from tests.zoo.conftest import ENSEMBLE, change
from tests.zoo.recipes_test import OWN


def test_damaged_and_foreign_weights_are_refused_by_name(entry):
    path = entry / "model.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"x")
    with pytest.raises(weights.WeightsError, match=r"model.safetensors: expected the sha256"):
        zoo.load(entry)
    path.unlink()
    with pytest.raises(zoo.ZooError, match="expected a file, received 'No such file"):
        zoo.load(entry)
    path.write_bytes(good[:400])
    listed = json.loads((entry / ENTRY).read_text())["weights"]
    change(entry, weights=[listed[0] | {"sha256": files.sha256(path)}])
    with pytest.raises(weights.WeightsError, match="expected a weights file of this model"):
        zoo.load(entry)


def test_links_and_pipes_in_a_folder_are_not_followed(entry, tmp_path):
    path = entry / "model.safetensors"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(zoo.ZooError, match="symbolic link"):
        zoo.load(entry)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(zoo.ZooError, match="expected a regular file"):
        zoo.load(entry)
    (entry / ENTRY).rename(tmp_path / "entry.json")
    (entry / ENTRY).symlink_to(tmp_path / "entry.json")
    with pytest.raises(zoo.ZooError, match="symbolic link"):
        zoo.load(entry)


NAMES = ["../x.safetensors", "/etc/passwd", "..", ".hidden", "a/b", "a\\b", "", "x\n", "a" * 200]


@pytest.mark.parametrize("name", NAMES)
def test_names_cannot_leave_the_folder(entry, name):
    listed = json.loads((entry / ENTRY).read_text())["weights"]
    for changed in ({"file": name}, {"entry": name}):
        change(entry, weights=[listed[0] | changed])
        with pytest.raises(zoo.ZooError, match="expected the record of a zoo entry"):
            zoo.load(entry)


def edit(**changes):
    return lambda values: values | changes


def edit_in(section, **changes):
    return lambda values: values | {section: values[section] | changes}


def recipe_section(section, **changes):
    def apply(values):
        recipe = values["recipe"]
        return values | {"recipe": recipe | {section: recipe[section] | changes}}

    return apply


def without(key):
    return lambda values: {k: v for k, v in values.items() if k != key}


def weights_with(**changes):
    return lambda values: values | {"weights": [values["weights"][0] | changes]}


BAD_ENTRIES = {
    "unknown key": edit(code="import os"),
    "no weights": without("weights"),
    "no hash": lambda v: v | {"weights": [without("sha256")(v["weights"][0])]},
    "short hash": weights_with(sha256="abc"),
    "upper-case hash": weights_with(sha256="A" * 64),
    "two networks": lambda v: v | {"weights": v["weights"] * 2},
    "weights as text": edit(weights="model.safetensors"),
    "unknown precision": weights_with(precision="int8"),
    "seed as text": weights_with(seed="0"),
    "seed as truth": weights_with(seed=True),
    "huge seed": weights_with(seed=2**64),
    "another format": edit(format=2),
    "another name": edit(name="wrn_10_2_s2.individual.digits"),
    "list for the recipe": edit(recipe=[]),
    "null recipe": edit(recipe=None),
    "deeper network": recipe_section("arguments", depth=100_000),
    "wider network": recipe_section("arguments", width=100_000),
    "arguments that are code": recipe_section("arguments", name="x"),
    "another backbone": edit_in("recipe", backbone="__class__"),
    "unknown architecture": edit_in("recipe", architecture="../wrn"),
    "images of its own": edit_in(
        "recipe", own_data=dataclasses.asdict(OWN) | {"class_names": list("01234567")}
    ),
    "more heads": edit_in("recipe", heads=10**9),
    "a student without a loss": edit_in("recipe", learns="teachers"),
    "a network that learns nothing": edit_in("recipe", learns=None),
    "what version 0.1 had": recipe_section("model", student_draws="balanced"),
    "more classes": edit_in("recipe", num_classes=10**9),
    "more members": edit_in("recipe", num_members=10**9),
    "more draws": recipe_section("model", num_draws=10**9),
    "more samples": recipe_section("model", num_samples=10**9),
    "infinite noise": recipe_section("model", noise_stddev=1e999),
    "a rate that no float holds": recipe_section("training", learning_rate=10**400),
    "a deviation that no float holds": recipe_section("data", stddev=[10**400]),
    "mean of texts": recipe_section("data", mean=["1"]),
    "mean of lists": recipe_section("data", mean=[[1]]),
    "four means": recipe_section("data", mean=[1, 2, 3, 4]),
    "another preprocessing": edit_in("preprocessing", mean=[0.0]),
    "too few class names": edit(class_names=["a"]),
    "class names that are numbers": edit(class_names=[1] * 8),
    "unknown kind": edit(kind="normal"),
    "members as text": edit(num_members="1"),
    "other number of members": edit(num_members=3),
    "other inputs": edit(inputs={"structure": 0, "tensors": []}),
    "inputs as text": edit(inputs="images"),
    "metrics within metrics": edit(metrics={"a": {"b": 1}}),
    "a metric that is a text": edit_in("metrics", **{"digits/nll": "low"}),
    "a metric that is a truth": edit_in("metrics", **{"digits/nll": True}),
    "metrics of lists": edit_in("metrics", **{"run/seed": [[1]]}),
    "a spread without numbers": edit(spread={"digits/nll": {"mean": "low", "stddev": 0.1}}),
    "infinite metric": edit(metrics={"a": 1e999}),
    "golden elsewhere": edit_in("golden", file="../golden.json"),
    "list for all": lambda values: [values],
    "text for all": lambda values: "entry",
    "number for all": lambda values: 3,
    "null": lambda values: None,
}


@pytest.mark.parametrize("name", BAD_ENTRIES)
def test_a_bad_entry_is_refused_in_one_line(entry, name):
    values = BAD_ENTRIES[name](json.loads((entry / ENTRY).read_text()))
    (entry / ENTRY).write_text(json.dumps(values))
    with pytest.raises(zoo.ZooError) as caught:
        zoo.load(entry)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800


TEXTS = {
    "nothing": b"",
    "no JSON": b"import os",
    "not UTF-8": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a key twice": b'{"format": 1, "format": 1}',
    "a NaN": b'{"format": NaN}',
    "a long number": b'{"format": ' + b"9" * 10_000 + b"}",
    "large": b" " * (2**20 + 1),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_entry_is_refused(entry, name):
    (entry / ENTRY).write_bytes(TEXTS[name])
    with pytest.raises(zoo.ZooError):
        zoo.load(entry)


def mutated_json(text, rng):
    """A damaged copy of an entry: characters, or a value somewhere replaced by another kind."""
    if rng.random() < 0.5:
        data = bytearray(text)
        for _ in range(rng.choice([1, 1, 2, 8])):
            at = rng.randrange(len(data))
            if rng.random() < 0.7:
                data[at] = rng.randrange(256)
            else:
                del data[at : at + rng.randrange(1, 40)]
        return bytes(data)
    values = json.loads(text)
    place = values
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = rng.choice(list(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.3:
            break
        place = inner
    place[key] = rng.choice(
        [None, True, -1, 0, 10**12, 1e308, "", "../x", "x" * 5000, [], [1], {}, {"a": 1}, inner]
    )
    if rng.random() < 0.2:
        del place[key]
    return json.dumps(values).encode()


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_entries_are_rejected_or_harmless(small_zoo, count):
    text = (small_zoo / ENSEMBLE / ENTRY).read_bytes()
    good = entries.read(text, "entry")
    rng, rejected = random.Random(count), 0
    for _ in range(count):
        try:
            record = entries.read(mutated_json(text, rng), "copy")
        except zoo.ZooError:
            rejected += 1
            continue
        # What decides names, sizes and files is as it was, or within its bounds.
        for field in ("backbone", "arguments", "num_classes", "own_data"):
            assert getattr(record.recipe, field) == getattr(good.recipe, field)
        assert 1 <= record.recipe.heads <= entries.MAX_MEMBERS
        assert 1 <= len(record.weights) <= record.recipe.num_members <= entries.MAX_MEMBERS
        for item in record.weights:
            assert os.path.basename(item.file) == item.file
            assert len(item.sha256) == 64
    assert count / 2 < rejected < count


def test_no_more_is_read_than_the_model_can_have(entry):
    with open(entry / "model.safetensors", "ab") as file:
        file.truncate(10**12)
    with pytest.raises(zoo.ZooError, match=r"expected at most .* bytes, received more"):
        zoo.load(entry)
