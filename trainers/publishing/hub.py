"""Sends an entry to the Hugging Face Hub."""

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from s2d_tf import files
from s2d_tf.zoo import loading
from s2d_tf.zoo.layout import CARD, ENTRY
from s2d_tf.zoo.sources import Folder, HubFolder, hub_library

from .checks import PublishError
from .publication import publish


def publish_to(
    to: str,
    directory: str | os.PathLike,
    name: str,
    zoo_dir: str | os.PathLike | None = None,
    log: Callable[[str], object] = print,
    **options: Any,
) -> str:
    """Makes an entry from a run, as `publish` does, and sends it to the Hub.

    Args:
        to: `hf://user/repository[@branch][/folder]`; the repository is made if it is not there.
        directory, name, log, **options: as for `publish`.
        zoo_dir: folder in which to keep the entry as well; default: it is only sent.

    Returns:
        The address, which `zoo.load` takes.

    Example:

    >>> to = "hf://user/repository"
    >>> publishing.publish_to(to, "run", "wrn_10_2_s2.s2d.digits")  # doctest: +SKIP
    'hf://user/repository'
    """
    hub_library(), HubFolder.parse(to)  # before minutes are spent
    with contextlib.ExitStack() as stack:
        place = zoo_dir or stack.enter_context(tempfile.TemporaryDirectory())
        return upload(publish(directory, name, zoo_dir=place, log=log, **options), to, log)


def upload(folder: str | os.PathLike, to: str, log: Callable[[str], object] = print) -> str:
    """Sends the folder of an entry to the Hub, and reads its record there as a user would.

    Args:
        folder: the entry's folder, with all its weights.
        to: as for `publish_to`.
        log: function that gets lines for a person.

    Raises:
        PublishError: the entry refers to weights of another one, which would not be found there.

    Example:

    >>> folder = zoo.directory() / "wrn_10_2_s2.s2d.digits"
    >>> publishing.upload(folder, "hf://user/repository")  # doctest: +SKIP
    'hf://user/repository'
    """
    folder, target = pathlib.Path(folder), HubFolder.parse(to)
    record = loading.read_record(Folder(folder))
    elsewhere = sorted({item.entry for item in record.weights if item.entry})
    if elsewhere:
        raise PublishError(
            f"{folder}: expected an entry with all its weights, received one that refers to "
            f"{', '.join(elsewhere)}. Publish it without --zoo, or into an empty folder."
        )
    api = hub_library().HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    address = str(target)
    with tempfile.TemporaryDirectory() as temporary:
        copied = pathlib.Path(shutil.copytree(folder, pathlib.Path(temporary) / record.name))
        # Who reads the card there has only the address.
        card = (copied / CARD).read_text(encoding="utf-8")
        for command in ('zoo.load("', "`s2d export "):
            card = card.replace(f"{command}{record.name}", f"{command}{address}")
        files.write_text(copied / CARD, card)
        api.create_repo(target.repo, exist_ok=True)
        sent = api.upload_folder(
            repo_id=target.repo,
            folder_path=copied,
            path_in_repo=target.folder or None,
            revision=target.revision,
            commit_message=f"Publish {record.name}",
        )
    there = HubFolder(target.repo, target.folder, sent.oid)
    loading.read_record(there, files.sha256(folder / ENTRY))
    log(f"published {address}, commit {sent.oid}")
    return address
