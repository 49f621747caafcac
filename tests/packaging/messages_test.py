"""What a person reads when something went wrong: where, why, and what to do."""

import pytest

from s2d_tf import cli, files
from s2d_tf.export.saved_model import write_version

NAME = "wrn_10_2_s2.s2d.digits"


@pytest.mark.parametrize(
    ("command", "flag", "purpose"),
    [
        ("train", "workdir", "Run directory; created if it does not exist"),
        ("tune", "workdir", "Folder for the runs and tuning.json"),
        ("predict", "out", "Output file, .parquet or .csv"),
        ("publish", "name", "Name of the entry, architecture.method.dataset"),
    ],
)
def test_a_missing_flag_says_what_it_is_for(command, flag, purpose, capsys):
    assert cli.main([command, NAME]) == 2
    assert capsys.readouterr().err == (
        f"s2d {command}: error: --{flag}: expected a value, received none. Add --{flag}=... "
        f"({purpose}); `s2d {command} --help` lists the flags\n"
    )


def test_a_full_disk_is_explained_where_a_writer_has_errors_of_its_own(tmp_path):
    def write(folder):
        (folder / "half").write_text("x")
        raise RuntimeError("{{node Save}} half; No space left on device")

    with pytest.raises(files.DiskFullError, match=r"models: expected room .* Free some space"):
        write_version(tmp_path / "models", write)
    assert list((tmp_path / "models").iterdir()) == []
