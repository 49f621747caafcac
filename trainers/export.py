"""Exports a trained model for TF Serving, ONNX or LiteRT.

usage: s2d export NAME_OR_RUN DIR|FILE.onnx|FILE.tflite

    s2d export wrn_10_2_s2.s2d.cifar100 models/cifar100          # a pretrained zoo entry
    s2d export their_zoo/ENTRY models/cifar100                   # an entry's folder or URL
    s2d export runs/s2d cifar100.onnx                            # a finished run

DIR gets the next version of a SavedModel for TF Serving and `s2d serve` (models/cifar100/1, 2,
...), which appears only when complete. ONNX files need the extra s2d_tf[onnx]. Prints the path of
what was written. See docs/serving.md.
"""

import pathlib
from collections.abc import Callable

from . import _flags


def main(argv: list[str]) -> None:
    where, target = _flags.arguments(
        argv,
        "NAME_OR_RUN DIR",
        "a name or a run directory, and a folder or file",
        "s2d export NAME_OR_RUN DIR",
        2,
        2,
    )
    from s2d_tf import export, zoo

    # A run directory may have the name of an entry.
    source = pathlib.Path(where) if zoo.is_run(where) else where
    savers: dict[str, Callable[..., pathlib.Path]] = {
        ".onnx": export.save_onnx,
        ".tflite": export.save_litert,
    }
    save = savers.get(pathlib.Path(target).suffix, export.save)
    print(save(zoo.open_model(source).predictor, target))
