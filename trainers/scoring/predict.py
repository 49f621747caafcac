"""Files in, a table of answers out."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import pathlib
import typing
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from s2d_tf import __version__, _progress
from s2d_tf._types import PathLike

from . import rows, sources
from .parts import Parts

if TYPE_CHECKING:
    from .scorer import Scorer

PART_ROWS = 4096
"""Examples of a part: what is computed again, at most, after a kill."""
FORMAT = 1


class Options(typing.NamedTuple):
    """Flags of `predict_files`."""

    top_k: int = 5
    batch_size: int = 256
    image_key: str | None = None
    label_key: str | None = None
    part_rows: int = PART_ROWS


class Summary(typing.NamedTuple):
    """What was written.

    Attributes:
        rows: inputs with an answer.
        skipped: inputs without one.
        out: the table.
        skipped_list: CSV file with the name of each skipped input and the reason.

    Example:

    >>> scorer = prediction.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> summary = prediction.predict_files(scorer, "pictures", "answers.csv", progress=False)
    >>> summary.rows, summary.skipped
    (8, 0)
    """

    rows: int
    skipped: int
    out: pathlib.Path
    skipped_list: pathlib.Path


def predict_files(
    scorer: Scorer,
    inputs: PathLike,
    out: PathLike,
    top_k: int = 5,
    batch_size: int = 256,
    image_key: str | None = None,
    label_key: str | None = None,
    part_rows: int = PART_ROWS,
    progress: bool = True,
) -> Summary:
    """Scores inputs from files and writes a table of the answers.

    Memory does not grow with the number of inputs. The same call continues after a kill, without
    a lost or a doubled row. Inputs that cannot be read or decoded, and answers that are not
    numbers, are listed in `<out>.skipped.csv`.

    Args:
        scorer: a `Scorer`, see `open_scorer`.
        inputs: see `sources.open_source`.
        out: the file to write, `.parquet` or `.csv`.
        top_k: how many classes to give the probability of.
        batch_size: inputs in a forward pass; answers do not depend on it.
        image_key, label_key: see `sources.open_source`.
        part_rows: inputs in a part, which is computed again after a kill.
        progress: whether to show a bar.

    Returns:
        `Summary`. The table has one row for each input, in order: `input`, `label`, `class` where
        names are known, `confidence`, `total_uncertainty`, `data_uncertainty`,
        `knowledge_uncertainty`, `top_1_label`, `top_1_probability` and so on, what fitted steps
        add (`ood_score`, `prediction_set`, `abstain`), and `true_label` with
        `true_log_probability` where the inputs have labels.

    Example:

    >>> scorer = prediction.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> summary = prediction.predict_files(scorer, "pictures", "answers.parquet", progress=False)
    >>> summary.rows, summary.out.name
    (8, 'answers.parquet')
    """
    options = Options(top_k, batch_size, image_key, label_key, part_rows)

    def score(source, parts):
        _score(scorer, source, inputs, parts, options, progress)

    return write_table(scorer, inputs, out, options, score)


def write_table(
    scorer: Scorer, inputs: PathLike, out: PathLike, options: Options, score: Callable
) -> Summary:
    """Opens the inputs and the parts, has the missing parts written, and joins them.

    Args:
        scorer, inputs, out: see `predict_files`.
        options: its flags.
        score: called with the source and the `Parts`, of which it writes all that are missing.
    """
    source = sources.open_source(inputs, options.image_key, options.label_key)
    key = {
        "format": FORMAT,
        "s2d_tf": __version__,
        "model": scorer.sha256,
        "inputs": sources.fingerprint(source),
        "count": source.count,
        "keys": [options.image_key, options.label_key],
        "top_k": options.top_k,
        "part_rows": options.part_rows,
    }
    about = {"name": scorer.name, "inputs": str(inputs)}
    parts = Parts(out, key, about)
    if not parts.finished:
        with parts.begin():
            try:
                score(source, parts)
            except KeyboardInterrupt:
                done = min(parts.count * options.part_rows, source.count)
                raise KeyboardInterrupt(
                    f"after {done:,} of {source.count:,} inputs; the same command continues."
                ) from None
            parts.join()
    summary = parts.finished
    parts.clean()
    if summary is None:
        raise ValueError(
            f"{inputs}: expected at least one input that can be read, received {source.count} that "
            f"cannot, listed in {parts.skipped}. See there what is wrong with them."
        )
    return Summary(summary["rows"], summary["skipped"], parts.out, parts.skipped)


def examples_from(
    source: sources.Source, start: int, inputs: PathLike, of_images: bool
) -> Iterable[sources.Example]:
    """Examples from number `start` on; the lines of a text file are paths for a model of images."""
    examples = source.examples(start)
    if of_images and isinstance(source, sources.Lines):
        folder = pathlib.Path(inputs).expanduser().parent
        return (each if each.error else sources.read_path(each, folder) for each in examples)
    return examples


def as_columns(
    scorer: Scorer, held: Any, outputs: dict, top_k: int
) -> tuple[list[dict], list[tuple[str, str]]]:
    """Columns of a batch, none where it is empty; and what has an answer that is not a number."""
    if not held:
        return [], []
    made, finite = rows.columns(held, outputs, top_k, scorer.class_names)
    wrong = [(held[i].name, "the answer is not a number") for i in np.flatnonzero(~finite)]
    return [made], wrong


def _score(scorer, source, inputs, parts, options, progress):
    """Writes all parts that are not written yet."""
    first = parts.count
    part_rows = options.part_rows
    examples = examples_from(source, first * part_rows, inputs, scorer.image_shape is not None)
    bar = _progress.Bar(
        source.count,
        "input",
        initial=min(first * part_rows, source.count),
        shown=progress,
    )
    # Three threads: one decodes the next batch, one runs the model, and this one writes.
    batches = _ahead(_batches(scorer, examples, options.batch_size, part_rows))
    answered = _ahead((*rest, scorer(batch) if len(batch) else {}) for batch, *rest in batches)
    with bar, contextlib.closing(answered):
        columns, skipped, index = [], [], first
        for held, damaged, done, last, outputs in answered:
            made, wrong = as_columns(scorer, held, outputs, options.top_k)
            columns += made
            skipped += damaged + wrong
            if last:
                parts.write(index, columns, skipped)
                columns, skipped, index = [], [], index + 1
            bar.update(done)


def _batches(scorer, examples, batch_size, part_rows):
    """Decoded batches that do not reach over the end of a part."""
    left = part_rows
    batch = list(itertools.islice(examples, min(batch_size, left)))
    while batch:
        left = left - len(batch) or part_rows
        following = list(itertools.islice(examples, min(batch_size, left)))
        yield *scorer.inputs(batch), len(batch), left == part_rows or not following
        batch = following


def _ahead(iterator):
    """The items, each made in a thread while the one before is in use."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item
