"""Shows S2D at work: trains it and a plain twin, compares them, explains; offline.

    s2d quickstart --out=s2d_quickstart

Trains both models on embedded images (scikit-learn's digits), tests them on known digits, on digits
they were never shown and on photographs, and writes a table and figures.
"""

from absl import flags

_OUT = flags.DEFINE_string(
    "out", "s2d_quickstart", "Folder for the runs, the table and the figures."
)
_SEEDS = flags.DEFINE_integer("seeds", 1, "Pairs of models to train.", lower_bound=1)


def main(argv):
    if len(argv) > 1:
        raise ValueError(f"Expected no arguments, received {argv[1:]}.")
    from s2d_tf import quickstart

    print(quickstart.run(_OUT.value, _SEEDS.value))
