"""Adding something touches one place: a file, a class or a record, and it is everywhere."""

import json
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import _paths, backbones, cli, data, evaluation, posthoc, zoo
from s2d_tf.evaluation import tables
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


def noise(name="", split="", data_dir=None):
    random = np.random.default_rng(0)
    return random.integers(0, 256, [40, 8, 8, 1], dtype=np.uint8), random.integers(0, 8, 40)


@pytest.fixture(scope="module")
def model():
    return zoo.load("wrn_10_2_s2.s2d.digits")


@pytest.fixture
def printed(capsys):
    """`printed(*arguments)`: what the command `s2d` prints."""

    def run(*arguments):
        assert cli.main(arguments) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def own_zoo(project_root, tmp_path, monkeypatch):
    """The zoo with a method and an architecture more, each a file."""
    weights = shutil.ignore_patterns("pretrained")
    folder = shutil.copytree(project_root / "zoo", tmp_path / "zoo", ignore=weights)
    (folder / "methods" / "three_heads.toml").write_text(METHOD)
    (folder / "architectures" / "flat.toml").write_text(ARCHITECTURE)
    monkeypatch.setattr(_paths, "zoo_directory", lambda: folder)
    monkeypatch.setattr(backbones, "flat", flat, raising=False)
    recipes.resolve.cache_clear()


def test_a_method_and_a_backbone_are_files(own_zoo, printed):
    name = "flat.three_heads.digits"
    assert name in zoo.names()
    (row,) = (line for line in printed("list", "flat", "three_heads").splitlines() if name in line)
    assert row.endswith("Three heads")
    model = zoo.build(name)
    assert (model.num_members, model.num_parameters) == (3, 64 * 3 * 7 + 7 + 3 * (7 * 8 + 8))
    found = evaluation.evaluate(model, noise(), name="digits")
    table = evaluation.overview_table({zoo.entry(name).recipe.title: found}, "digits")
    assert [cell.text for cell in table.rows[0]][:2] == [
        "Three heads",
        f"{100 * found['digits/accuracy']:.1f}",
    ]


def test_a_detector_is_a_class(model, printed, monkeypatch):
    monkeypatch.setattr("s2d_tf.posthoc.step._STEPS", posthoc.steps())  # to forget it again

    class Margin(posthoc.Detector):
        title = "Margin of the two best"
        output = "margin"
        needs_data = False

        def scores(self, fitted, state):
            largest = tf.math.top_k(state.uncertainty["probs"], k=2).values
            return largest[:, 1] - largest[:, 0]

    known = data.load_arrays("digits", "test")
    found = evaluation.evaluate(model, known, ood={"noise": noise()}, detectors=["margin"])
    assert 0.5 < found["noise/auroc/margin"] <= 1
    column = ("Noise", evaluation.names.score_title("margin"))
    table = evaluation.metric_table({"S2D": found}, {"noise/auroc/margin": column})
    assert Margin.title in tables.render(table, "markdown")
    entry = "wrn_10_2_s2.s2d.digits"
    stored = json.loads(printed("evaluate", entry, "--detectors=margin"))
    assert 0 <= stored["digits_photos/auroc/margin"] <= 1
    assert stored["run/detectors_fitted_on"] == "train"


def test_a_dataset_is_a_record(model, printed):
    record = data.DatasetInfo(
        name="adding_noise",
        title="Noise",
        splits={"test": 40},
        load=noise,
        image_shape=(8, 8, 1),
        num_classes=8,
    )
    data.register(record)
    found = evaluation.evaluate(model, "digits", ood=["adding_noise"])
    table = evaluation.overview_table({"S2D": found}, "digits", ["adding_noise"])
    assert "Noise %AUROC" in tables.render(table, "markdown")
    assert evaluation.evaluate(model, "adding_noise")["adding_noise/accuracy"] < 0.5
    assert "adding_noise" in printed("data")


def test_a_command_is_a_file(project_root, tmp_path, monkeypatch, printed):
    shutil.copytree(project_root / "trainers", tmp_path / "trainers")
    (tmp_path / "trainers" / "hello.py").write_text(COMMAND)
    monkeypatch.setattr(_paths, "trainers_directory", lambda: tmp_path / "trainers")
    assert "  hello " in printed("--help")
    assert printed("hello", "you") == "hello you\n"
