"""Which runs and entries a student takes as its teachers: only those that fit."""

import shlex

import numpy as np
import pytest

from s2d_tf import files, zoo
from s2d_tf.trainers import training
from s2d_tf.trainers.training import teachers
from s2d_tf.zoo import recipes, runs
from tests.trainers.training.small_runs import HELD_OUT, NETWORK, made, recipe, student

pytestmark = pytest.mark.usefixtures("small_world")
ENTRY = "wrn_10_2_s2.s2d.digits"


def test_teachers_are_found_inside_and_beside(tmp_path):
    run = student(tmp_path / "run")
    beside = made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))
    assert teachers.find(run, "ensemble") == beside
    inside = made(run.directory / "teachers", recipe("ensemble"))
    assert teachers.find(run, "ensemble") == inside
    assert teachers.find(run, "ensemble", str(beside.directory)) == beside


@pytest.mark.parametrize(
    ("given", "seed", "member"),
    [(False, 3, "member_0"), (True, 4, "member_1"), (False, 9, "member_0")],
)
def test_an_ensemble_stands_for_its_member(tmp_path, given, seed, member):
    run = student(tmp_path / "run", "h2d_dir", seed)
    made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))  # of another method
    ensemble = made(tmp_path / f"{NETWORK}.s2d_ensemble.digits", recipe("s2d_ensemble"), seed=3)
    found = teachers.find(run, "s2d", ensemble.directory if given else None)
    assert found.directory == ensemble.directory / member
    assert found.recipe.method == "s2d"


MISFITS = {
    "nothing": (None, {}, "teachers: no "),
    "unfinished": (recipe("ensemble"), {"finished": False}, "on the split train that is not"),
    "one network": (recipe("individual"), {}, f"a run of {NETWORK}.individual.digits"),
    "dataset": (recipe("ensemble", "cifar100"), {}, f"a run of {NETWORK}.ensemble.cifar100"),
    "split": (recipe("ensemble"), {"split": HELD_OUT}, f"on the split {HELD_OUT}"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_folder_that_does_not_fit_is_rejected_or_passed_over(tmp_path, misfit):
    """Rejected if it was given, although another would fit; passed over if it was found."""
    other, options, received = MISFITS[misfit]
    run = student(tmp_path / "run")
    folder = run.directory / "teachers"
    if other is not None:
        made(folder, other, **options)
    with pytest.raises(runs.RunError, match=received) as error:
        teachers.find(run, "ensemble", None if other else folder)
    beside = made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))
    assert teachers.find(run, "ensemble") == beside
    with pytest.raises(runs.RunError, match=received) as error:
        teachers.find(run, "ensemble", folder)
    expected = f"a finished run of {NETWORK}.ensemble.digits on the split train"
    assert f"expected {expected}, received {folder}: " in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("split", ["train", HELD_OUT])
@pytest.mark.parametrize("taken", [False, True])
def test_the_command_in_the_message_makes_what_is_found(tmp_path, monkeypatch, split, taken):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    if taken:  # by the teachers of the other split
        other = HELD_OUT if split == "train" else "train"
        made(tmp_path / "a b" / f"{NETWORK}.ensemble.digits", recipe("ensemble"), split=other)
    run = student("a b/run", split=split)
    with pytest.raises(runs.RunError) as error:
        teachers.find(run, "ensemble")
    command = shlex.split(str(error.value).split("`")[1])
    assert command[:3] == ["s2d", "train", f"{NETWORK}.ensemble.digits"]
    flags = dict(flag.removeprefix("--").split("=") for flag in command[3:])
    assert flags.get("split", "train") == split
    result = made(flags["workdir"], recipe("ensemble"), split=flags.get("split", "train"))
    assert teachers.find(run, "ensemble") == result


def test_a_missing_snapshot_is_named(tmp_path):
    made(tmp_path / f"{NETWORK}.s2d.digits", recipe("s2d"))
    run = student(tmp_path / "run", "h2d_dir")
    with pytest.raises(runs.RunError, match=r"epoch_001\.\S+: .*50%.*--start") as error:
        teachers.start(None, run)
    assert "\n" not in str(error.value)


def test_a_run_of_an_entry_predicts_as_the_entry_does(tmp_path):
    run = teachers.unpack(ENTRY, tmp_path / "run")
    images = np.random.default_rng(0).integers(0, 256, [4, 8, 8, 1]).astype(np.uint8)
    found = zoo.open_run(runs.Run.open(run.directory)).predictor.predict_uncertainty(images)
    expected = zoo.load(ENTRY).predict_uncertainty(images)
    assert (run.recipe.name, run.seed, run.split) == (ENTRY, 0, "train")
    assert {key: value.tolist() for key, value in found.items()} == {
        key: value.tolist() for key, value in expected.items()
    }
    before = {path: path.stat().st_mtime_ns for path in run.directory.iterdir()}
    assert teachers.unpack(ENTRY, tmp_path / "run") == run
    with pytest.raises(runs.RunError, match="received another run"):
        teachers.unpack("wrn_10_2_s2.individual.digits", tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in run.directory.iterdir()} == before


def test_an_ensemble_has_its_members(tmp_path):
    name = "fast_resnet_half.ensemble.cifar100"
    run = teachers.unpack(name, tmp_path / "run")
    assert run.finished
    assert [part.seed for part in run.members] == [0, 1, 2]
    assert {part.recipe.name for part in run.members} == {"fast_resnet_half.individual.cifar100"}
    for part, network in zip(run.members, zoo.load(name).networks, strict=True):
        read, _ = files.unpack_arrays(part.weights().read_bytes())
        for variable in network.weights:
            np.testing.assert_array_equal(read[variable.path], variable.numpy())


@pytest.mark.parametrize("where", [ENTRY, zoo.directory() / ENTRY])
def test_a_student_starts_from_an_entry_of_the_right_method(tmp_path, where):
    run = training.create(tmp_path / "student", recipes.resolve("wrn_10_2_s2.h2d.digits"), 0)
    found = teachers.find(run, "s2d", where)
    assert found.finished
    assert found.directory == run.directory / "teachers"
    run = training.create(tmp_path / "other", run.recipe, 0)
    with pytest.raises(runs.RunError, match=r"teachers: a run of wrn_10_2_s2\.individual"):
        teachers.find(run, "s2d", "wrn_10_2_s2.individual.digits")
