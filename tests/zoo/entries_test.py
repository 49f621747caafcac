"""Entries by name, folder and address: what is loaded, and what is refused before it does harm."""

import functools
import http.server
import io
import json
import os
import random
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from s2d_tf import files, zoo
from s2d_tf.storage import entries, golden, sources, weights
from s2d_tf.storage.layout import ENTRY, GOLDEN

SINGLE = "wrn_10_2_s2.s2d.digits"
ENSEMBLE = "wrn_10_2_s2.s2d_ensemble.digits"


@pytest.fixture
def entry(small_zoo, tmp_path):
    """A copy of the single model's folder."""
    shutil.copytree(small_zoo / SINGLE, tmp_path / SINGLE)
    return tmp_path / SINGLE


def change(folder, **changes):
    path = folder / ENTRY
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture
def as_our_zoo(small_zoo, monkeypatch):
    monkeypatch.setattr(sources, "pretrained_directory", lambda: small_zoo)


def answers_as_stored(predictor, folder):
    stored = json.loads((folder / GOLDEN).read_text())
    return golden.difference(predictor, stored) < golden.TOLERANCE


def test_an_entry_loads_by_name(as_our_zoo, small_zoo):
    assert zoo.names(pretrained=True) == sorted(path.name for path in small_zoo.iterdir())
    for name in (SINGLE, ENSEMBLE):
        predictor = zoo.load(name)
        assert answers_as_stored(predictor, small_zoo / name)
        assert predictor.class_names == tuple("01234567")
    held = zoo.entry(SINGLE)
    assert held.pretrained
    header, row, other, *_ = zoo.listing([SINGLE, "wrn_28_10.s2d.cifar100"]).splitlines()
    assert header.split() == ["entry", "accuracy", "NLL", "ECE", "parameters", "time", "method"]
    assert row.split()[:2] == [SINGLE, f"{held.record.metrics['digits/accuracy']:.1%}"]
    assert row.endswith("S2D Individual")
    assert other.split() == ["wrn_28_10.s2d.cifar100", "S2D", "Individual"]


def test_an_entry_without_weights_says_how_to_train_it():
    name = "wrn_28_10.individual.digits"
    assert not zoo.entry(name).pretrained
    with pytest.raises(zoo.ZooError, match=f"without. `s2d train {name} --workdir=DIR`"):
        zoo.load(name)


def test_an_unknown_name_lists_near_ones():
    with pytest.raises(ValueError, match=r"near: .*wrn_10_2_s2\.s2d\.digits"):
        zoo.load("wrn_10_2_s2.s2d.digit")


def test_an_entry_loads_from_a_folder(entry):
    assert answers_as_stored(zoo.load(str(entry)), entry)
    for form in (entry, entry / "entry.json", entry.as_uri()):
        assert sources.find(form).path == entry


def test_an_ensemble_finds_the_weights_it_refers_to_beside_it_or_in_our_zoo(
    small_zoo, tmp_path, monkeypatch
):
    shutil.copytree(small_zoo / ENSEMBLE, tmp_path / ENSEMBLE)
    monkeypatch.setattr(sources, "pretrained_directory", lambda: tmp_path / "an empty zoo")
    with pytest.raises(zoo.ZooError, match=f"weights of {SINGLE}, to which it refers"):
        zoo.load(tmp_path / ENSEMBLE)
    monkeypatch.setattr(sources, "pretrained_directory", lambda: small_zoo)
    assert answers_as_stored(zoo.load(tmp_path / ENSEMBLE), small_zoo / ENSEMBLE)


def test_the_entry_itself_can_be_pinned(entry):
    assert zoo.load(entry, sha256=files.sha256(entry / ENTRY))
    with pytest.raises(zoo.ZooError, match="expected the sha256 0000"):
        zoo.load(entry, sha256="0" * 64)


def rewritten(folder, data):
    """Other weights with the hash that fits them."""
    (folder / "model.safetensors").write_bytes(data)
    listed = json.loads((folder / ENTRY).read_text())["weights"]
    listed[0]["sha256"] = files.sha256(folder / "model.safetensors")
    change(folder, weights=listed)


def test_damaged_and_foreign_weights_are_refused_by_name(entry):
    path = entry / "model.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"x")
    with pytest.raises(weights.WeightsError, match=r"model.safetensors: expected the sha256"):
        zoo.load(entry)
    path.unlink()
    with pytest.raises(zoo.ZooError, match=r"model.safetensors: expected a file, received none"):
        zoo.load(entry)
    rewritten(entry, good[:400])
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


NAMES = ["../x.safetensors", "/etc/passwd", "..", ".hidden", "a/b", "a\\b", "", "x\n", "a" * 200, 3]


@pytest.mark.parametrize("name", NAMES)
def test_names_cannot_leave_the_folder(entry, name):
    listed = json.loads((entry / ENTRY).read_text())["weights"]
    for changed in ({"file": name}, {"entry": name}):
        change(entry, weights=[listed[0] | changed])
        with pytest.raises(zoo.ZooError, match="expected the record of a zoo entry"):
            zoo.load(entry)
    with pytest.raises(zoo.ZooError):
        sources.Folder(entry).read(name, 10)


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
    "more classes": edit_in("recipe", num_classes=10**9),
    "more members": edit_in("recipe", num_members=10**9),
    "more draws": recipe_section("model", num_draws=10**9),
    "more samples": recipe_section("model", num_samples=10**9),
    "infinite noise": recipe_section("model", noise_stddev=1e999),
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


def check_entry_mutations(small_zoo, count, seed):
    text = (small_zoo / ENSEMBLE / ENTRY).read_bytes()
    good = entries.read(text, "entry")
    rng, refused = random.Random(seed), 0
    for _ in range(count):
        try:
            record = entries.read(mutated_json(text, rng), "copy")
        except zoo.ZooError:
            refused += 1
            continue
        # What decides names, sizes and files is as it was, or within its bounds.
        for field in ("backbone", "arguments", "num_classes", "heads", "learns", "draws"):
            assert getattr(record.recipe, field) == getattr(good.recipe, field)
        assert len(record.weights) == record.recipe.num_members <= entries.MAX_MEMBERS
        for item in record.weights:
            assert os.path.basename(item.file) == item.file
            assert len(item.sha256) == 64
    return refused


def test_damaged_entries_are_refused_or_harmless(small_zoo):
    assert 150 < check_entry_mutations(small_zoo, 300, seed=1) < 300


@pytest.mark.slow
def test_ten_thousand_damaged_entries_are_refused_or_harmless(small_zoo):
    assert 5000 < check_entry_mutations(small_zoo, 10_000, seed=2) < 10_000


class Server(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and some answers that no honest server gives."""

    def do_GET(self):
        if self.path.startswith("/endless/"):
            self.send_response(200)
            self.end_headers()
            piece = b" " * 2**16
            try:
                while True:
                    self.wfile.write(piece)
            except OSError:
                return
        elif self.path.startswith("/short/"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{}")
        elif self.path.startswith("/away/"):
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/entry.json")
            self.end_headers()
        elif self.path.startswith("/noise/"):
            self.wfile.write(b"\x00\x01\x02 no HTTP at all\r\n\r\n")
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def address(small_zoo):
    handler = functools.partial(Server, directory=str(small_zoo))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_an_entry_loads_from_an_address(address, small_zoo):
    predictor = zoo.load(f"{address}/{ENSEMBLE}/")
    assert answers_as_stored(predictor, small_zoo / ENSEMBLE)
    again = zoo.load(f"{address}/{SINGLE}/entry.json")
    for ours, theirs in zip(again.weights, predictor.members[0].weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing", "received 404"),
        ("endless", "expected at most 1,048,576 bytes, received more"),
        ("short", "can be fetched|expected 1000 bytes, received 2"),
        ("away", "redirect to https, received 'ftp://127.0.0.1/entry.json'"),
        ("noise", "can be fetched, received an error"),
        ("entry?x=1", r"without \? and #"),
    ],
)
def test_a_bad_address_is_refused(address, path, message):
    with pytest.raises(zoo.ZooError, match=message):
        zoo.load(f"{address}/{path}")


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "data://x", "http://127.0.0.1:1/x", "file:///none"]
)
def test_other_addresses_are_refused(url):
    with pytest.raises(zoo.ZooError):
        zoo.load(url)


def test_no_more_is_read_than_the_model_can_have(entry):
    with open(entry / "model.safetensors", "ab") as file:
        file.truncate(10**12)
    with pytest.raises(zoo.ZooError, match=r"expected at most .* bytes, received more"):
        zoo.load(entry)


def test_listing_needs_no_tensorflow(project_root):
    program = (
        "import sys; from s2d_tf import zoo; zoo.names(pretrained=True); zoo.listing(zoo.names());"
        "print(sorted({'tensorflow', 'keras', 'numpy', 'safetensors'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": str(project_root)}
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
    )
    assert result.stdout == "[]\n"


def test_records_come_back_as_they_were(small_zoo):
    for folder in small_zoo.iterdir():
        text = (folder / ENTRY).read_text()
        assert entries.read(text, "entry").to_json() == text
        assert io.StringIO(text).readline() == "{\n"
