"""Exports a trained model for TF Serving, ONNX or LiteRT.

    s2d export wrn_10_2_s2.s2d.cifar100 models/cifar100          a pretrained entry of the zoo
    s2d export zoo_of_others/ENTRY models/cifar100               the folder or address of one
    s2d export runs/s2d models/cifar100 --format=onnx            a finished run

Writes the next version, models/cifar100/1 and so on, and prints its path. A server that watches the
folder sees a version only when all of it is there.
"""

import pathlib

from absl import flags

from s2d_tf import storage, zoo

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "format",
    "saved_model",
    ["saved_model", "onnx", "litert"],
    "saved_model: for TF Serving and `s2d serve`; onnx needs the extra s2d_tf[onnx].",
)


def main(argv):
    if len(argv) != 3:
        raise ValueError(
            "Expected a name or a run directory, and a folder: `s2d export NAME_OR_RUN DIR`."
        )
    source, directory = argv[1:]
    from s2d_tf import export

    is_run = (pathlib.Path(source) / "recipe.json").is_file()
    predictor, class_names, facts = _open_run(source) if is_run else _open_entry(source)
    save = {
        "saved_model": export.save,
        "onnx": export.save_onnx,
        "litert": export.save_litert,
    }[FLAGS.format]
    print(save(predictor, directory, class_names, facts))


def _open_run(directory):
    from s2d_tf import data

    run = storage.Run.open(directory)
    facts = {
        "name": run.recipe.name,
        "recipe": run.recipe.to_dict(),
        "seed": run.seed,
        "split": run.split,
    }
    return run.predictor(), data.info(run.recipe.source_dataset).class_names, facts


def _open_entry(source):
    folder = pathlib.Path(source)
    if folder.is_dir() and not (folder / "entry.json").is_file():
        raise ValueError(
            f"Expected a run directory with a recipe.json, or an entry's with an entry.json, "
            f"received {source}."
        )
    predictor = zoo.load(source)
    return predictor, predictor.class_names, predictor.metadata
