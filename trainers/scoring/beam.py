"""The same table from many machines: an Apache Beam pipeline over the parts.

Needs the extra `beam`. A part is read, scored and written by whichever worker gets it, in the
batches that `predict_files` makes of it, so the rows are the same to the last bit on machines of
one kind.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from .predict import Job, Summary
from .predict import predict_files as predict_here
from .scorer import open_scorer

try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.utils import shared
except ImportError as error:
    raise ImportError(
        f"s2d predict --beam: expected Apache Beam, received {error}. Run `pip install "
        "'s2d_tf[beam]'` in an environment of its own."
    ) from None


def predict_files(
    where: str | os.PathLike,
    inputs: str | os.PathLike,
    out: str | os.PathLike,
    pipeline_options: Sequence[str] = (),
    steps: Sequence[str | os.PathLike] = (),
    **options: Any,
) -> Summary:
    """Scores inputs from files with the workers of an Apache Beam runner.

    The model, the inputs and `out` are on a file system that this process and all workers see under
    the same paths. After a failure, the same call continues with the missing parts, as does
    `scoring.predict_files`, which writes the same table.

    Args:
        where: the model, see `open_scorer`; a version folder from `s2d export` loads fastest.
        inputs, out: see `scoring.predict_files`.
        pipeline_options: flags of the runner, such as `["--runner=FlinkRunner"]`.
        steps: see `open_scorer`.
        **options: `top_k`, `batch_size`, `image_key`, `label_key` and `part_rows` of
            `scoring.predict_files`.

    Returns:
        `Summary`, see `scoring.predict_files`.

    Raises:
        ImportError: Apache Beam is not installed.
        RuntimeError: parts that workers wrote are not visible here, or workers have another model.

    Example:

    ```python
    from s2d_tf.trainers.scoring import beam

    two = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    beam.predict_files("models/cifar100/1", "photos", "answers.parquet", two)
    ```
    """
    where = _absolute(where) if os.path.exists(where) else where  # It may be a name.
    inputs, out, *steps = (_absolute(path) for path in (inputs, out, *steps))
    scorer = open_scorer(where, steps)

    def score_parts(job):
        with beam.Pipeline(options=PipelineOptions(list(pipeline_options))) as pipeline:
            (
                pipeline
                | "Parts" >> beam.Create(job.missing)
                | "Spread" >> beam.Reshuffle()
                | "Score" >> beam.ParDo(_ScorePart(job, (where, steps), scorer.sha256))
            )
        if job.missing:
            raise RuntimeError(
                f"out: expected a folder that all workers share, received {job.folder}, "
                f"where {len(job.missing)} parts are missing. Choose an --out that they share."
            )

    return predict_here(scorer, inputs, out, score_parts=score_parts, **options)


class _ScorePart(beam.DoFn):
    """Reads, scores and writes the part of a number; a second time, it is the same part."""

    def __init__(self, job: Job, opening: tuple, sha256: str) -> None:
        self._job = job
        self._opening = opening  # arguments of `open_scorer`
        self._sha256 = sha256
        self._shared = shared.Shared()  # one model for all threads of a worker

    def setup(self):
        self._scorer = self._shared.acquire(lambda: open_scorer(*self._opening))
        if self._scorer.sha256 != self._sha256:
            raise RuntimeError(
                f"model: expected the one with the hash {self._sha256} on all workers, received "
                f"{self._scorer.sha256} from {self._opening[0]}. Export it to a folder that they "
                "share."
            )

    def process(self, index):
        examples = self._job.source.read(index * self._job.part_rows)
        for _ in self._job.score_part(self._scorer, index, examples):
            pass


def _absolute(path):
    """Workers may run in other folders."""
    return str(pathlib.Path(path).expanduser().absolute())
