"""Entries on the Hub, against a stand-in for it on this machine. The Hub itself is never asked."""

import base64
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

import numpy as np
import pytest

from s2d_tf import zoo
from s2d_tf.trainers import publishing
from s2d_tf.zoo import sources

NAME = "wrn_10_2_s2.s2d.digits"
FOLDER = zoo.directory() / NAME


class StandIn(http.server.ThreadingHTTPServer):
    """The parts of the Hub's API that loading and uploading use: commits of files by name."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.commits, self.objects, self.requests = {}, {}, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, repo, contents):
        """Adds a commit on top of the repository's last; returns its hash."""
        held = dict(self.commits[repo][-1][1]) if self.commits.get(repo) else {}
        held |= contents
        oid = hashlib.sha1(f"{repo} {len(self.commits.get(repo, ()))}".encode()).hexdigest()
        self.commits.setdefault(repo, []).append((oid, held))
        return oid

    def find(self, repo, revision):
        found = [c for c in self.commits.get(repo, ()) if revision in (c[0], "main")]
        return found[-1] if found else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, content=b"", status=200, headers=None, body=True):
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content)

    def do_HEAD(self):
        self.do_GET(body=False)

    def do_GET(self, body=True):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        commit = found and self.server.find(found[1], found[2])
        if not commit or found[3] not in commit[1]:
            code = "EntryNotFound" if commit else "RepoNotFound"
            self.answer(b"{}", 404, {"X-Error-Code": code}, body)
            return
        content = commit[1][found[3]]
        etag = hashlib.sha256(content).hexdigest()
        self.answer(content, 200, {"ETag": f'"{etag}"', "X-Repo-Commit": commit[0]}, body)

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.objects[hashlib.sha256(content).hexdigest()] = content
        self.answer()

    def do_POST(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append(f"POST {path}")
        if path == "/api/repos/create":
            sent = json.loads(body)
            repo = f"{sent['organization']}/{sent['name']}"
            self.server.commits.setdefault(repo, [("0" * 40, {})])
            self.answer({"url": f"{self.server.url}/{repo}", "name": repo})
        elif path == "/api/validate-yaml":
            self.server.card = json.loads(body)["content"]
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            listed = json.loads(body)["files"]
            for each in listed:
                mode = "lfs" if each["path"].endswith("safetensors") else "regular"
                each |= {"uploadMode": mode, "shouldIgnore": False, "oid": None}
            self.answer({"files": listed})
        elif path.endswith(".git/info/lfs/objects/batch"):
            listed = [
                each | {"actions": {"upload": {"href": f"{self.server.url}/lfs/{each['oid']}"}}}
                for each in json.loads(body)["objects"]
            ]
            self.answer({"transfer": "basic", "objects": listed})
        elif "/commit/" in path:
            repo = re.match(r"/api/models/([^/]+/[^/]+)/commit/", path)[1]
            contents = {}
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    contents[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    contents[value["path"]] = self.server.objects[value["oid"]]
            oid = self.server.commit(repo, contents)
            self.answer({"commitUrl": f"{self.server.url}/{repo}/commit/{oid}", "commitOid": oid})
        else:
            self.answer({}, 404)


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs s2d_tf[hf]")
    server = StandIn()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    # Xet is another protocol, for which there is no stand-in.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    yield server
    server.shutdown()
    server.server_close()


def contents(folder=""):
    prefix = f"{folder}/" if folder else ""
    return {f"{prefix}{path.name}": path.read_bytes() for path in FOLDER.iterdir()}


def test_a_repository_loads_as_any_other_place(stand_in):
    stand_in.commit("me/digits", contents())
    own, other = zoo.load(NAME), zoo.load("hf://me/digits")
    images = np.random.RandomState(0).randint(0, 256, [3, 8, 8, 1]).astype(np.uint8)
    np.testing.assert_array_equal(own.predict_members(images)[1], other.predict_members(images)[1])
    assert other.class_names == own.class_names


def test_all_files_come_from_one_commit(stand_in):
    first = stand_in.commit("me/digits", contents())
    source = sources.find("hf://me/digits")
    source.read("entry.json", 10**6)
    stand_in.commit("me/digits", {"model.safetensors": b"of another commit"})
    content = source.read("model.safetensors", 10**7)
    assert content == (FOLDER / "model.safetensors").read_bytes()
    assert source.revision == first
    # A new look has the new commit, which is damaged.
    with pytest.raises(ValueError, match="expected the sha256"):
        zoo.load("hf://me/digits")
    assert zoo.load(f"hf://me/digits@{first}").num_classes == 8


def test_a_folder_in_a_repository_and_its_neighbors(stand_in):
    stand_in.commit("me/zoo", contents(f"entries/{NAME}"))
    assert zoo.load(f"hf://me/zoo/entries/{NAME}").num_classes == 8
    beside = sources.find("hf://me/zoo/entries/a.b.c")
    assert beside.read("entry.json", 10**6, entry=NAME) == (FOLDER / "entry.json").read_bytes()
    with pytest.raises(zoo.ZooError, match="expected a file that can be fetched"):
        sources.find("hf://me/zoo").read("entry.json", 10**6, entry=NAME)


def test_what_is_too_large_is_not_fetched(stand_in):
    stand_in.commit("me/digits", contents())
    with pytest.raises(zoo.ZooError, match=r"at most 10 bytes, received \d+"):
        sources.find("hf://me/digits").read("model.safetensors", 10)
    assert not any(request.startswith("GET") for request in stand_in.requests)


def test_what_is_missing_is_one_line(stand_in):
    with pytest.raises(zoo.ZooError, match=r"hf://me/nothing/entry\.json: expected a file"):
        zoo.load("hf://me/nothing")
    stand_in.commit("me/half", {"entry.json": (FOLDER / "entry.json").read_bytes()})
    with pytest.raises(zoo.ZooError, match=r"model\.safetensors: expected a file"):
        zoo.load("hf://me/half")


@pytest.mark.parametrize(
    "address", ["hf://me", "hf://me/a/../b", "hf://me/a?x", "hf://me/a@", "hf://./a", "hf:///a/b"]
)
def test_other_addresses_are_rejected(address):
    with pytest.raises(zoo.ZooError, match="where: expected an address such as hf://"):
        zoo.load(address)


def test_an_upload_can_be_loaded(stand_in):
    address = publishing.upload(FOLDER, "hf://me/new", print)
    assert address == "hf://me/new"
    assert zoo.load(address).metadata["entry"] == zoo.load(NAME).metadata["entry"]
    _, held = stand_in.find("me/new", "main")
    assert set(held) == {path.name for path in FOLDER.iterdir()}
    # The weights went as large files do, the card with the address that its readers have.
    assert held["model.safetensors"] in stand_in.objects.values()
    card = held["README.md"].decode()
    assert 'zoo.load("hf://me/new")' in card
    assert f'zoo.load("{NAME}")' not in card


def test_an_entry_without_its_weights_is_not_sent(stand_in, tmp_path):
    folder = zoo.directory() / "fast_resnet_half.ensemble.cifar100"
    with pytest.raises(publishing.PublishError, match=r"refers to fast_resnet_half\.individual"):
        publishing.upload(folder, "hf://me/new")
    assert stand_in.commits == {}
