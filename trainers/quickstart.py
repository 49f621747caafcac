"""Trains S2D and a plain twin on embedded images, compares them and explains the result.

    s2d quickstart --out=s2d_quickstart

Trains both models on scikit-learn's digits, without a network connection. Tests them on known
digits, on digits they have never seen and on photographs. Writes a table and figures.
"""

from absl import flags

_OUT = flags.DEFINE_string(
    "out", "s2d_quickstart", "Folder for the runs, the table and the figures."
)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Pairs of models to train.", lower_bound=1)


def main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise ValueError(
            f"arguments: expected none, received {argv[1:]!r}. `s2d quickstart --help` lists the "
            "flags."
        )
    from s2d_tf import quickstart

    print(quickstart.run(_OUT.value, _SEEDS.value))
