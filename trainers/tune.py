"""Chooses a recipe's value on the validation split.

usage: s2d tune NAME KEY VALUE... --workdir=DIR [--data_dir=DIR] [--epochs=N] [--set KEY=VALUE ...]

    s2d tune wrn_10_2_s2.end.digits model.temperature 1 2 3 4 5 --workdir=runs/end_temperature
    s2d tune wrn_10_2_s2.s2d model.student_weight 1e-4 1e-3 --data=flowers --workdir=runs/weight

Trains once per value, without the validation images. Prints a table with 95% intervals and writes
it to tuning.json. Then train with `s2d train NAME --set KEY=VALUE`. Teachers must not have seen the
validation images either: train them with --split=train_without_validation.

Exit codes are those of `s2d train`.
"""

from absl import flags

from . import _flags, training

FLAGS = flags.FLAGS
flags.DEFINE_string("workdir", None, "Folder for the runs and tuning.json.", required=True)
_flags.data_dir()
flags.DEFINE_string("data", None, "Folder of JPEG and PNG images, one subfolder per class.")
flags.DEFINE_integer("image_size", None, "As in `s2d train`.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of every run.")
flags.DEFINE_integer("epochs", None, "Override the recipe's number of epochs.", lower_bound=1)
flags.DEFINE_multi_string("set", [], "Override a value in all runs, e.g. --set model.dropout=0.2")
flags.DEFINE_string("precision", "float32", "As in `s2d train`.")
flags.DEFINE_string("teachers", None, "Run directory or entry of the ensemble to learn from.")
flags.DEFINE_string("start", None, "Run directory or entry of the model to start from.")


def main(argv: list[str]) -> None:
    if len(argv) < 4:
        raise ValueError(
            f"NAME KEY VALUE...: expected at least three arguments, received {argv[1:]!r}. Run "
            "`s2d tune --help`."
        )
    _, name, key, *values = argv
    named = training.resolve(name, FLAGS.data, FLAGS.image_size)
    recipe = training.override(named, FLAGS.set, FLAGS.epochs)
    settings = training.Settings(
        data_dir=FLAGS.data_dir,
        data=FLAGS.data,
        precision=FLAGS.precision,
        teachers=FLAGS.teachers,
        start=FLAGS.start,
    )
    rows = training.tuning.tune(recipe, FLAGS.workdir, key, values, FLAGS.seed, settings)
    print(training.tuning.table(key, rows))
