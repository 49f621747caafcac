"""A run that was stopped continues within its epoch and ends in the same bits."""

import dataclasses
import functools
import os
import shutil
import signal

import pytest

from s2d_tf import data, files, zoo
from s2d_tf.trainers import training
from s2d_tf.trainers.training import callbacks, checkpoints
from s2d_tf.zoo import recipes
from tests.trainers.training import small_runs
from tests.trainers.training.small_runs import Killed, assert_same_run, flip, newest_step, settings

STEPS = 10
pytestmark = pytest.mark.usefixtures("small_world")
tiny_recipe = functools.partial(small_runs.recipe, epochs=3)


def fast_recipe():
    """Muon, a stem that is fitted to images, and images that grow after step 6 of 20."""
    recipe = recipes.resolve("fast_resnet.individual.digits")
    changes = {
        "augmentation": "alternating_mirror_shift",
        "resolutions": (0.6,),
        "resolution_milestones": (0.3,),
    }
    return recipe.replace(arguments={"width": 0.0625}, training={"epochs": 2}, data=changes)


def enlarge(monkeypatch):
    """Digits of 24x24 pixels: the fast network needs 14 of them where sizes change."""
    load = data.load_arrays

    def large(*args):
        images, labels = load(*args)
        return images.repeat(3, axis=1).repeat(3, axis=2), labels

    monkeypatch.setattr(data, "load_arrays", large)
    info = dataclasses.replace(data.info("digits"), image_shape=(24, 24, 1))
    monkeypatch.setattr(data, "info", lambda name: info)


@pytest.fixture(scope="module")
def recipe():
    """Dropout, batch norm and momentum are part of its state."""
    return tiny_recipe("individual")


def test_stages_that_are_too_small_for_the_network_are_rejected(tmp_path):
    message = "data.resolutions: expected stages of at least 14 pixels, received one of 5"
    with pytest.raises(ValueError, match=message):
        training.train(fast_recipe(), tmp_path / "run", 3, settings())


@pytest.fixture(scope="module")
def undisturbed(recipe, small_world, tmp_path_factory):
    return training.train(recipe, tmp_path_factory.mktemp("whole") / "run", 3, settings())


def interrupt_at(monkeypatch, steps, action):
    """Calls `action` after the given numbers of training steps, counted over all attempts."""
    original, count = callbacks.Checkpoint.on_train_batch_end, [0]

    def on_train_batch_end(self, batch, logs=None):
        count[0] += 1
        if count[0] in steps:
            action()
        original(self, batch, logs)

    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", on_train_batch_end)


def kill():
    raise Killed


@pytest.mark.parametrize(
    "method", ["s2d", *(pytest.param(m, marks=pytest.mark.slow) for m in ("s2d_mimo", "s2d_swag"))]
)
def test_killed_runs_end_in_the_same_bits(method, tmp_path, monkeypatch):
    recipe = tiny_recipe(method)
    if recipe.start is not None:
        source = tiny_recipe(recipe.start.method)
        training.train(source, tmp_path / source.name, 3, settings())
    whole = training.train(recipe, tmp_path / "whole", 3, settings())
    interrupt_at(monkeypatch, {6, 18}, kill)  # both between two checkpoints
    directory = tmp_path / "run"
    for step in (3, 13):
        with pytest.raises(Killed):
            training.train(recipe, directory, 3, settings(checkpoint_steps=3))
        assert newest_step(directory) == step
    assert_same_run(training.train(recipe, directory, 3, settings(checkpoint_steps=3)), whole)


@pytest.mark.parametrize(
    ("backbone", "stop"),
    [
        ("tiny", 4),
        *(pytest.param("fast_resnet", step, marks=pytest.mark.slow) for step in (4, 8, 10, 13)),
    ],
)
def test_a_fast_network_continues_within_an_epoch_and_a_resolution(
    backbone, stop, tmp_path, monkeypatch
):
    enlarge(monkeypatch)
    recipe = fast_recipe()
    if backbone == "tiny":
        recipe = recipe.replace(backbone="tiny", arguments={})
    whole = training.train(recipe, tmp_path / "whole", 3, settings())
    interrupt_at(monkeypatch, {stop}, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(training.Preempted):
        training.train(recipe, tmp_path / "run", 3, settings())
    assert newest_step(tmp_path / "run") == stop
    assert_same_run(training.train(recipe, tmp_path / "run", 3, settings()), whole)


def test_sigterm_saves_at_that_step(recipe, undisturbed, tmp_path, monkeypatch, capsys):
    interrupt_at(monkeypatch, {14}, lambda: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(training.Preempted, match="SIGTERM at epoch 2, step 4") as stopped:
        training.train(recipe, tmp_path / "run", 3, settings())
    assert "same command continues" in str(stopped.value)
    assert signal.getsignal(signal.SIGTERM) is before
    assert newest_step(tmp_path / "run") == 14
    run = training.train(recipe, tmp_path / "run", 3, settings(verbose=2))
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Epoch")]
    assert [line.partition(":")[0] for line in shown] == ["Epoch 2/3", "Epoch 3/3"]
    assert "about" in shown[0]
    assert "left" not in shown[1]
    assert_same_run(run, undisturbed)


@pytest.mark.slow
def test_ctrl_c_saves_and_is_still_an_interrupt(recipe, tmp_path, monkeypatch):
    interrupt_at(monkeypatch, {10}, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="at epoch 1, step 10, where it is saved; the same"):
        training.train(recipe, tmp_path / "run", 3, settings())
    # The last step of an epoch: saved with the epoch's end, not within it.
    held = files.read_json(tmp_path / "run" / "checkpoints" / "step_000000010" / "manifest.json")
    assert (held["facts"]["epoch"], held["facts"]["step_in_epoch"]) == (1, 0)
    assert len(held["facts"]["history"]) == 1


@pytest.mark.parametrize(("rate", "received"), [(1e30, "'loss': (nan|inf)"), (1e4, r"'loss': \d")])
def test_a_run_that_diverges_is_stopped_and_its_checkpoints_stay(recipe, tmp_path, rate, received):
    wild = recipe.replace(training={"learning_rate": rate, "schedule": "constant"})
    message = rf"epoch 1, step \d+: expected finite .*{received}.*\(training diverged\)"
    with pytest.raises(callbacks.DivergedError, match=message):
        training.train(wild, tmp_path / "run", 3, settings(checkpoint_steps=1))
    assert newest_step(tmp_path / "run") == 1


def test_checkpoints_of_other_runs_are_refused(recipe, undisturbed, tmp_path):
    other = zoo.Run(tmp_path / "other", recipe, seed=4).write()
    shutil.copytree(undisturbed.directory / "checkpoints", other.directory / "checkpoints")
    with pytest.raises(checkpoints.CheckpointError, match="another run"):
        training.train(recipe, other.directory, 4, settings())


def test_damaged_final_weights_are_reported_and_made_again(recipe, undisturbed, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(undisturbed.directory, directory)
    path = directory / "final.safetensors"
    flip(path, -5)
    message = r"final\.safetensors: expected the weights that training wrote.* Remove the file"
    with pytest.raises(zoo.RunError, match=message) as error:
        training.train(recipe, directory, 3, settings())
    assert "\n" not in str(error.value)
    path.unlink()
    run = training.train(recipe, directory, 3, settings())
    assert run.weights().read_bytes() == undisturbed.weights().read_bytes()


def test_a_workdir_that_cannot_be_written_to_is_one_line(recipe, tmp_path):
    (tmp_path / "file").write_text("")
    message = "--workdir: expected a folder that can be written to, received .*file"
    with pytest.raises(zoo.RunError, match=message) as error:
        training.train(recipe, tmp_path / "file" / "run", 3, settings())
    assert "\n" not in str(error.value)
