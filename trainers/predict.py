"""Scores inputs in files: a table of labels, confidences and uncertainties.

usage: s2d predict MODEL INPUTS --out=FILE [--top_k=5] [--step=FILE ...]
                   [--beam=OPTIONS]

    s2d predict wrn_10_2_s2.s2d.cifar100 photos --out=answers.parquet
    s2d predict runs/s2d_0 records.tfrecord --out=answers.csv --step=knn.safetensors

MODEL is a zoo name, a run directory, an entry's folder or an exported version. INPUTS is a folder
of JPEG or PNG files, TFRecord or Parquet files, or a .txt file: one path per line, or one text per
line for a text model. FILE ends in .parquet or .csv. Unreadable inputs are listed in
FILE.skipped.csv. Rerun the command to resume. `s2d evaluate FILE` computes metrics if the inputs
have labels.

--beam runs the command on Apache Beam (needs the extra `beam`):

    s2d predict models/cifar100/1 photos --out=answers.parquet \\
        --beam="--runner=FlinkRunner --flink_master=host:8081"

See docs/serving.md.
"""

import shlex

from absl import flags

from . import _flags

_OUT = flags.DEFINE_string("out", None, "Output file, .parquet or .csv.", required=True)
_TOP_K = flags.DEFINE_integer("top_k", 5, "Number of most probable classes to list.", lower_bound=1)
_BATCH_SIZE = _flags.batch_size()
_STEP = flags.DEFINE_multi_string(
    "step",
    [],
    "Post-hoc step to add, a file from `posthoc.save`; in the order of fitting",
)
_IMAGE_KEY = flags.DEFINE_string(
    "image_key", None, "Feature or column of the inputs, if not a usual name."
)
_LABEL_KEY = flags.DEFINE_string(
    "label_key", None, "Feature or column of the labels (default: label)."
)
_BEAM = flags.DEFINE_string(
    "beam", None, "Run on Apache Beam with these runner options, separated by spaces."
)


def main(argv: list[str]) -> None:
    model, inputs = _flags.arguments(
        argv, "MODEL INPUTS", "two arguments", "s2d predict MODEL INPUTS --out=FILE", 2, 2
    )
    options = {
        "top_k": _TOP_K.value,
        "batch_size": _BATCH_SIZE.value,
        "image_key": _IMAGE_KEY.value,
        "label_key": _LABEL_KEY.value,
    }
    if _BEAM.value is None:
        from . import scoring

        scorer = scoring.open_scorer(model, _STEP.value)
        summary = scoring.predict_files(scorer, inputs, _OUT.value, **options)
    else:
        from .scoring import beam

        runner = shlex.split(_BEAM.value)
        summary = beam.predict_files(model, inputs, _OUT.value, runner, _STEP.value, **options)
    print(f"Wrote {summary.rows:,} rows to {summary.out}")
    if summary.skipped:
        print(f"Skipped {summary.skipped:,} inputs, listed in {summary.skipped_list}")
