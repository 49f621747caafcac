"""Flags that several commands have, defined once. Needs no TensorFlow."""

from absl import flags

from . import datasets  # noqa: F401 (registers them, so that every command knows their names)

# absl then counts each flag to the command that asks for it, whose help shows it.
flags.disclaim_key_flags()


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


def table_format() -> flags.FlagHolder:
    return flags.DEFINE_enum("format", "text", ["text", "markdown", "csv"], "Output format.")
