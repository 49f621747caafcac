"""The same table from many machines: parts of the inputs as an Apache Beam pipeline.

Needs the extra `beam`. A part is read, scored by `RunInference` and written by whichever worker
gets it, in the batches that `predict_files` makes of it, so the rows are the same to the last bit
on machines of one kind.
"""

from __future__ import annotations

import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from s2d_tf._types import PathLike

from .predict import Options, Summary, as_columns, examples_from, write_table
from .scorer import open_scorer

try:
    import apache_beam as beam
    from apache_beam.ml.inference import base
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError as error:
    raise ImportError(
        f"s2d predict --beam: expected Apache Beam, received {error}. Run `pip install "
        "'s2d_tf[beam]'` in an environment of its own."
    ) from None


def predict_files(
    where: PathLike,
    inputs: PathLike,
    out: PathLike,
    pipeline_options: Sequence[str] = (),
    steps: Sequence[PathLike] = (),
    **options: Any,
) -> Summary:
    """Scores inputs from files with the workers of an Apache Beam runner.

    The model, the inputs and `out` are on a file system that this process and all workers have
    under the same paths. The same call continues after a failure with the parts that are missing,
    as does `prediction.predict_files`, which makes the same table.

    Args:
        where: the model, see `open_scorer`; the version folder that `s2d export` wrote, so that
            workers need no zoo.
        inputs, out: see `prediction.predict_files`.
        pipeline_options: flags of the runner, such as `["--runner=FlinkRunner"]`.
        steps: see `open_scorer`.
        **options: `top_k`, `batch_size`, `image_key`, `label_key` and `part_rows` of
            `prediction.predict_files`.

    Returns:
        `Summary`, see `prediction.predict_files`.

    Raises:
        ImportError: Apache Beam is not installed.
        RuntimeError: workers wrote parts that are not here, or have another model.

    Example:

    ```python
    from s2d_tf.trainers.scoring import beam

    two = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    beam.predict_files("models/cifar100/1", "photos", "answers.parquet", two)
    ```
    """
    chosen = Options(**options)
    where = _absolute(where) if os.path.exists(where) else where  # It may be a name.
    inputs, out, *steps = (_absolute(path) for path in (inputs, out, *steps))
    scorer = open_scorer(where, steps)
    handler = _ScorerHandler((where, steps), scorer.sha256, chosen.top_k)

    def score(source, parts):
        count = -(-source.count // chosen.part_rows)
        with beam.Pipeline(options=PipelineOptions(list(pipeline_options))) as pipeline:
            (
                pipeline
                | "Parts" >> beam.Create(parts.missing(count))
                | "Spread" >> beam.Reshuffle()
                | "Read"
                >> beam.ParDo(_Read(source, inputs, scorer.image_shape is not None, chosen))
                | "Score" >> base.RunInference(base.KeyedModelHandler(handler))
                | "ByPart" >> beam.MapTuple(_by_part)
                | "Group" >> beam.GroupByKey()
                | "Write" >> beam.ParDo(_Write(parts))
            )
        if missing := parts.missing(count):
            raise RuntimeError(
                f"out: expected a folder that all workers share, received {parts.folder}, where "
                f"{len(missing)} of {count} parts are missing. Choose an --out that they share."
            )

    return write_table(scorer, inputs, out, chosen, score)


class _Read(beam.DoFn):
    """From the number of a part to its batches, under their part and place in it."""

    def __init__(self, source: Any, inputs: PathLike, of_images: bool, options: Options) -> None:
        self._source = source
        self._inputs = inputs
        self._of_images = of_images
        self._options = options

    def process(self, index):
        rows = self._options.part_rows
        examples = examples_from(self._source, index * rows, self._inputs, self._of_images)
        examples = itertools.islice(examples, rows)
        for place in itertools.count():
            batch = list(itertools.islice(examples, self._options.batch_size))
            if not batch:
                return
            yield (index, place), batch


class _ScorerHandler(base.ModelHandler):
    """From batches of examples to their columns and the list of those that are skipped."""

    def __init__(self, opening: tuple, sha256: str, top_k: int) -> None:
        super().__init__(max_batch_size=1)  # An element is a batch already.
        self._opening = opening  # the arguments of `open_scorer`
        self._sha256 = sha256
        self._top_k = top_k

    def load_model(self):
        scorer = open_scorer(*self._opening)
        if scorer.sha256 != self._sha256:
            raise RuntimeError(
                f"model: expected the one with the hash {self._sha256} on all workers, received "
                f"{scorer.sha256} from {self._opening[0]}. Export it to a folder that they share."
            )
        return scorer

    def run_inference(self, batch, model, inference_args=None):
        for examples in batch:
            inputs, held, damaged = model.inputs(examples)
            outputs = model(inputs) if held else {}
            columns, wrong = as_columns(model, held, outputs, self._top_k)
            yield columns, damaged + wrong


class _Write(beam.DoFn):
    """Writes a part from all of its batches; a second time, it is the same part."""

    def __init__(self, parts: Any) -> None:
        self._parts = parts

    def process(self, element):
        index, batches = element
        batches = sorted(batches, key=lambda batch: batch[0])
        columns = [each for _, made, _ in batches for each in made]
        skipped = [pair for *_, pairs in batches for pair in pairs]
        self._parts.write(index, columns, skipped)


def _by_part(key, answered):
    index, place = key
    return index, (place, *answered)


def _absolute(path):
    """Workers may run in other folders."""
    return str(pathlib.Path(path).expanduser().absolute())
