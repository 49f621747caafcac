"""One function opens a run directory, a zoo name, an entry's folder and an address."""

import pathlib
import shutil

import numpy as np
import pytest

from s2d_tf import zoo
from s2d_tf.zoo import networks, recipes, weights

NAME = "wrn_10_2_s2.s2d.digits"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recipe = recipes.resolve(NAME)
    made = zoo.Run(tmp_path_factory.mktemp("runs") / "run", recipe, 3).write()
    weights.save(networks.build_network(recipe, 3), made.weights())
    return made


def test_a_name_and_a_folder_are_the_same_entry(tmp_path):
    folder = shutil.copytree(zoo.directory() / NAME, tmp_path / "entry")
    expected = None
    for where in (NAME, str(folder), folder):
        opened = zoo.open_model(where)
        assert opened.name == opened.record.name == opened.predictor.metadata["name"] == NAME
        assert (opened.seeds, opened.split, opened.run) == ((0,), "train", None)
        assert opened.predictor.class_names == tuple("01234567")
        assert opened.predictor.networks == [opened.predictor]
        values = [weight.numpy() for weight in opened.predictor.weights]
        for ours, theirs in zip(values, expected or values, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        expected = values


def test_a_run(run):
    opened = zoo.open_model(str(run.directory))
    assert (opened.run, opened.record, opened.recipe) == (run, None, run.recipe)
    assert (opened.seeds, opened.split) == ((3,), "train")
    metadata = opened.predictor.metadata
    assert {k: metadata[k] for k in ("name", "seed", "split")} == {
        "name": NAME,
        "seed": 3,
        "split": "train",
    }
    own = networks.build_network(run.recipe, 3)
    for ours, theirs in zip(opened.predictor.weights, own.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    with pytest.raises(zoo.RunError, match="sha256: expected None for the run directory"):
        zoo.open_model(run.directory, sha256="0" * 64)


def test_a_run_with_the_name_of_an_entry_is_opened_by_its_path(run, tmp_path, monkeypatch):
    shutil.copytree(run.directory, tmp_path / NAME)
    monkeypatch.chdir(tmp_path)
    assert zoo.open_model(NAME).run is None
    for where in (f"./{NAME}", pathlib.Path(NAME)):
        assert zoo.open_model(where).seeds == (3,)


@pytest.mark.parametrize("where", ["nowhere/at/all", "."])
def test_a_folder_that_is_neither_says_what_was_expected(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(zoo.ZooError, match=r"recipe\.json, or an entry's with an entry\.json"):
        zoo.open_model(where)
