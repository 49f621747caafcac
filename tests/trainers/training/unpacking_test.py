"""Entries as run directories: the same recipe, seeds and weights."""

import numpy as np
import pytest

from s2d_tf import zoo
from s2d_tf.trainers.training import teachers
from s2d_tf.zoo import recipes, weights
from s2d_tf.zoo.runs import Run, RunError

NAME = "wrn_10_2_s2.s2d.digits"


def test_a_run_of_an_entry_predicts_as_the_entry_does(tmp_path):
    run = teachers.unpack(NAME, tmp_path / "run")
    images = np.random.default_rng(0).integers(0, 256, [4, 8, 8, 1]).astype(np.uint8)
    found = zoo.open_run(Run.open(run.directory)).predictor.predict_uncertainty(images)
    expected = zoo.load(NAME).predict_uncertainty(images)
    assert (run.recipe.name, run.seed, run.split) == (NAME, 0, "train")
    assert {key: value.tolist() for key, value in found.items()} == {
        key: value.tolist() for key, value in expected.items()
    }


def test_a_second_time_changes_nothing(tmp_path):
    run = teachers.unpack(NAME, tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in run.directory.iterdir()}
    assert teachers.unpack(NAME, tmp_path / "run") == run
    assert {path: path.stat().st_mtime_ns for path in run.directory.iterdir()} == before


def test_a_directory_of_another_run_is_rejected(tmp_path):
    teachers.unpack(NAME, tmp_path / "run")
    with pytest.raises(RunError, match=r"expected a new folder or the same run, received another"):
        teachers.unpack("wrn_10_2_s2.individual.digits", tmp_path / "run")


def test_an_ensemble_has_its_members(tmp_path):
    name = "fast_resnet_half.ensemble.cifar100"
    run = teachers.unpack(name, tmp_path / "run")
    assert run.finished
    assert [part.seed for part in run.members] == [0, 1, 2]
    assert {part.recipe.name for part in run.members} == {"fast_resnet_half.individual.cifar100"}
    for part, network in zip(run.members, zoo.load(name).networks, strict=True):
        read = weights.parse(part.weights().read_bytes(), network, part.weights())
        for variable in network.weights:
            np.testing.assert_array_equal(read[variable.path], variable.numpy())


@pytest.mark.parametrize("as_folder", [False, True])
def test_a_student_starts_from_an_entry(tmp_path, as_folder):
    run = Run(tmp_path / "student", recipes.resolve("wrn_10_2_s2.h2d.digits"), 0).write()
    where = zoo.directory() / NAME if as_folder else NAME
    found = teachers.find(run, "s2d", where)
    assert found.finished
    assert found.directory == run.directory / "teachers"


def test_an_entry_of_another_method_is_no_teacher(tmp_path):
    run = Run(tmp_path / "student", recipes.resolve("wrn_10_2_s2.h2d.digits"), 0).write()
    with pytest.raises(RunError, match=r"received .*teachers: a run of wrn_10_2_s2\.individual"):
        teachers.find(run, "s2d", "wrn_10_2_s2.individual.digits")
