"""Files that are written whole or not at all. No TensorFlow."""

from s2d_tf.files.atomic import (
    PARTIAL,
    flush,
    is_disk_full,
    read_json,
    sha256,
    sweep,
    write_json,
    write_text,
    written_beside,
)

__all__ = [
    "PARTIAL",
    "flush",
    "is_disk_full",
    "read_json",
    "sha256",
    "sweep",
    "write_json",
    "write_text",
    "written_beside",
]
