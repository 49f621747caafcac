"""Exports a trained model for TF Serving, ONNX or LiteRT.

usage: s2d export NAME_OR_RUN DIR [--format=saved_model|onnx|litert] [--precision=float32|int8]
                                  [--xla_batch_sizes=N,...]

    s2d export wrn_10_2_s2.s2d.cifar100 models/cifar100          # a pretrained zoo entry
    s2d export their_zoo/ENTRY models/cifar100                   # an entry's folder or URL
    s2d export runs/s2d models/cifar100 --format=onnx            # a finished run

Writes the next version (models/cifar100/1, 2, ...), which appears only when complete, and prints
its path. See docs/serving.md, and docs/performance.md for --precision and --xla_batch_sizes.
"""

import pathlib
from collections.abc import Callable

from absl import flags

from . import _flags

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "format",
    "saved_model",
    ["saved_model", "onnx", "litert"],
    "saved_model is for TF Serving and `s2d serve`; onnx needs the extra s2d_tf[onnx].",
)
flags.DEFINE_list(
    "xla_batch_sizes",
    [],
    "Batch sizes to compile with XLA in a SavedModel. TF Serving then needs "
    "--xla_cpu_compilation_enabled=true.",
)
flags.DEFINE_enum(
    "precision",
    "float32",
    ["float32", "int8"],
    "int8 is for ONNX and LiteRT files of image models; it changes the predictions.",
)
flags.DEFINE_string(
    "calibration",
    None,
    "Folder of training images to calibrate int8 ONNX files (default: the dataset the model was "
    "trained on).",
)
_DATA_DIR = _flags.data_dir()


def main(argv: list[str]) -> None:
    if len(argv) != 3:
        raise ValueError(
            "NAME_OR_RUN DIR: expected a name or a run directory, and a folder, received "
            f"{argv[1:]!r}. Run `s2d export NAME_OR_RUN DIR`."
        )
    options = _options()
    from s2d_tf import export, zoo

    # A run directory may have the name of an entry.
    source = pathlib.Path(argv[1]) if zoo.is_run(argv[1]) else argv[1]
    savers: dict[str, Callable[..., object]] = {
        "saved_model": export.save,
        "onnx": export.save_onnx,
        "litert": export.save_litert,
    }
    opened = zoo.open_model(source)
    if FLAGS.format == "onnx" and FLAGS.precision == "int8":
        options["calibration"] = export.calibration_images(
            opened, FLAGS.calibration, _DATA_DIR.value
        )
    print(savers[FLAGS.format](opened.predictor, argv[2], **options))


def _options():
    """Arguments of `export.save*` beside the model, or an error about flags of another format."""
    wrong = {
        "xla_batch_sizes": FLAGS.xla_batch_sizes and FLAGS.format != "saved_model",
        "precision": FLAGS.precision != "float32" and FLAGS.format == "saved_model",
        "calibration": FLAGS.calibration and (FLAGS.format, FLAGS.precision) != ("onnx", "int8"),
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise ValueError(
                f"--{name}: expected none with --format={FLAGS.format} and "
                f"--precision={FLAGS.precision}, received {FLAGS[name].value}. Leave it out."
            )
    if FLAGS.format != "saved_model":
        return {"precision": FLAGS.precision}
    if not all(size.isdecimal() for size in FLAGS.xla_batch_sizes):
        raise ValueError(
            "--xla_batch_sizes: expected whole numbers such as 1,8,32, received "
            f"{FLAGS.xla_batch_sizes}. Separate them by commas."
        )
    return {"xla_batch_sizes": [int(size) for size in FLAGS.xla_batch_sizes]}
