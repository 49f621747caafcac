"""The command `s2d data`."""

import re

import pytest
import tensorflow as tf

from s2d_tf import cli, data

pytestmark = pytest.mark.usefixtures("leave_no_flags")


def test_lists_all_names(capsys):
    assert cli.main(["data"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert listed == list(data.names())


def test_shows_sizes_and_fingerprints(capsys):
    assert cli.main(["data", "digits"]) == 0
    rows = re.findall(r"^(\w+) +([\d,]+)   ([0-9a-f]{64})$", capsys.readouterr().out, re.M)
    expected = {}
    for split in ("train", "test", "validation", "train_without_validation"):
        images, labels = data.load_arrays("digits", split)
        expected[split] = (f"{len(images):,}", data.fingerprint(images, labels))
    assert {split: (size, mark) for split, size, mark in rows} == expected


def test_one_split_with_a_preview(capsys, tmp_path):
    path = tmp_path / "sheet.png"
    assert cli.main(["data", "digits_heldout", "--split=test", f"--preview={path}"]) == 0
    assert f"Wrote {path}" in capsys.readouterr().out
    assert tf.io.decode_png(path.read_bytes()).shape[0] > 1_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digit"], "received 'digit'. Did you mean digits"),
        (["digits", "--split=valid"], "received 'valid'"),
        (["digits", "digits_photos"], "expected one dataset"),
        (["cifar100", "--data_dir=DIR"], "DIR: expected the dataset 'cifar100'"),
        (["odin_lsun_crop", "--data_dir=DIR"], "DIR/downloads/manual: expected LSUN.tar.gz"),
        (["digits", "--preview=DIR/sheet.gif"], "ends in .png"),
        (
            ["clinc150", "--data_dir=DIR"],
            "DIR/clinc150: expected data_full.json (2.5 MB)",
        ),
        (["clinc150", "--preview=DIR/sheet.png"], "expected a dataset of images, received"),
    ],
)
def test_errors_are_one_line(capsys, tmp_path, arguments, message):
    arguments = [argument.replace("DIR", str(tmp_path)) for argument in arguments]
    assert cli.main(["data", *arguments]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("s2d data: error: ")
    assert message.replace("DIR", str(tmp_path)) in error
    assert not list(tmp_path.iterdir())
