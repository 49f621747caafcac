"""Commands on a disk that is really full: the path, what to do, and all is well when it is done."""

import re
import shutil

import numpy as np
import pytest
from PIL import Image

from s2d_tf import cli, files
from s2d_tf.export.saved_model import write_version

SPARE = 8192
"""So many bytes are left, enough for a small file."""


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    random = np.random.default_rng(0)
    for i in range(300):
        pixels = random.integers(0, 256, [8, 8], dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "report", "export", "predict"])
def test_a_full_disk_is_named_with_what_to_do(
    command, small_disk, pictures, evaluated, untrained, no_times, capsys
):
    run = untrained(small_disk / "run", "s2d")
    arguments = {
        "evaluate": [run],
        "report": [*evaluated[0], f"--out={small_disk / 'report'}"],
        "export": [run, small_disk / "models"],
        "predict": [run, pictures, f"--out={small_disk / 'answers.parquet'}"],
    }[command]
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - SPARE))
    assert cli.main([command, *map(str, arguments)]) == 1
    assert re.match(
        rf"s2d {command}: error: {re.escape(str(small_disk))}/\S+: expected room to write, "
        r"received 'No space left on device'\. Free some space, then run the same command again\.$",
        capsys.readouterr().err.splitlines()[-1],
    )
    ballast.unlink()
    assert cli.main([command, *map(str, arguments)]) == 0


def test_a_full_disk_is_explained_where_a_writer_has_errors_of_its_own(tmp_path):
    def write(folder):
        (folder / "half").write_text("x")
        raise RuntimeError("{{node Save}} half; No space left on device")

    with pytest.raises(files.DiskFullError, match=r"models: expected room .* Free some space"):
        write_version(tmp_path / "models", write)
    assert list((tmp_path / "models").iterdir()) == []
