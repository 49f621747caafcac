"""Entries on the Hugging Face Hub: `hf://user/repository[@revision][/folder]`."""

from __future__ import annotations

import os
import re
from types import ModuleType

from s2d_tf import files
from s2d_tf.zoo.entries import ZooError, entry_name, file_name

_ADDRESS = re.compile(
    r"hf://(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w.-]+))?(/(?P<folder>[\w.-]+(/[\w.-]+)*))?/?"
)


class Repository:
    """An entry's folder in a repository of models, read through `huggingface_hub`.

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
    def parse(cls, where: str) -> Repository:
        """The repository of an address.

        Raises:
            ZooError: it is not of the form `hf://user/repository[@revision][/folder]`.
        """
        found = _ADDRESS.fullmatch(where)
        if not found or {".", ".."} & set(re.split("[/@]", where)):
            raise ZooError(
                "where: expected an address such as hf://user/repository or "
                f"hf://user/repository@revision/folder, received {where!r}. Correct it."
            )
        return cls(found["repo"], found["folder"] or "", found["revision"])

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf://{self.repo}{revision}" + (f"/{self.folder}" if self.folder else "")

    def sibling(self, name: str) -> Repository:
        """The folder of another entry in the same repository."""
        if not self.folder:
            raise ZooError(
                f"{self}: expected an entry with all its weights, received one that refers to "
                f"{name}, which is not in the repository. Publish it again."
            )
        parent = self.folder.rpartition("/")[0]
        name = entry_name(name)
        return Repository(self.repo, f"{parent}/{name}" if parent else name, self.revision)

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file in the folder, at most `limit` of them."""
        hub, endpoint = library(), os.environ.get("HF_ENDPOINT")
        place = f"{self.folder}/{file_name(name)}" if self.folder else file_name(name)
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


def library() -> ModuleType:
    """The module `huggingface_hub`.

    Raises:
        ImportError: it is not installed (the extra `s2d_tf[hf]`).
    """
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            f"hf://: expected huggingface_hub, received {error}. Run `pip install 's2d_tf[hf]'`."
        ) from None
    return huggingface_hub
