"""Compares two models example by example: is the difference more than chance?

usage: s2d compare RUN_OR_NAME RUN_OR_NAME [--data_dir=DIR] [--data=FOLDER] [--bootstrap=N]
                                           [--format=text]

    s2d compare runs/s2d_0 runs/individual_0
    s2d compare wrn_10_2_s2.s2d.cifar100 wrn_10_2_s2.individual.cifar100    # or entries' folders

For each metric, prints the first model's value minus the second's, with a 95% interval from
resampling the test examples in pairs. The interval is for these two models; other seeds may differ
more.
"""

from absl import flags

from . import _flags

_DATA_DIR = _flags.data_dir()
_DATA = _flags.moved_data()
_BOOTSTRAP = flags.DEFINE_integer("bootstrap", 10_000, "Number of resamples.", lower_bound=1)
_FORMAT = _flags.table_format()


def main(argv: list[str]) -> None:
    from s2d_tf import evaluation

    first, second = _flags.arguments(
        argv,
        "RUN_OR_NAME",
        "two run directories or names",
        "s2d compare runs/s2d_0 runs/plain",
        2,
        2,
    )
    table = evaluation.compare_runs(
        first, second, _DATA_DIR.value, _BOOTSTRAP.value, _DATA.value, watch=_flags.WATCH
    )
    print(evaluation.tables.render(table, _FORMAT.value), end="")
