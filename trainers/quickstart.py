"""Trains S2D and a plain twin on embedded images and compares them.

usage: s2d quickstart [--out=DIR] [--seeds=N]

    s2d quickstart --out=s2d_quickstart

Trains both models on scikit-learn's digits, offline. Tests them on known digits, on digits they
have never seen and on photographs. Writes a table and plots.
"""

from absl import flags

from . import _flags

_OUT = flags.DEFINE_string("out", "s2d_quickstart", "Folder for the runs, the table and the plots.")
_SEEDS = flags.DEFINE_integer("seeds", 1, "Number of pairs to train.", lower_bound=1)


def main(argv: list[str]) -> None:
    _flags.arguments(argv, "arguments", "none", "s2d quickstart --help", 0, 0)
    from .studies import quickstart

    print(quickstart.run(_OUT.value, _SEEDS.value))
