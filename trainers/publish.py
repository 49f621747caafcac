"""Turns a finished run into a zoo entry: weights, model card, golden predictions.

usage: s2d publish RUN --name=NAME [--zoo=DIR] [--to=ADDRESS] [--data_dir=DIR] [--also=RUN ...]

    s2d evaluate runs/s2d_0 --data_dir=~/tensorflow_datasets
    s2d publish runs/s2d_0 --name=wrn_10_2_s2.s2d.cifar100 --also=runs/s2d_1 --also=runs/s2d_2

RUN must be finished and evaluated, with seed 0 (an ensemble: seeds 0, 1, ...); the card states its
split. Weights are stored in float16 if no metric moves by more than 0.0005. Weights of another
entry are not stored again, so publish single models before their ensembles. For a Monte Carlo
entry, publish the run of its network: --name=wrn_10_2_s2.s2d_mc.cifar100. Post-hoc steps of the run
(`s2d fit-step`) are published with it, in float32. --to=hf://user/repository uploads the entry to
the Hugging Face Hub. See docs/zoo.md.
"""

import functools

from absl import flags

from . import _flags

_NAME = flags.DEFINE_string(
    "name", None, "Name of the entry, architecture.method.dataset.", required=True
)
_ZOO = flags.DEFINE_string("zoo", None, "Folder of entries (default: this library's).")
_TO = flags.DEFINE_string(
    "to",
    None,
    "Upload to the Hugging Face Hub, hf://user/repository; --zoo also keeps a local copy. Needs "
    "s2d_tf[hf].",
)
_DATA_DIR = _flags.data_dir()
_ALSO = flags.DEFINE_multi_string("also", [], "Run of the same recipe with another seed")
_PRECISION = flags.DEFINE_enum(
    "precision",
    "auto",
    ["auto", "float32"],
    "auto is float16 if no metric moves by more than 0.0005.",
)
_OTHER_NUMBERS = flags.DEFINE_boolean(
    "other_numbers", False, "Allow values that differ from the recipe's."
)


def main(argv: list[str]) -> None:
    (run,) = _flags.arguments(
        argv, "RUN", "one run directory", "s2d publish runs/s2d_0 --name=NAME", 1, 1
    )
    from . import publishing

    send = functools.partial(publishing.publish_to, _TO.value) if _TO.value else publishing.publish
    send(
        run,
        _NAME.value,
        zoo_dir=_ZOO.value,
        data_dir=_DATA_DIR.value,
        also=_ALSO.value,
        precision=_PRECISION.value,
        other_numbers=_OTHER_NUMBERS.value,
    )
