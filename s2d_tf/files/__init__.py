"""Files that are written whole or not at all, locks, and data that is checked. No TensorFlow."""

from s2d_tf.files.reading import (
    parse_json,
    read_bytes,
    read_json,
    read_record,
    sha256,
    within,
)
from s2d_tf.files.writing import (
    PARTIAL,
    DiskFullError,
    flush,
    flush_folder,
    folder_written_beside,
    locked,
    room_for,
    sweep,
    write_array,
    write_bytes,
    write_json,
    write_text,
    written_beside,
)

__all__ = [
    "PARTIAL",
    "DiskFullError",
    "flush",
    "flush_folder",
    "folder_written_beside",
    "locked",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_record",
    "room_for",
    "sha256",
    "sweep",
    "within",
    "write_array",
    "write_bytes",
    "write_json",
    "write_text",
    "written_beside",
]
