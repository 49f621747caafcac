"""Runs of a tiny backbone, and all that one leaves."""

import keras
import safetensors.numpy

from s2d_tf import files, layers
from s2d_tf.backbones import batch_norm
from s2d_tf.trainers import training
from s2d_tf.trainers.training import checkpoints
from s2d_tf.zoo import networks, recipes, weights

STEPS = 3
NETWORK = "wrn_10_2_s2"
HELD_OUT = "train_without_validation"


class Killed(BaseException):
    """Stands for a process that ends."""


def tiny(input_shape, dropout, seed, synchronized_batch_norm, **_):
    """A backbone that is traced in a moment, with everything that has state."""
    images = keras.Input(input_shape)
    start = keras.initializers.HeNormal(seed)
    x = keras.layers.Conv2D(4, 3, 2, kernel_initializer=start, name="conv")(images)
    x = batch_norm.BatchNormalization(synchronized=synchronized_batch_norm, name="norm")(x)
    x = layers.Dropout(dropout, seed=seed, name="dropout")(keras.layers.ReLU()(x))
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x), name="tiny")


def recipe(method, dataset="digits", network=NETWORK, epochs=2):
    found = recipes.resolve(f"{network}.{method}.{dataset}")
    found = found.replace(backbone="tiny", arguments={}, training={"epochs": epochs})
    return found.replace(num_members=2) if found.draws == "ensemble" else found


def settings(**kwargs):
    return training.Settings(**{"strategy": "one_device", "verbose": 0} | kwargs)


def made(directory, recipe, seed=0, split="train", finished=True, loadable=False):
    """A run directory as training leaves it; its weights are random, or only empty files."""
    run = training.create(directory, recipe, seed, split)
    if recipe.draws == "ensemble":
        member = recipe.member_recipe.replace(backbone="tiny")
        for index, folder in enumerate(run.member_directories):
            made(folder, member, seed + index, split, finished, loadable)
    elif loadable:
        weights.save(networks.build_network(recipe, seed + 7), run.weights())
    elif finished:
        run.weights().touch()
    return run


def student(directory, method="end", seed=0, split="train"):
    return training.create(directory, recipe(method), seed, split)


def flip(path, place=None):
    """Flips a bit of a file, in its middle or at a place."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)


def newest_step(directory):
    """The step of the newest whole checkpoint of a run, or `None`."""
    held = checkpoints.newest(directory / "checkpoints")
    return held and held[1]["step"]


def final_state(directory):
    """All that a run's last checkpoint holds, as bytes, and its history."""
    folder = checkpoints.found(directory / "checkpoints")[-1]
    arrays = safetensors.numpy.load_file(folder / "arrays.safetensors")
    state = {key: array.tobytes() for key, array in arrays.items()}
    return state, files.read_json(folder / "manifest.json")["facts"]["history"]


def assert_same_run(run, other):
    """Every bit of two finished runs: checkpoint, history, log and weights."""
    assert final_state(run.directory) == final_state(other.directory)
    logs = [(r.directory / "log.csv").read_text() for r in (run, other)]
    assert logs[0] == logs[1]
    assert run.weights().read_bytes() == other.weights().read_bytes()
