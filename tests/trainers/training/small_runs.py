"""Runs of a tiny backbone, and all that one leaves."""

import keras
import safetensors.numpy

from s2d_tf import files, layers
from s2d_tf.trainers.training import checkpoints, run_directory
from s2d_tf.zoo import networks, recipes, weights

STEPS = 3
NETWORK = "wrn_10_2_s2"
HELD_OUT = "train_without_validation"


class Killed(BaseException):
    """Stands for a process that ends."""


def tiny(input_shape, dropout, seed, synchronized_batch_norm):
    """A backbone that is traced in a moment, with random state."""
    images = keras.Input(input_shape)
    start = keras.initializers.HeNormal(seed)
    x = keras.layers.Conv2D(4, 3, 2, "same", kernel_initializer=start, name="conv")(images)
    x = layers.Dropout(0.2, seed=seed, name="dropout")(keras.layers.ReLU()(x))
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x), name="tiny")


def recipe(method, dataset="digits", network=NETWORK):
    found = recipes.resolve(f"{network}.{method}.{dataset}")
    found = found.replace(backbone="tiny", arguments={}, training={"epochs": 2})
    return found.replace(num_members=2) if found.draws == "ensemble" else found


def made(directory, recipe, seed=0, split="train", finished=True, loadable=False):
    """A run directory as training leaves it; its weights are random, or only empty files."""
    run = run_directory.create(directory, recipe, seed, split)
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
    return run_directory.create(directory, recipe(method), seed, split)


def newest_step(directory):
    """The step of the newest whole checkpoint in a folder, or `None`."""
    held = checkpoints.newest(directory)
    return held and held[1]["step"]


def final_state(directory):
    """All that a run's last checkpoint holds, as bytes, and its history."""
    folder = checkpoints.found(directory / "checkpoints")[-1]
    arrays = safetensors.numpy.load_file(folder / "arrays.safetensors")
    state = {key: array.tobytes() for key, array in arrays.items()}
    return state, files.read_json(folder / "manifest.json")["facts"]["history"]
