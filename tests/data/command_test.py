"""The command `s2d data`."""

import re

import pytest

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digit"], "'digits', received 'digit'"),
        (["digits", "--split=valid"], "received 'valid'"),
        (["digits", "digits_photos"], "expected one dataset"),
        (["cifar100", "--data_dir=DIR"], "DIR: expected the dataset 'cifar100'"),
        (["odin_lsun_crop", "--data_dir=DIR"], "DIR/downloads/manual: expected LSUN.tar.gz"),
        (
            ["clinc150", "--data_dir=DIR"],
            "DIR/clinc150: expected data_full.json (2.5 MB)",
        ),
    ],
)
def test_errors_are_one_line(capsys, tmp_path, arguments, message):
    arguments = [argument.replace("DIR", str(tmp_path)) for argument in arguments]
    assert cli.main(["data", *arguments]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("s2d data: error: ")
    assert message.replace("DIR", str(tmp_path)) in error
    assert not list(tmp_path.iterdir())
