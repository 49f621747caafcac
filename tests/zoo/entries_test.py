"""Entries by name, folder and address: what is loaded, and what is refused before it does harm."""

import contextlib
import functools
import http.server
import json
import pathlib
import shutil
import threading
import time

import pytest

from s2d_tf import cli, files, zoo
from s2d_tf.trainers.publishing import provenance
from s2d_tf.zoo import entries, networks, recipes, sources
from s2d_tf.zoo.entries import ENTRY, GOLDEN
from tests import contracts
from tests.trainers.publishing.conftest import make_run
from tests.zoo.conftest import ENSEMBLE, SINGLE


@pytest.fixture
def as_our_zoo(small_zoo, monkeypatch):
    monkeypatch.setattr(entries, "directory", lambda: small_zoo)


def answers_as_stored(predictor, folder):
    stored = json.loads((folder / GOLDEN).read_text())
    return provenance.golden_difference(predictor, stored) < provenance.GOLDEN_TOLERANCE


def test_the_command_lists_what_can_be_loaded_unless_told_otherwise(as_our_zoo, capsys):
    name, printed = "wrn_28_10.s2d.digits", []
    for arguments in ([], ["--all"], ["wrn_28_10"]):
        assert cli.main(["list", *arguments]) == 0
        printed.append(capsys.readouterr().out)
    assert f"{SINGLE} 12.5%" in " ".join(printed[0].split())
    assert [name in text for text in printed] == [False, True, True]


def test_an_entry_without_weights_says_how_to_train_it():
    name = "wrn_28_10.individual.digits"
    assert not zoo.entry(name).pretrained
    with pytest.raises(zoo.ZooError, match=f"without. `s2d train {name} --workdir=DIR`"):
        zoo.load(name)


def test_a_name_a_folder_and_a_file_are_the_same_entry(entry, small_zoo, as_our_zoo):
    assert zoo.names(pretrained=True) == sorted(path.name for path in small_zoo.iterdir())
    for where in (SINGLE, str(entry), entry, entry / ENTRY):
        opened = zoo.open_model(where)
        assert opened.name == opened.record.name == opened.predictor.metadata["name"] == SINGLE
        assert (opened.seeds, opened.split, opened.run) == ((0,), "train", None)
        assert answers_as_stored(opened.predictor, small_zoo / SINGLE)
        assert opened.predictor.class_names == tuple("01234567")


def test_a_run(tmp_path, monkeypatch):
    run = make_run(tmp_path / SINGLE, recipes.resolve(SINGLE), seed=3)
    opened = zoo.open_model(str(run.directory))
    assert (opened.run, opened.record, opened.recipe) == (run, None, run.recipe)
    metadata = opened.predictor.metadata
    assert [metadata[key] for key in ("name", "seed", "split")] == [SINGLE, 3, "train"]
    own = networks.build_network(run.recipe, 3)
    contracts.assert_same(opened.predictor.get_weights(), own.get_weights())
    with pytest.raises(zoo.RunError, match="sha256: expected None for the run directory"):
        zoo.open_model(run.directory, sha256="0" * 64)
    # A run that has the name of an entry is opened by its path.
    monkeypatch.chdir(tmp_path)
    assert zoo.open_model(SINGLE).run is None
    for where in (f"./{SINGLE}", pathlib.Path(SINGLE)):
        assert zoo.open_model(where).seeds == (3,)


@pytest.mark.parametrize("where", ["nowhere/at/all", "."])
def test_a_folder_that_is_neither_says_what_was_expected(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(zoo.ZooError, match=r"recipe\.json, or an entry's with an entry\.json"):
        zoo.open_model(where)


def test_an_ensemble_finds_the_weights_it_refers_to_beside_it_or_in_our_zoo(
    small_zoo, tmp_path, monkeypatch
):
    shutil.copytree(small_zoo / ENSEMBLE, tmp_path / ENSEMBLE)
    monkeypatch.setattr(entries, "directory", lambda: tmp_path / "an empty zoo")
    with pytest.raises(zoo.ZooError, match=rf"{SINGLE}.model\.safetensors: expected a file"):
        zoo.load(tmp_path / ENSEMBLE)
    monkeypatch.setattr(entries, "directory", lambda: small_zoo)
    assert answers_as_stored(zoo.load(tmp_path / ENSEMBLE), small_zoo / ENSEMBLE)


def test_the_entry_itself_can_be_pinned(entry):
    assert zoo.load(entry, sha256=files.sha256(entry / ENTRY))
    with pytest.raises(zoo.ZooError, match="expected the sha256 0000"):
        zoo.load(entry, sha256="0" * 64)


DRIPS = (b"H", b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
"""How answers begin that go on with a byte now and then."""


class Server(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, and some answers that no honest server gives."""

    def do_GET(self):
        if self.path.startswith("/endless/"):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b" " * 2**16)
        elif self.path.startswith("/drip"):
            self.wfile.write(DRIPS[int(self.path[5])])
            with contextlib.suppress(OSError):
                while True:
                    time.sleep(0.05)
                    self.wfile.write(b"x")
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
    contracts.assert_same(again.get_weights(), predictor.members[0].get_weights())


OTHERS = ("ftp://host/x", "data://x", "http://127.0.0.1:1/x", "file:///none")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing", "received an error: HTTP Error 404"),
        ("endless", "expected at most 1,048,576 bytes, received more"),
        ("short", "expected the record of a zoo entry"),
        ("away", "redirect to https, received 'ftp://127.0.0.1/entry.json'"),
        ("noise", "expected a file, received an error"),
        ("entry?x=1", r"without \? and #"),
        *((url, "expected an http|an error") for url in OTHERS),
    ],
)
def test_a_bad_address_is_refused(address, path, message):
    with pytest.raises(zoo.ZooError, match=message):
        zoo.load(path if "://" in path else f"{address}/{path}")


@pytest.mark.parametrize("start", range(len(DRIPS)))
def test_a_download_has_a_total_deadline(address, monkeypatch, start):
    monkeypatch.setattr(sources, "TOTAL_SECONDS", 0.5)
    folder, began = sources.WebFolder(f"{address}/drip{start}"), time.monotonic()
    with pytest.raises(zoo.ZooError, match=r"within 0\.5 seconds\. .* download the folder"):
        folder.read("entry.json", 10_000_000)
    assert time.monotonic() - began < 10
    # It is over for the next file, too, and for an entry that this one refers to.
    began = time.monotonic()
    with pytest.raises(zoo.ZooError, match=r"within 0\.5 seconds"):
        folder.read("model.safetensors", 100, entry=SINGLE)
    assert time.monotonic() - began < 0.4


def test_listing_needs_no_tensorflow(run_python):
    program = (
        "import sys; from s2d_tf import zoo; zoo.names(pretrained=True); zoo.listing(zoo.names());"
        "print(sorted({'tensorflow', 'keras', 'numpy', 'safetensors'} & set(sys.modules)))"
    )
    assert run_python("-c", program).stdout == "[]\n"


def test_records_come_back_as_they_were(small_zoo):
    for folder in small_zoo.iterdir():
        text = (folder / ENTRY).read_text()
        assert entries.read(text, "entry").to_json() == text
