"""Files in, a table of answers out."""

import concurrent.futures
import itertools
import pathlib
import sys
import typing

import numpy as np
import tqdm

from s2d_tf import __version__
from s2d_tf.prediction import rows, sources
from s2d_tf.prediction.parts import Parts

PART_ROWS = 4096
"""Examples of a part: what is computed again, at most, after a kill."""
FORMAT = 1


class Summary(typing.NamedTuple):
    """What was written: rows, skipped inputs, and the files that hold them."""

    rows: int
    skipped: int
    out: pathlib.Path
    skipped_list: pathlib.Path


def predict_files(
    scorer,
    inputs,
    out,
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

    ```python
    scorer = prediction.open_scorer("wrn_10_2_s2.s2d.cifar100")
    prediction.predict_files(scorer, "photos", "answers.parquet").rows
    ```
    """
    source = sources.open_source(inputs, image_key, label_key)
    key = {
        "format": FORMAT,
        "s2d_tf": __version__,
        "model": scorer.sha256,
        "inputs": sources.fingerprint(source),
        "count": source.count,
        "keys": [image_key, label_key],
        "top_k": top_k,
        "part_rows": part_rows,
    }
    parts = Parts(out, key)
    if not parts.finished:
        with parts.begin():
            try:
                _score(scorer, source, inputs, parts, top_k, batch_size, part_rows, progress)
            except KeyboardInterrupt:
                done = min(parts.count * part_rows, source.count)
                raise KeyboardInterrupt(
                    f"after {done:,} of {source.count:,} inputs; the same command continues."
                ) from None
            parts.join()
    summary = parts.finished
    if summary is None:
        raise ValueError(
            f"{inputs}: expected at least one input that can be read, received {source.count} that "
            f"cannot, listed in {parts.skipped}. See there what is wrong with them."
        )
    parts.clean()
    return Summary(summary["rows"], summary["skipped"], parts.out, parts.skipped)


def _score(scorer, source, inputs, parts, top_k, batch_size, part_rows, progress):
    """Writes all parts that are not written yet."""
    first = parts.count
    examples = source.examples(first * part_rows)
    if scorer.image_shape and isinstance(source, sources.Lines):
        folder = pathlib.Path(inputs).expanduser().parent
        examples = (each if each.error else sources.read_path(each, folder) for each in examples)
    bar = tqdm.tqdm(
        total=source.count,
        initial=min(first * part_rows, source.count),
        unit="input",
        disable=not progress,
        mininterval=0.5 if sys.stderr.isatty() else 60,
    )
    with bar:
        columns, skipped, index = [], [], first
        batches = _ahead(_batches(scorer, examples, batch_size, part_rows))
        for done, last, batch, held, damaged in batches:
            skipped += damaged
            if held:
                outputs = scorer(batch)
                made, finite = rows.columns(held, outputs, top_k, scorer.class_names)
                columns.append(made)
                skipped += [
                    (held[i].name, "the answer is not a number") for i in np.flatnonzero(~finite)
                ]
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
        yield len(batch), left == part_rows or not following, *scorer.inputs(batch)
        batch = following


def _ahead(iterator):
    """The items, each made in a thread while the one before is in use."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item
