"""Where a trained model is: a run directory, or an entry's folder on disk, on the web or on a hub.

Sources of entries only give bytes, at most as many as they are asked for. The names of files and of
other entries come from a record, which was checked when it was read.
"""

from __future__ import annotations

import dataclasses
import http.client
import os
import pathlib
import re
import threading
import time
import urllib.parse
import urllib.request
from types import ModuleType
from typing import Any

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.zoo import entries, recipes
from s2d_tf.zoo.entries import ENTRY, ZooError
from s2d_tf.zoo.runs import RECIPE, Run, is_run

TIMEOUT_SECONDS = 30
"""For each answer of a server, however little it is."""
TOTAL_SECONDS = 600
"""For all files of an entry together."""
_CHUNK = 1 << 16
_REPOSITORY = re.compile(
    r"hf://(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+))?(/(?P<folder>[\w.-]+(/[\w.-]+)*))?/?"
)


def find(where: PathLike) -> Run | Folder | WebFolder | HubFolder:
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
    path = pathlib.Path(where).expanduser()
    path = path.parent if path.name == ENTRY else path
    if text and os.sep not in text:
        ours = entries.directory() / text
        if (ours / ENTRY).exists():
            return Folder(ours)
        if not path.is_dir() or text in recipes.names():
            recipes.resolve(text)  # an unknown name lists near ones
            raise ZooError(
                f"{text}: expected an entry with weights, received one without. `s2d train "
                f"{text} --workdir=DIR` trains it. Wheels leave out some weights: if the "
                "repository's zoo/pretrained has them, pass that folder."
            )
    if is_run(path):
        return Run.open(path)
    ZooError.unless(
        (path / ENTRY).exists(),
        f"{path}: expected a run directory with a {RECIPE}, or an entry's with an {ENTRY}, "
        "received neither. Check the path.",
    )
    return Folder(path)


@dataclasses.dataclass
class Folder:
    """An entry's folder on this machine."""

    path: pathlib.Path

    def __str__(self) -> str:
        return str(self.path)

    def read(self, name: str, limit: int, entry: str | None = None) -> bytes:
        """The bytes of a file: regular, not a link, at most `limit` bytes.

        Args:
            name: of the file.
            limit: the most bytes that it may have.
            entry: name of another entry beside this one that has the file.
        """
        folder = self.path.resolve().parent / entry if entry else self.path
        return files.read_bytes(folder / name, limit, ZooError, follow_links=False)


class WebFolder:
    """An entry's folder on the web, at an http or https address."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        ZooError.unless(
            parts.scheme in ("http", "https") and not parts.query and not parts.fragment,
            f"where: expected an http or https address without ? and #, received {url!r}. "
            "Pass that of the entry's folder.",
        )
        self.url = url.rstrip("/")
        self._deadline = time.monotonic() + TOTAL_SECONDS

    def __str__(self) -> str:
        return self.url

    def read(self, name: str, limit: int, entry: str | None = None) -> bytes:
        """The bytes of a file; see `Folder.read`."""
        folder = f"{self.url.rpartition('/')[0]}/{entry}" if entry else self.url
        url = f"{folder}/{name}"
        answer: dict[str, Any] = {
            "error": TimeoutError(f"not all files within {TOTAL_SECONDS} seconds")
        }
        # In a thread, since nothing else ends a server's headers, or a name server's search, that
        # come one byte at a time. A late thread ends with its connection, or with the process.
        thread = threading.Thread(target=self._fetch, args=(url, limit, answer), daemon=True)
        thread.start()
        thread.join(max(0.0, self._deadline - time.monotonic()))
        ZooError.unless(
            "error" not in answer,
            f"{url}: expected a file, received an error: {answer.get('error')}. Check the address "
            "and the network, or download the folder and load it from there.",
        )
        return answer["data"]

    def _fetch(self, url, limit, answer):
        """Puts at most `limit` + 1 bytes into `answer`, or the error."""
        parts, room = [], limit + 1
        try:
            with urllib.request.build_opener(_WebOnly).open(url, timeout=TIMEOUT_SECONDS) as reply:
                # Not read, which waits for all of it as long as something comes now and then.
                while room and (part := reply.read1(min(room, _CHUNK))):
                    if time.monotonic() > self._deadline:
                        return
                    parts.append(part)
                    room -= len(part)
            ZooError.unless(room, f"expected at most {limit:,} bytes, received more")
            answer["data"] = b"".join(parts)
            del answer["error"]
        # http.client has errors of its own for answers that are not HTTP.
        except (OSError, ValueError, http.client.HTTPException) as error:
            answer["error"] = error


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follows redirections, but never from https to http, nor to anything else."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        scheme = urllib.parse.urlsplit(newurl).scheme
        ZooError.unless(
            scheme in ("https", req.type),
            f"{req.full_url}: expected a redirect to https, received {newurl[:200]!r}. Pass "
            "the address of the folder itself.",
        )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@dataclasses.dataclass
class HubFolder:
    """An entry's folder in a repository of the Hugging Face Hub, read by `huggingface_hub`.

    Files are kept in that library's cache. All come from one commit, and are checked like those of
    any other place: their sizes before they are fetched, their hashes before they are used.

    Args:
        repo: `user/repository`.
        folder: where in the repository the entry is; "" for its top.
        revision: a branch, tag or commit; the main branch if `None`.
    """

    repo: str
    folder: str = ""
    revision: str | None = None

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

    def read(self, name: str, limit: int, entry: str | None = None) -> bytes:
        """The bytes of a file; see `Folder.read`."""
        hub, endpoint = hub_library(), os.environ.get("HF_ENDPOINT")
        folder = f"{self.folder.rpartition('/')[0]}/{entry}" if entry else self.folder
        place = f"{folder}/{name}".strip("/")
        try:
            url = hub.hf_hub_url(self.repo, place, revision=self.revision, endpoint=endpoint)
            facts = hub.get_hf_file_metadata(url)
            # From here on the same commit, also if the branch moves meanwhile.
            self.revision = facts.commit_hash or self.revision
            ZooError.unless(
                facts.size is not None and facts.size <= limit,
                f"expected at most {limit:,} bytes, received {facts.size}",
            )
            path = hub.hf_hub_download(self.repo, place, revision=self.revision, endpoint=endpoint)
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
