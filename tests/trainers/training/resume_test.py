"""A run that was stopped continues within its epoch and ends in the same bits."""

import dataclasses
import os
import shutil
import signal

import keras
import numpy as np
import pytest

from s2d_tf import backbones, files, layers, zoo
from s2d_tf.backbones import batch_norm
from s2d_tf.trainers import training
from s2d_tf.trainers.training import callbacks, checkpoints, loop
from s2d_tf.zoo import recipes
from tests.trainers.training.small_runs import Killed, final_state, newest_step

STEPS = 10


def tiny(input_shape, dropout, seed, synchronized_batch_norm):
    """A backbone that is traced in a moment, with everything that has state."""
    images = keras.Input(input_shape)
    start = keras.initializers.HeNormal(seed)
    x = keras.layers.Conv2D(4, 3, 2, kernel_initializer=start, name="conv")(images)
    x = batch_norm.BatchNormalization(synchronized=synchronized_batch_norm, name="norm")(x)
    x = layers.Dropout(dropout, seed=seed, name="dropout")(keras.layers.ReLU()(x))
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x), name="tiny")


@pytest.fixture(scope="module", autouse=True)
def small_world():
    """The small backbone, and 320 of the digits: 10 steps an epoch."""
    load = loop.data.load_arrays

    def few(*args):
        return tuple(np.concatenate([part, part])[: 32 * STEPS] for part in load(*args))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, "tiny", tiny, raising=False)
        patch.setattr(loop.data, "load_arrays", few)
        yield


def tiny_recipe(method):
    recipe = recipes.resolve(f"wrn_10_2_s2.{method}.digits")
    return recipe.replace(backbone="tiny", arguments={}, training={"epochs": 3})


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
    load = loop.data.load_arrays

    def large(*args):
        images, labels = load(*args)
        return images.repeat(3, axis=1).repeat(3, axis=2), labels

    monkeypatch.setattr(loop.data, "load_arrays", large)
    info = dataclasses.replace(loop.data.info("digits"), image_shape=(24, 24, 1))
    monkeypatch.setattr(loop.data, "info", lambda name: info)


@pytest.fixture(scope="module")
def recipe():
    """Dropout, batch norm and momentum are part of its state."""
    return tiny_recipe("individual")


def test_stages_that_are_too_small_for_the_network_are_rejected(tmp_path):
    message = "data.resolutions: expected stages of at least 14 pixels, received one of 5"
    with pytest.raises(ValueError, match=message):
        training.train(fast_recipe(), tmp_path / "run", 3, settings())


@pytest.mark.slow
@pytest.mark.parametrize("network", ["wrn_10_2_s2", "densenet_bc_22_12_s2"])
def test_images_grow_for_other_networks_too(network, tmp_path):
    recipe = recipes.resolve(f"{network}.individual.digits")
    changes = {"resolutions": (0.5,), "resolution_milestones": (0.3,)}
    recipe = recipe.replace(training={"epochs": 1}, data=changes)
    run = training.train(recipe, tmp_path / "run", 3, settings())
    assert run.predictor().predict_uncertainty(np.zeros([1, 8, 8, 1], np.uint8))["probs"].shape


def settings(**kwargs):
    return training.Settings(**{"strategy": "one_device", "verbose": 0} | kwargs)


@pytest.fixture(scope="module")
def undisturbed(recipe, tmp_path_factory):
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
    directory, starts = tmp_path / "run", []
    restore = checkpoints.restore
    monkeypatch.setattr(
        checkpoints, "restore", lambda *args: starts.append(restore(*args)) or starts[-1]
    )
    for _ in range(2):
        with pytest.raises(Killed):
            training.train(recipe, directory, 3, settings(checkpoint_steps=3))
    run = training.train(recipe, directory, 3, settings(checkpoint_steps=3))
    places = [(held["epoch"], held["step_in_epoch"]) for held in starts if held]
    assert places == [(0, 3), (1, 3)]
    assert final_state(directory) == final_state(whole.directory)
    assert (directory / "log.csv").read_text() == (whole.directory / "log.csv").read_text()
    assert run.weights().read_bytes() == whole.weights().read_bytes()


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
    assert newest_step(tmp_path / "run" / "checkpoints") == stop
    run = training.train(recipe, tmp_path / "run", 3, settings())
    assert final_state(run.directory) == final_state(whole.directory)
    assert run.weights().read_bytes() == whole.weights().read_bytes()


def test_sigterm_saves_at_that_step(recipe, undisturbed, tmp_path, monkeypatch, capsys):
    interrupt_at(monkeypatch, {14}, lambda: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(training.Preempted, match="SIGTERM at epoch 2, step 4") as stopped:
        training.train(recipe, tmp_path / "run", 3, settings())
    assert "same command continues" in str(stopped.value)
    assert signal.getsignal(signal.SIGTERM) is before
    assert newest_step(tmp_path / "run" / "checkpoints") == 14
    run = training.train(recipe, tmp_path / "run", 3, settings(verbose=2))
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Epoch")]
    assert shown == ["Epoch 2/3", "Epoch 3/3"]
    assert final_state(run.directory) == final_state(undisturbed.directory)


@pytest.mark.slow
def test_ctrl_c_saves_and_is_still_an_interrupt(recipe, tmp_path, monkeypatch):
    interrupt_at(monkeypatch, {10}, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt, match="at epoch 1, step 10, where it is saved; the same"):
        training.train(recipe, tmp_path / "run", 3, settings())
    # The last step of an epoch: saved with the epoch's end, not within it.
    held = files.read_json(tmp_path / "run" / "checkpoints" / "step_000000010" / "manifest.json")
    assert (held["facts"]["epoch"], held["facts"]["step_in_epoch"]) == (1, 0)
    assert len(held["facts"]["history"]) == 1


def test_a_nan_stops_the_run_and_names_step_and_part(recipe, tmp_path, monkeypatch):
    original = callbacks.Checkpoint.on_train_batch_end

    def broken(self, batch, logs=None):
        bad = {"student_loss": float("nan"), "loss": float("nan")} if batch == 7 else {}
        original(self, batch, {**logs, **bad})

    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", broken)
    with pytest.raises(callbacks.DivergedError) as stopped:
        training.train(recipe, tmp_path / "run", 3, settings(checkpoint_steps=4))
    assert "epoch 1, step 8: expected finite weights and losses" in str(stopped.value)
    assert "'student_loss': nan" in str(stopped.value)
    assert newest_step(tmp_path / "run" / "checkpoints") == 4


def test_a_learning_rate_that_explodes_is_reported(recipe, tmp_path):
    wild = recipe.replace(training={"learning_rate": 1e30, "schedule": "constant"})
    with pytest.raises(callbacks.DivergedError, match=r"epoch 1, step \d: .*loss"):
        training.train(wild, tmp_path / "run", 3, settings())
    assert not checkpoints.found(tmp_path / "run" / "checkpoints")


def test_a_run_that_diverges_without_nan_is_stopped(recipe, tmp_path, monkeypatch):
    original = callbacks.Checkpoint.on_train_batch_end

    def broken(self, batch, logs=None):
        original(self, batch, {**logs, **({"teacher_loss": 1e9} if batch == 5 else {})})

    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", broken)
    with pytest.raises(callbacks.DivergedError) as stopped:
        training.train(recipe, tmp_path / "run", 3, settings(checkpoint_steps=4))
    assert "guessing or below, received" in str(stopped.value)
    assert "'teacher_loss': 1000000000.0} (training diverged)" in str(stopped.value)
    assert newest_step(tmp_path / "run" / "checkpoints") == 4


def test_checkpoints_of_other_runs_are_refused(recipe, undisturbed, tmp_path):
    other = zoo.Run(tmp_path / "other", recipe, seed=4).write()
    shutil.copytree(undisturbed.directory / "checkpoints", other.directory / "checkpoints")
    with pytest.raises(checkpoints.CheckpointError, match="another run"):
        training.train(recipe, other.directory, 4, settings())


def test_damaged_final_weights_are_reported_and_made_again(recipe, undisturbed, tmp_path):
    directory = tmp_path / "run"
    shutil.copytree(undisturbed.directory, directory)
    path = directory / "final.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    message = r"final\.safetensors: expected the weights that training wrote.* Remove the file"
    with pytest.raises(zoo.RunError, match=message) as error:
        training.train(recipe, directory, 3, settings())
    assert "\n" not in str(error.value)
    path.unlink()
    run = training.train(recipe, directory, 3, settings())
    assert run.weights().read_bytes() == undisturbed.weights().read_bytes()


@pytest.mark.parametrize("inside", [False, True])
def test_a_workdir_that_cannot_be_written_to_is_one_line(recipe, tmp_path, inside):
    taken = tmp_path / "file"
    taken.write_text("")
    directory = taken / "run" if inside else taken
    message = "--workdir: expected a folder that can be written to, received .*file"
    with pytest.raises(zoo.RunError, match=message) as error:
        training.train(recipe, directory, 3, settings())
    assert "\n" not in str(error.value)
