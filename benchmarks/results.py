"""Results on disk: one JSON file, suite by suite."""

import json
import os
import pathlib

from benchmarks.records import FORMAT


def read(path):
    """What `write` wrote."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected results of `python -m benchmarks --out={path}`, but there is no file."
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: expected JSON of `python -m benchmarks`; {error}.") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT or "suites" not in found:
        raise ValueError(f"{path}: expected results of `python -m benchmarks` in format {FORMAT}.")
    return found


def write(path, found):
    """Writes results; suites that the file holds and `found` does not stay as they are."""
    path = pathlib.Path(path)
    suites = read(path)["suites"] if path.is_file() else {}
    merged = {**found, "suites": suites | found["suites"]}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}")
    try:
        beside.write_text(json.dumps(_rounded(merged), indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _rounded(value):
    """Six digits are more than any time deserves."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
