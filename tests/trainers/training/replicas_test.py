"""One replica or many: the same losses and the same weights, for every family of methods.

With synchronized batch norm and without dropout, as only then the mathematics is the same.
"""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from s2d_tf import cli, data, models
from s2d_tf.trainers import training
from s2d_tf.trainers.training import callbacks, loop, schedules, strategies
from s2d_tf.zoo import networks, recipes
from tests import contracts
from tests.trainers.training import small_runs

FAMILIES = ("individual", "s2d", "s2d_mimo", "end", "h2d_dir", "h2d_gauss", "h2d_gauss, teachers")
EPOCHS, STEPS = 2, 5
pytestmark = pytest.mark.usefixtures("small_world")


def recipe_of(method):
    recipe = small_runs.recipe(method)
    return recipe.replace(model={"dropout": 0.0}, training={"epochs": EPOCHS})


def trained(family, strategy):
    """Losses of each epoch and final variables of a family, trained under a strategy."""
    method, _, live_teachers = family.partition(", ")
    recipe = recipe_of(method)
    images, labels = data.load_arrays("digits", "train")
    targets = None
    if recipe.teachers and not live_teachers:
        shape = (len(images), 2, recipe.num_classes)
        targets = np.random.default_rng(0).normal(1.0, 2.0, shape).astype(np.float16)
    keras.utils.set_random_seed(0)
    with strategy.scope():
        network = networks.build_network(recipe, 5, synchronized_batch_norm=True)
        network.compile(schedules.optimizer(recipe.training, STEPS), jit_compile=False)
    if live_teachers:
        members = [networks.build_network(recipe_of("s2d"), seed) for seed in (1, 2)]
        network.learn_from(models.Ensemble(members))
    dataset = loop.make_dataset(recipe, 5, images, labels, targets, 0)
    if family == "s2d":  # with sample weights
        dataset = dataset.map(lambda x, y: (x, y, 0.5 + tf.cast(y, tf.float32) / 4))
    history = network.fit(dataset, epochs=EPOCHS, steps_per_epoch=STEPS, verbose=0).history
    return history, [variable.numpy() for variable in network.variables]


def assert_same(actual, expected):
    (losses, weights), (expected_losses, expected_weights) = actual, expected
    assert losses.keys() == expected_losses.keys()
    for name in losses:
        np.testing.assert_allclose(losses[name], expected_losses[name], rtol=2e-4, atol=1e-5)
    for weight, other in zip(weights, expected_weights, strict=True):
        off = np.linalg.norm(np.float64(weight) - other)
        assert off <= 2e-3 * np.linalg.norm(other) + 1e-5


@pytest.mark.parametrize(
    "family",
    [
        family if family == "s2d" else pytest.param(family, marks=pytest.mark.slow)
        for family in FAMILIES
    ],
)
def test_two_replicas_equal_one(family):
    one = trained(family, tf.distribute.get_strategy())
    assert_same(trained(family, strategies.make("mirrored")), one)
    assert one[0]["loss"][0] != one[0]["loss"][1]  # it did learn


def test_a_mirrored_run_continues_where_it_was_killed(tmp_path, monkeypatch):
    """Through checkpoints, which hold no trace of the number of replicas."""
    recipe = recipe_of("individual")
    common = {"verbose": 0, "synchronized_batch_norm": True}
    mirrored = training.Settings(strategy="mirrored", checkpoint_steps=3, **common)
    whole = training.train(
        recipe, tmp_path / "whole", 5, training.Settings(strategy="one_device", **common)
    )
    original = callbacks.Checkpoint.on_train_batch_end

    def killed(self, batch, logs=None):
        original(self, batch, logs)
        if batch == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", killed)
    with pytest.raises(KeyboardInterrupt):
        training.train(recipe, tmp_path / "run", 5, mirrored)
    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", original)
    assert small_runs.newest_step(tmp_path / "run") == 3
    run = training.train(recipe, tmp_path / "run", 5, mirrored)
    weights = [each.predictor().get_weights() for each in (run, whole)]
    contracts.assert_same(*weights, rtol=1e-3, atol=5e-5)


@pytest.mark.slow
def test_a_fast_network_on_two_replicas_equals_one(tmp_path):
    """Its stem is fitted once for all replicas, and Muon sees the gradient of the whole batch."""
    recipe = recipes.resolve("fast_resnet.individual.digits")
    recipe = recipe.replace(arguments={"width": 0.0625}, training={"epochs": 1})
    runs = [
        training.train(
            recipe,
            tmp_path / strategy,
            5,
            training.Settings(strategy=strategy, verbose=0, synchronized_batch_norm=True),
        )
        for strategy in ("one_device", "mirrored")
    ]
    one, two = (run.predictor().get_weights() for run in runs)
    for weight, other in zip(one, two, strict=True):
        assert np.linalg.norm(other - weight) <= 1e-2 * np.linalg.norm(weight) + 1e-4


@pytest.mark.slow
@pytest.mark.usefixtures("leave_no_flags")
@pytest.mark.parametrize("network", ["densenet_bc_100_12", "wrn_28_10"])
def test_the_documented_command_on_two_devices_equals_one(network, tmp_path, project_root):
    """With the network's short recipe and three steps of small images."""
    text = (project_root / "docs" / "reproduce.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"^s2d (train {network}\.s2d\..* --strategy=mirrored .*)$", text, re.M)
    command = command.replace(f"{network}.s2d.cifar100_plus", f"{network}_short.s2d").split()
    random = np.random.default_rng(0)
    for index in range(64):
        path = tmp_path / "images" / f"class_{index % 4}" / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, [8, 8, 3], dtype=np.uint8)).save(path)
    command += [f"--data={tmp_path / 'images'}", "--epochs=1", "--set=data.batch_size=16"]
    losses = []
    for changed in ([], ["--strategy=one_device"]):
        workdir = tmp_path / f"run_{len(losses)}"
        assert cli.main([*command, *changed, f"--workdir={workdir}"]) == 0
        _, *rows = (workdir / "log.csv").read_text().splitlines()
        losses.append([float(value) for value in rows[0].split(",")])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_a_batch_that_replicas_cannot_share_is_refused(tmp_path):
    recipe = recipe_of("individual").replace(data={"batch_size": 33})
    with pytest.raises(ValueError, match="batch that 2 replicas can share, received 33"):
        training.train(recipe, tmp_path / "run", 0, training.Settings(strategy="mirrored"))
