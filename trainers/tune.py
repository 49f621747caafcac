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
_flags.training()


def main(argv: list[str]) -> None:
    name, key, *values = _flags.arguments(
        argv, "NAME KEY VALUE...", "at least three arguments", "s2d tune --help", 3
    )
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
