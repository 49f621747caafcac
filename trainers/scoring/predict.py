"""Files in, a table of predictions out; and the metrics of such a table.

The table is written in parts and joined at the end. Part `i` holds the predictions for the examples
from `i * part_rows` on, and the list of those that were skipped, in one file: there is no moment at
which a row is lost or written twice.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import csv
import itertools
import json
import os
import pathlib
import shutil
import typing
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow
import tqdm.auto
from pyarrow import csv as arrow_csv
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

import s2d_tf
from s2d_tf import files, metrics
from s2d_tf.errors import UserError

from . import example_files
from .scorer import SCORES, Scorer

FORMATS = (".parquet", ".csv")
PART_ROWS = 4096  # what is computed again, at most, after a kill
_SKIPPED = b"s2d_skipped"


class Summary(typing.NamedTuple):
    """What was written.

    Attributes:
        rows: number of inputs with a prediction.
        skipped: number of inputs without one.
        out: the table.
        skipped_list: CSV file with the name of each skipped input and the reason.

    Example:

    >>> scorer = scoring.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> summary = scoring.predict_files(scorer, "pictures", "answers.csv", progress=False)
    >>> summary.rows, summary.skipped
    (8, 0)
    """

    rows: int
    skipped: int
    out: pathlib.Path
    skipped_list: pathlib.Path


def predict_files(
    scorer: Scorer,
    inputs: str | os.PathLike,
    out: str | os.PathLike,
    top_k: int = 5,
    batch_size: int = 256,
    image_key: str | None = None,
    label_key: str | None = None,
    part_rows: int = PART_ROWS,
    progress: bool = True,
    score_parts: Callable[[Job], object] | None = None,
) -> Summary:
    """Scores inputs from files and writes a table of the predictions.

    Memory does not grow with the number of inputs. After a kill, the same call continues without a
    lost or a doubled row. Inputs that cannot be read or decoded, and predictions that are not
    finite, are listed in `<out>.skipped.csv`.

    Args:
        scorer: from `open_scorer`.
        inputs, image_key, label_key: see `open_source`.
        out: the file to write, `.parquet` or `.csv`.
        top_k: number of most probable classes to list.
        batch_size: inputs per forward pass; predictions do not depend on it.
        part_rows: inputs per part.
        progress: whether to show a progress bar.
        score_parts: writes all missing parts of a `Job` in place of this process; see `beam`.

    Returns:
        `Summary`. The table has one row per input, in order: `input`, `label` (the predicted class)
        and `class`, its name, `confidence`, `total_uncertainty`, `data_uncertainty`,
        `knowledge_uncertainty`, `top_1_label`, `top_1_probability` and so on, what fitted steps
        add (`ood_score`, `prediction_set`, `abstain`), and `target` (the true class) with
        `target_log_probability` if the inputs have labels.

    Example:

    >>> scorer = scoring.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> summary = scoring.predict_files(scorer, "pictures", "answers.parquet", progress=False)
    >>> summary.rows, summary.out.name
    (8, 'answers.parquet')
    """
    source = example_files.open_source(inputs, image_key, label_key, scorer.image_shape is None)
    key = {
        "format": 2,
        "s2d_tf": s2d_tf.__version__,
        "model": scorer.sha256,
        "inputs": source.fingerprint(),
        "count": source.count,
        "keys": [image_key, label_key],
        "top_k": top_k,
        "part_rows": part_rows,
    }
    job = Job(out, key, source, batch_size)
    if not job.summary():
        with job.locked():
            score_parts(job) if score_parts else _score_parts(scorer, job, progress)
            job.join({"name": scorer.name, "inputs": str(inputs)})
    shutil.rmtree(job.folder, ignore_errors=True)
    if summary := job.summary():
        return summary
    raise ValueError(
        f"{inputs}: expected at least one input that can be read, received {source.count} that "
        f"cannot, listed in {job.skipped}. See there what is wrong with them."
    )


class Job:
    """A table in the making: its parts are in a folder beside it. Can be sent to other processes.

    Args:
        out: the table to write, `.parquet` or `.csv`.
        key: JSON values that determine the table, such as `top_k` and `part_rows`; parts with
            another key are rejected.
        source: the inputs.
        batch_size: see `predict_files`.
    """

    def __init__(
        self, out: str | os.PathLike, key: dict, source: example_files.Source, batch_size: int
    ) -> None:
        self.out = pathlib.Path(out).expanduser()
        UserError.unless(
            self.out.suffix in FORMATS,
            f"out: expected a file that ends in {' or '.join(FORMATS)}, received "
            f"{str(self.out)!r}. Choose another name.",
        )
        self.folder = self.out.with_name(f"{self.out.name}.parts")
        self.skipped = self.out.with_name(f"{self.out.name}.skipped.csv")
        self.facts = self.out.with_name(f"{self.out.name}.json")
        self.key = key
        self.source = source
        self.batch_size = batch_size
        self.part_rows = key["part_rows"]

    def summary(self) -> Summary | None:
        """What was written, if the table is complete and has the same key."""
        facts = _read_json(self.facts)
        if facts.get("key") != self.key or not self.out.is_file():
            return None
        return Summary(facts["rows"], facts["skipped"], self.out, self.skipped)

    def locked(self) -> contextlib.AbstractContextManager:
        """Creates the folder, or opens that of the same table; returns its lock."""
        path = self.folder / "key.json"
        held = _read_json(path)
        UserError.unless(
            held == self.key or not (held or self.out.exists()),
            f"out: expected a new file, received {str(self.out)!r}, and "
            f"{(self.folder if held else self.out).name} is of another model, other inputs or "
            "other flags. Remove it, or choose another --out.",
        )
        files.write_json(path, self.key)
        return files.locked(self.folder / "lock")

    @property
    def missing(self) -> list[int]:
        """Numbers of the parts that are not written yet."""
        count = -(-self.source.count // self.part_rows)
        return [index for index in range(count) if not self._path(index).is_file()]

    def score_part(
        self, scorer: Scorer, index: int, examples: Iterator[example_files.Example]
    ) -> Iterator[int]:
        """Writes a part, from an iterator at its first example; yields numbers of inputs done."""
        tables, skipped = [], []
        for size, batch, held, damaged in _read_ahead(self._batches(scorer, examples)):
            table, wrong = scorer.columns(batch, held, self.key["top_k"]) if held else (None, [])
            tables += [table] if table else []
            skipped += damaged + wrong
            yield size
        table = pyarrow.concat_tables(tables) if tables else pyarrow.table({})
        table = table.replace_schema_metadata({_SKIPPED: json.dumps(skipped).encode()})
        with files.written_beside(self._path(index)) as temporary:
            parquet.write_table(table, temporary)

    def join(self, about: dict) -> None:
        """Writes the list of skipped inputs and, if there is a row, the table and its facts."""
        paths = sorted(self.folder.glob("part-*.parquet"))
        schemas = [parquet.read_schema(path) for path in paths]
        skipped = [pair for schema in schemas for pair in json.loads(schema.metadata[_SKIPPED])]
        with self._placed(self.skipped) as draft, draft.open("w", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([("input", "reason"), *skipped])
        filled = [path for path, schema in zip(paths, schemas, strict=True) if schema.names]
        if not filled:
            return
        schema = parquet.read_schema(filled[0]).remove_metadata()
        make = arrow_csv.CSVWriter if self.out.suffix == ".csv" else parquet.ParquetWriter
        with self._placed(self.out) as draft, make(str(draft), schema) as writer:
            for path in filled:
                writer.write_table(parquet.read_table(path).replace_schema_metadata(None))
        rows = sum(parquet.read_metadata(path).num_rows for path in filled)
        facts = {**about, "rows": rows, "skipped": len(skipped), "key": self.key}
        with self._placed(self.facts) as draft:
            draft.write_text(json.dumps(facts, indent=2), "utf-8")

    def _path(self, index):
        return self.folder / f"part-{index:06d}.parquet"

    def _batches(self, scorer, examples):
        part = itertools.islice(examples, self.part_rows)
        while batch := list(itertools.islice(part, self.batch_size)):
            yield len(batch), *scorer.inputs(batch)

    @contextlib.contextmanager
    def _placed(self, path):
        """Gives a path among the parts, where a kill leaves the file, and moves it to `path`."""
        draft = self.folder / path.name
        with files.written_beside(draft) as temporary:
            yield temporary
        os.replace(draft, path)
        files.flush(path.parent)


def _score_parts(scorer, job, progress):
    """Writes the parts from the first missing one to the last."""
    missing, count = job.missing, job.source.count
    done = missing[0] * job.part_rows if missing else count
    examples = job.source.read(done)
    with tqdm.auto.tqdm(total=count, initial=done, unit="input", disable=not progress) as bar:
        for index in range(missing[0], missing[-1] + 1) if missing else ():
            for size in job.score_part(scorer, index, examples):
                bar.update(size)


def _read_ahead(iterator):
    """Yields the items; the next one is made in a thread in the meantime."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, iterator, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, iterator, None)
            yield item


def evaluate_table(
    path: str | os.PathLike, ood: Iterable[str | os.PathLike] = ()
) -> dict[str, float]:
    """Computes metrics from a table of predictions whose inputs had labels, without the model.

    Args:
        path: table that `predict_files` wrote; rows without a target are left out.
        ood: tables of the same model's predictions for out-of-distribution inputs.

    Returns:
        Flat dict with the keys of `evaluation.evaluate`, named after the files. Tables hold
        float32: confidences that round to 1 tie.

    Example:

    >>> x, y = data.load_arrays("digits", "test")
    >>> table = pyarrow.table({"image": [image.tobytes() for image in x[:50]], "label": y[:50]})
    >>> parquet.write_table(table, "x.parquet")
    >>> scorer = scoring.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> summary = scoring.predict_files(scorer, "x.parquet", "digits.parquet", progress=False)
    >>> scoring.evaluate_table("digits.parquet")["digits/accuracy"] > 0.8
    True
    """
    name, table = pathlib.Path(path).stem, _read_table(path)
    known = ~np.isnan(table["target"])
    UserError.unless(
        known.any(),
        f"{path}: expected targets, received none. Score inputs that have labels (a subfolder "
        "per class, or a feature `label`).",
    )
    confidence = table["confidence"][known]
    correct = table["label"][known] == table["target"][known]
    found = {
        f"{name}/accuracy": float(correct.mean()),
        f"{name}/nll": float(-table["target_log_probability"][known].mean()),
        f"{name}/ece": float(np.abs(metrics.calibration_gaps(confidence, correct)).sum()),
    }
    others = {pathlib.Path(each).stem: _uncertainties(_read_table(each)) for each in ood}
    for key, values in _uncertainties(table).items():
        found[f"{name}/aurc/{key}"] = metrics.area_under_risk_coverage(values[known], ~correct)
        for stem, scores in others.items():
            found[f"{stem}/auroc/{key}"] = metrics.auroc(values, scores[key])
            found[f"{stem}/aupr/{key}"] = metrics.aupr(values, scores[key])
    return found


def _uncertainties(table):
    """Scores of a table by name, each larger where the model is less certain."""
    scores = {name.removesuffix("_uncertainty"): table[name] for name in SCORES}
    return scores | {"confidence": -np.log(table["confidence"])}


def _read_table(path):
    """Columns as float64 arrays."""
    wanted = ["label", "target", "target_log_probability", *SCORES]
    kind = "csv" if pathlib.Path(path).suffix == ".csv" else "parquet"
    try:
        table = arrow_dataset.dataset(path, format=kind).to_table(columns=wanted)
        return {name: table[name].cast("float64").to_numpy() for name in wanted}
    except ValueError as error:  # pyarrow's own are
        raise ValueError(
            f"{path}: expected a table that `s2d predict` wrote, received {str(error)[:200]!r}. "
            "Check the path."
        ) from None


def _read_json(path):
    return files.read_json(path) if path.is_file() else {}
