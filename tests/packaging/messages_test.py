"""What a person reads when something went wrong: where, why, and what to do."""

import errno
import itertools
import os
import pathlib
import shlex
import signal

import numpy as np
import pytest

from s2d_tf import cli, files, zoo
from s2d_tf.export.version_folders import write_version
from s2d_tf.zoo import recipes

NAME = "wrn_10_2_s2.s2d.digits"


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_the_hint_of_an_unfinished_run_is_the_command_that_continues_it(tmp_path, capsys):
    changes = ["model.noise_stddev=[0.1, 0.2]", "training.learning_rate=0.5"]
    recipe = recipes.override(recipes.resolve(NAME), changes, epochs=3)
    zoo.Run.create(tmp_path / "my run", recipe, 7, "train_without_validation")
    assert cli.main(["evaluate", str(tmp_path / "my run")]) == 1
    message = capsys.readouterr().err
    command = message.split("`")[1]
    assert command.startswith(f"s2d train {NAME} --workdir='{tmp_path / 'my run'}' --seed=7 ")
    for flag in (
        "--split=train_without_validation",
        "--epochs=3",
        "--set training.learning_rate=0.5",
        "--set 'model.noise_stddev=[0.1, 0.2]'",
    ):
        assert flag in command
    assert "--data_dir" in message
    # As a shell takes it apart, it makes the same recipe in the same place.
    name, *rest = shlex.split(command)[2:]
    values = dict(each[2:].split("=", 1) for each in rest if each.startswith("--workdir="))
    assert values == {"workdir": str(tmp_path / "my run")}
    again = [value for flag, value in itertools.pairwise(rest) if flag == "--set"]
    (epochs,) = (int(each.split("=")[1]) for each in rest if each.startswith("--epochs="))
    assert recipes.override(recipes.resolve(name), again, epochs) == recipe


def test_overrides_make_the_recipe_again():
    ensemble = recipes.resolve("wrn_10_2_s2.s2d_ensemble.digits")
    assert recipes.overrides(ensemble) == []
    assert recipes.overrides(recipes.override(ensemble, members=3)) == ["--members=3"]


@pytest.mark.parametrize(
    ("assignment", "near"),
    [
        ("model.noise_stdev=0.2", "a key such as model.noise_stddev"),
        ("temperature=2", "a key such as model.temperature,"),
        ("training.learning-rate=1", "a key such as training.learning_rate"),
        ("xyz=1", "one of data.mean, "),
    ],
)
def test_a_typo_in_set_gets_the_nearest_key(assignment, near):
    with pytest.raises(recipes.RecipeError, match=f"--set: expected {near}") as caught:
        recipes.override(recipes.resolve(NAME), [assignment])
    assert f"received {assignment!r}. Correct the key." in str(caught.value)


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


def test_a_full_disk_names_the_path_and_what_to_do(tmp_path, monkeypatch):
    path = tmp_path / "metrics.json"
    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "write_bytes", full_disk)
        with pytest.raises(files.DiskFullError) as caught:  # as `s2d evaluate` and `report` write
            files.write_json(path, {})
    assert str(caught.value) == (
        f"{path}: expected room to write, received 'No space left on device'. Free some space, "
        "then run the same command again."
    )
    assert cli.is_for_the_user(caught.value)
    assert files.is_disk_full(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_so_does_an_export_whose_writer_has_errors_of_its_own(tmp_path):
    def write(folder):
        (folder / "half").write_text("x")
        raise RuntimeError("{{node Save}} half; No space left on device")

    with pytest.raises(files.DiskFullError, match=r"models: expected room .* Free some space"):
        write_version(tmp_path / "models", write)
    assert list((tmp_path / "models").iterdir()) == []


def test_so_does_a_figure(tmp_path, monkeypatch):
    from s2d_tf.evaluation import drawing

    monkeypatch.setattr(drawing.Figure, "savefig", full_disk)
    with (
        pytest.raises(files.DiskFullError, match=r"x\.png: expected room"),
        drawing.frame(tmp_path / "x.png", (1, 1), (1, 1)),
    ):
        pass


def test_a_preview_makes_no_folders(tmp_path):
    from s2d_tf import data

    path = tmp_path / "away" / "x.png"
    with pytest.raises(ValueError, match="preview: expected a file in a folder that exists"):
        data.write_preview(path, np.zeros([1, 2, 2, 1], np.uint8), np.zeros(1, int), title="")
    assert not path.parent.exists()


def test_ctrl_c_says_where_the_run_is_saved(monkeypatch, capsys):
    from s2d_tf.trainers.training import preemption

    stop = preemption.StopRequest()
    stop.signal = signal.SIGINT

    def interrupted(*_):
        raise stop.error("at epoch 3, step 7, where it is saved")

    monkeypatch.setattr(cli, "_run", interrupted)
    assert cli.main(["train"]) == 130
    assert capsys.readouterr().err == (
        "\ninterrupted at epoch 3, step 7, where it is saved; the same command continues.\n"
    )


def test_a_continued_epoch_counts_those_of_the_whole_run(capsys):
    from s2d_tf.trainers.training import callbacks

    bar = callbacks.Progress(epochs=200)
    bar.set_params({"verbose": 2, "epochs": 84, "steps": 5})
    bar.on_epoch_begin(83)
    assert capsys.readouterr().out == "Epoch 84/200\n"
