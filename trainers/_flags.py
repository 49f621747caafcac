"""What several commands have: flags, the check of their arguments, the log. Needs no TensorFlow."""

import functools
import math
import sys

from absl import flags
from tqdm.auto import tqdm

from s2d_tf.errors import UserError

from . import datasets  # noqa: F401 (registers them, so that every command knows their names)

# absl then counts each flag to the command that asks for it, whose help shows it.
flags.disclaim_key_flags()

WATCH = functools.partial(tqdm, mininterval=0.1 if sys.stderr and sys.stderr.isatty() else 10)
"""Progress of batches as they pass; in a file a line each ten seconds."""


def log(line: str) -> None:
    """Prints a line for a person, apart from the command's output."""
    print(line, file=sys.stderr, flush=True)


def arguments(
    argv: list[str], name: str, expected: str, example: str, least: int, most: float = math.inf
) -> list[str]:
    """The positional arguments of a command, whose number must be from `least` to `most`.

    Raises:
        UserError: it is not; the text says what was `expected` as `name` and shows an `example`.
    """
    _, *given = argv
    UserError.unless(
        least <= len(given) <= most,
        f"{name}: expected {expected}, received {given!r}. Run `{example}`.",
    )
    return given


def data_dir() -> flags.FlagHolder:
    return flags.DEFINE_string(
        "data_dir", None, "Dataset folder (default: TFDS_DATA_DIR or ~/tensorflow_datasets)."
    )


def moved_data() -> flags.FlagHolder:
    return flags.DEFINE_string(
        "data", None, "New location of a run's image folder, if it has moved."
    )


def batch_size() -> flags.FlagHolder:
    return flags.DEFINE_integer("batch_size", 256, "Inputs per forward pass.", lower_bound=1)


def training() -> None:
    """Defines what `train` and `tune` share."""
    data_dir()
    flags.DEFINE_string("data", None, "Folder of JPEG and PNG images, one subfolder per class.")
    flags.DEFINE_integer(
        "image_size",
        None,
        "Image size for --data (default: that of the images if all are equal and <= 64, else 32).",
        lower_bound=1,
    )
    flags.DEFINE_integer("seed", 0, "Seed of initial weights, data order and noise.")
    flags.DEFINE_integer("epochs", None, "Override the recipe's number of epochs.", lower_bound=1)
    flags.DEFINE_string(
        "precision", "float32", "float32, bfloat16, or auto (bfloat16 if supported)."
    )
    flags.DEFINE_string("teachers", None, "Run directory or entry of the ensemble to learn from.")
    flags.DEFINE_string("start", None, "Run directory or entry of the model to start from.")
    flags.DEFINE_multi_string("set", [], "Override a value, e.g. --set model.noise_stddev=0.2")


def table_format() -> flags.FlagHolder:
    return flags.DEFINE_enum("format", "text", ["text", "markdown", "csv"], "Output format.")
