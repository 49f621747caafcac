"""Where a trained model is: a run directory, or an entry's folder on disk, on the web or on a hub.

Sources of entries only give bytes, at most as many as they are asked for.
"""

from __future__ import annotations

import http.client
import os
import pathlib
import re
import threading
import time
import urllib.parse
import urllib.request
from types import ModuleType
from typing import TypeAlias

from s2d_tf import _paths, files
from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes
from s2d_tf.zoo.entries import ZooError, entry_name, file_name
from s2d_tf.zoo.layout import ENTRY, RECIPE
from s2d_tf.zoo.runs import Run, is_run

TIMEOUT_SECONDS = 30
"""For each answer of a server, however little it is."""
TOTAL_SECONDS = 600
"""For all files of an entry together."""
_CHUNK = 1 << 16
_REPOSITORY = re.compile(
    r"hf://(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+))?(/(?P<folder>[\w.-]+(/[\w.-]+)*))?/?"
)

Source: TypeAlias = "Folder | WebFolder | HubFolder"


def find(where: PathLike) -> Run | Source:
    """What a person means by a name, a path or an address.

    Args:
        where: the name of an entry of this library; the path of a run directory; or the path, the
            http(s) address or the hf:// address of an entry's folder or its `entry.json`.

    Raises:
        ZooError: there is no such model, or the entry has no weights.
        RecipeError: the name is unknown; the message lists the closest ones.
    """
    text = where if isinstance(where, str) else ""
    if text.startswith("hf://"):
        return HubFolder.parse(text)
    if "://" in text:
        return WebFolder(text.removesuffix(f"/{ENTRY}"))
    if text and os.sep not in text:
        if text in pretrained_names():
            return Folder(pretrained_directory() / text)
        if not os.path.isdir(text) or text in recipes.names():
            recipes.resolve(text)  # an unknown name lists near ones
            raise ZooError(
                f"{text}: expected an entry with weights, received one without. `s2d train "
                f"{text} --workdir=DIR` trains it; if the repository has it, pass that folder."
            )
    path = pathlib.Path(where).expanduser()
    path = path.parent if path.name == ENTRY else path
    if is_run(path):
        return Run.open(path)
    if not (path / ENTRY).exists():
        raise ZooError(
            f"{path}: expected a run directory with a {RECIPE}, or an entry's with an {ENTRY}, "
            "received neither. Check the path."
        )
    return Folder(path)


def pretrained_directory() -> pathlib.Path:
    """The folder of this library's entries with weights.

    Example:

    >>> (zoo.directory() / "wrn_10_2_s2.s2d.digits" / "README.md").is_file()
    True
    """
    return _paths.zoo_directory() / "pretrained"


def pretrained_names() -> set[str]:
    """Names of this library's entries with weights."""
    return {path.parent.name for path in pretrained_directory().glob(f"*/{ENTRY}")}


class Folder:
    """An entry's folder on this machine."""

    def __init__(self, path: PathLike) -> None:
        self.path = pathlib.Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def sibling(self, name: str) -> Folder:
        """The folder of another entry, beside this one."""
        return Folder(self.path.resolve().parent / entry_name(name))

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file in the folder: regular, not a link, at most `limit` bytes."""
        return files.read_bytes(self.path / file_name(name), limit, ZooError, follow_links=False)


class WebFolder:
    """An entry's folder on the web.

    Args:
        url: its http or https address.
        deadline: `time.monotonic()` at which reading ends; default: in `TOTAL_SECONDS`.
    """

    def __init__(self, url: str, deadline: float | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or parts.query or parts.fragment:
            raise ZooError(
                f"where: expected an http or https address without ? and #, received {url!r}. "
                "Pass that of the entry's folder."
            )
        self.url = url.rstrip("/")
        self._deadline = time.monotonic() + TOTAL_SECONDS if deadline is None else deadline

    def __str__(self) -> str:
        return self.url

    def sibling(self, name: str) -> WebFolder:
        """The folder of another entry, beside this one."""
        return WebFolder(f"{self.url.rpartition('/')[0]}/{entry_name(name)}", self._deadline)

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file, at most `limit` of them."""
        url = f"{self.url}/{urllib.parse.quote(file_name(name))}"
        answer = {"error": TimeoutError(f"not all files within {TOTAL_SECONDS} seconds")}
        # In a thread, since nothing else ends a server's headers, or a name server's search, that
        # come one byte at a time. A late thread ends with its connection, or with the process.
        thread = threading.Thread(target=self._fetch, args=(url, limit, answer), daemon=True)
        thread.start()
        thread.join(max(0.0, self._deadline - time.monotonic()))
        if "error" in answer:
            raise ZooError(
                f"{url}: expected a file, received an error: {answer['error']}. Check the address "
                "and the network, or download the folder and load it from there."
            )
        data, stated = files.within(answer["data"], limit, url, ZooError), answer["length"]
        if stated.isdecimal() and len(stated) < 20 and len(data) < int(stated):
            raise ZooError(f"{url}: expected {stated} bytes, received {len(data)}. Try again.")
        return data

    def _fetch(self, url, limit, answer):
        """Puts at most `limit` + 1 bytes and their stated number into `answer`, or the error."""
        parts, room = [], limit + 1
        try:
            with urllib.request.build_opener(_WebOnly).open(url, timeout=TIMEOUT_SECONDS) as reply:
                # Not read, which waits for all of it as long as something comes now and then.
                while room and (part := reply.read1(min(room, _CHUNK))):
                    if time.monotonic() > self._deadline:
                        return
                    parts.append(part)
                    room -= len(part)
            answer |= {"data": b"".join(parts), "length": reply.headers.get("Content-Length", "")}
            del answer["error"]
        # http.client has errors of its own for answers that are no HTTP.
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer["error"] = error


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to http, nor to anything else."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("https", req.type):
            raise ZooError(
                f"{req.full_url}: expected a redirect to https, received {newurl[:200]!r}. Pass "
                "the address of the folder itself."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class HubFolder:
    """An entry's folder in a repository of the Hugging Face Hub, read by `huggingface_hub`.

    Files are kept in that library's cache. All come from one commit, and are checked like those of
    any other place: their sizes before they are fetched, their hashes before they are used.

    Args:
        repo: `user/repository`.
        folder: where in the repository the entry is; "" for its top.
        revision: a branch, tag or commit; the main branch if `None`.
    """

    def __init__(self, repo: str, folder: str = "", revision: str | None = None) -> None:
        self.repo, self.folder, self.revision = repo, folder, revision

    @classmethod
    def parse(cls, where: str) -> HubFolder:
        """The folder at an address `hf://user/repository[@revision][/folder]`."""
        found = _REPOSITORY.fullmatch(where)
        if not found or {".", ".."} & set(re.split("[/@]", where)):
            raise ZooError(
                "where: expected an address such as hf://user/repository or "
                f"hf://user/repository@revision/folder, received {where!r}. Correct it."
            )
        return cls(found["repo"], found["folder"] or "", found["revision"])

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf://{self.repo}{revision}" + (f"/{self.folder}" if self.folder else "")

    def sibling(self, name: str) -> HubFolder:
        """The folder of another entry in the same repository."""
        if not self.folder:
            raise ZooError(
                f"{self}: expected an entry with all its weights, received one that refers to "
                f"{name}, which is not in the repository. Publish it again."
            )
        parent = self.folder.rpartition("/")[0]
        return HubFolder(self.repo, f"{parent}/{entry_name(name)}".lstrip("/"), self.revision)

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file, at most `limit` of them."""
        hub, endpoint = hub_library(), os.environ.get("HF_ENDPOINT")
        place = f"{self.folder}/{file_name(name)}".lstrip("/")
        try:
            url = hub.hf_hub_url(self.repo, place, revision=self.revision, endpoint=endpoint)
            facts = hub.get_hf_file_metadata(url)
            if facts.size is None or facts.size > limit:
                raise ZooError(
                    f"{self}/{name}: expected at most {limit:,} bytes, received {facts.size}. "
                    "Check that the repository is a zoo entry."
                )
            # From here on the same commit, also if the branch moves meanwhile.
            self.revision = facts.commit_hash or self.revision
            path = hub.hf_hub_download(self.repo, place, revision=self.revision, endpoint=endpoint)
        except ZooError:
            raise
        except Exception as error:  # its own, and those of the HTTP client that it uses
            reason = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
            raise ZooError(
                f"{self}/{name}: expected a file that can be fetched, received an error: {reason}. "
                "Check the address and the network."
            ) from None
        return files.read_bytes(path, limit, ZooError)


def hub_library() -> ModuleType:
    """The module `huggingface_hub`, which the extra `s2d_tf[hf]` installs."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise ZooError(
            f"hf://: expected huggingface_hub, received {error}. Run `pip install 's2d_tf[hf]'`."
        ) from None
    return huggingface_hub
