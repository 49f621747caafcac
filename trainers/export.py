"""Exports a trained model for TF Serving, ONNX or LiteRT.

    s2d export wrn_10_2_s2.s2d.cifar100 models/cifar100          a pretrained zoo entry
    s2d export their_zoo/ENTRY models/cifar100                   an entry's folder or URL
    s2d export runs/s2d models/cifar100 --format=onnx            a finished run
    s2d export minilm_l6_512.s2d.clinc150 models/intents --encoder=FOLDER     texts in

Writes the next version (models/cifar100/1, 2, ...) and prints its path. A server that watches the
folder sees a version only when it is complete.
"""

import pathlib

from absl import flags

from s2d_tf import _flags

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "format",
    "saved_model",
    ["saved_model", "onnx", "litert"],
    "saved_model: for TF Serving and `s2d serve`; onnx needs the extra s2d_tf[onnx].",
)
_ENCODER = _flags.encoder()


def main(argv):
    if len(argv) != 3:
        raise ValueError(
            "Expected a name or a run directory, and a folder: `s2d export NAME_OR_RUN DIR`."
        )
    from s2d_tf import export, storage

    # A run directory may have the name of an entry.
    source = pathlib.Path(argv[1]) if storage.is_run(argv[1]) else argv[1]
    save = {
        "saved_model": export.save,
        "onnx": export.save_onnx,
        "litert": export.save_litert,
    }[FLAGS.format]
    print(save(storage.open_model(source, encoder=_ENCODER.value).predictor, argv[2]))
