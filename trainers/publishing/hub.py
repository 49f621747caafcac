"""Sends an entry to the Hugging Face Hub."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from s2d_tf import files
from s2d_tf.evaluation import names
from s2d_tf.uncertainty import decomposes
from s2d_tf.zoo import entries
from s2d_tf.zoo.entries import CARD, ENTRY
from s2d_tf.zoo.sources import Folder, HubFolder, hub_library

from .card import LICENSE
from .provenance import PublishError
from .publication import publish

TAGS = ["uncertainty", "calibration", "out-of-distribution-detection", "keras", "tensorflow"]
TASK = "image-classification"
DATASETS = {"cifar10": "uoft-cs/cifar10", "cifar100": "uoft-cs/cifar100"}
"""Datasets that have another name on the Hub."""
METRICS = {  # type on the Hub and name for people, by our key
    "accuracy": ("accuracy", "Accuracy"),
    "nll": ("nll", "Negative log-likelihood"),
    "ece": ("expected_calibration_error", "Expected calibration error"),
    "brier": ("brier_score", "Brier score"),
}


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
        to: `hf://user/repository[@branch][/folder]`; the repository is created if needed.
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

    The card there begins with the metadata that the Hub shows: license, data and metrics.

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
    record = entries.read(Folder(folder).read(ENTRY, entries.MAX_TEXT_BYTES), folder)
    elsewhere = sorted({item.entry for item in record.weights if item.entry})
    PublishError.unless(
        not elsewhere,
        f"{folder}: expected an entry with all its weights, received one that refers to "
        f"{', '.join(elsewhere)}. Publish it without --zoo, or into an empty folder.",
    )
    api = hub_library().HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    address = str(target)
    with tempfile.TemporaryDirectory() as temporary:
        copied = pathlib.Path(shutil.copytree(folder, pathlib.Path(temporary) / record.name))
        # Who reads the card there has only the address.
        card = (copied / CARD).read_text(encoding="utf-8")
        for command in ('zoo.load("', "`s2d export "):
            card = card.replace(f"{command}{record.name}", f"{command}{address}")
        files.write_text(copied / CARD, f"---\n{metadata(record).to_yaml()}\n---\n\n{card}")
        api.create_repo(target.repo, exist_ok=True)
        sent = api.upload_folder(
            repo_id=target.repo,
            folder_path=copied,
            path_in_repo=target.folder or None,
            revision=target.revision,
            commit_message=f"Publish {record.name}",
        )
    there = HubFolder(target.repo, target.folder, sent.oid)
    text = there.read(ENTRY, entries.MAX_TEXT_BYTES)
    files.check_sha256(text, files.sha256(folder / ENTRY), str(there))
    log(f"published {address}, commit {sent.oid}")
    return address


def metadata(record: entries.Record) -> Any:
    """The `huggingface_hub.ModelCardData` of an entry, with its metrics."""
    known = record.recipe.source_dataset
    scores = names.UNCERTAINTIES[: 4 if decomposes(record.kind, record.num_members) else 2]
    stated = [(known, TASK, f"{known}/{key}", *texts) for key, texts in METRICS.items()]
    stated += [
        (other, TAGS[2], f"{other}/auroc/{score}", "roc_auc", f"AUROC by {title.lower()}")
        for other in record.recipe.out_of_distribution
        for score, title in ((score, names.LONG_NAMES[score]) for score in scores)
    ]
    results = [
        hub_library().EvalResult(
            task_type=task,
            dataset_type=DATASETS.get(dataset, dataset),
            dataset_name=names.dataset_title(dataset),
            dataset_split="test",
            metric_type=kind,
            metric_name=title,
            metric_value=round(record.metrics[key], 6),
        )
        for dataset, task, key, kind, title in stated
        if isinstance(record.metrics.get(key), float | int)
    ]
    return hub_library().ModelCardData(
        license=LICENSE.lower(),
        library_name="s2d_tf",
        pipeline_tag=TASK,
        tags=TAGS,
        datasets=[DATASETS.get(known, known)] if known in DATASETS else None,
        model_name=record.name,
        eval_results=results,
    )
