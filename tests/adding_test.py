"""Adding something touches one place: a file or a class, and it is everywhere."""

import shutil

import keras
import numpy as np
import pytest

from s2d_tf import _paths, backbones, cli, evaluation, zoo
from s2d_tf.zoo import recipes

METHOD = """
title = "Three heads"
learns = "labels"
heads = 3
"""
ARCHITECTURE = """
backbone = "flat"
arguments = { units = 7 }

[data]
mean = [128.0]
stddev = [64.0]
batch_size = 32

[training]
epochs = 1
learning_rate = 0.1
"""
COMMAND = '''
"""Says hello."""

def main(argv):
    print("hello", *argv[1:])
'''


def flat(input_shape, units, dropout=0.0, seed=None, synchronized_batch_norm=False):
    """The smallest backbone there can be."""
    images = keras.Input(input_shape)
    return keras.Model(images, keras.layers.Dense(units)(keras.layers.Flatten()(images)))


@pytest.fixture
def own_zoo(project_root, tmp_path, monkeypatch):
    """The zoo with a method and an architecture more, each a file."""
    folder = shutil.copytree(project_root / "zoo", tmp_path / "zoo", ignore=_weights)
    (folder / "methods" / "three_heads.toml").write_text(METHOD)
    (folder / "architectures" / "flat.toml").write_text(ARCHITECTURE)
    monkeypatch.setattr(_paths, "zoo_directory", lambda: folder)
    monkeypatch.setattr(backbones, "flat", flat, raising=False)
    recipes.resolve.cache_clear()


def _weights(folder, names):
    return [name for name in names if name == "pretrained"]


def test_a_method_and_a_backbone_are_files(own_zoo, capsys):
    name = "flat.three_heads.digits"
    assert name in zoo.names()
    assert cli.main(["list", "flat", "three_heads"]) == 0
    assert name in capsys.readouterr().out
    model = zoo.build(name)
    assert (model.num_members, model.num_parameters) == (3, 64 * 3 * 7 + 7 + 3 * (7 * 8 + 8))
    found = evaluation.evaluate(model, _digits(), name="digits")
    assert 0 <= found["digits/accuracy"] <= 1


def _digits():
    random = np.random.default_rng(0)
    return random.integers(0, 256, [40, 8, 8, 1], dtype=np.uint8), random.integers(0, 8, 40)


def test_a_command_is_a_file(project_root, tmp_path, monkeypatch, capsys):
    shutil.copytree(project_root / "trainers", tmp_path / "trainers")
    (tmp_path / "trainers" / "hello.py").write_text(COMMAND)
    monkeypatch.setattr(_paths, "trainers_directory", lambda: tmp_path / "trainers")
    assert cli.main(["--help"]) == cli.main(["hello", "you"]) == 0
    printed = capsys.readouterr().out
    assert "  hello " in printed
    assert printed.endswith("hello you\n")
