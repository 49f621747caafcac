"""Which teachers a student takes; their predictions: computed once, and the same after a kill."""

import json
import shlex
import shutil

import numpy as np
import pytest

from s2d_tf import data, files, zoo
from s2d_tf.trainers import training
from s2d_tf.trainers.training import callbacks, teachers
from s2d_tf.zoo import networks, recipes, runs
from tests.trainers.training.small_runs import (
    HELD_OUT,
    NETWORK,
    STEPS,
    Killed,
    assert_same_run,
    final_state,
    flip,
    made,
    newest_step,
    recipe,
    settings,
    student,
)

pytestmark = pytest.mark.usefixtures("small_world")
ARRAY, RECORD = "teacher_logits.npy", "teacher_logits.json"
ENTRY = "wrn_10_2_s2.s2d.digits"


@pytest.fixture(scope="module")
def images(small_world):
    return data.load_arrays("digits", "train")[0]


@pytest.fixture(scope="module")
def right(ensemble, images):
    """Each member's own predictions: `[n, members, classes]`."""
    logits = [member.predictor()(images, training=False) for member in ensemble.members]
    return np.stack(logits, axis=1)


@pytest.fixture(scope="module")
def predicted(tmp_path_factory, ensemble, images):
    """A student's directory with the predictions of its teachers."""
    run = student(tmp_path_factory.mktemp("predicted") / "run")
    attached(run, ensemble, images)
    return run.directory


@pytest.fixture
def run(tmp_path, predicted):
    """A copy of `predicted`."""
    return runs.Run.open(shutil.copytree(predicted, tmp_path / "run"))


def attached(run, ensemble, images):
    network = networks.build_network(run.recipe)
    return teachers.attach(network, run, images, ensemble.directory)


def close(found, right):
    return np.allclose(found, right, rtol=2e-3, atol=1e-3)  # kept in half precision


def test_predictions_are_computed_once(run, ensemble, images, right):
    whole = np.load(run.directory / ARRAY)
    assert whole.shape == (96, 2, 8)
    assert close(whole, right)
    written = (run.directory / ARRAY).stat().st_mtime_ns
    np.testing.assert_array_equal(attached(run, ensemble, images), whole)
    assert (run.directory / ARRAY).stat().st_mtime_ns == written
    record = files.read_json(run.directory / RECORD)
    assert record["sha256"] == files.sha256(run.directory / ARRAY)
    assert record["teachers"] == [files.sha256(m.weights()) for m in ensemble.members]


def test_teachers_that_do_not_fit_are_rejected(tmp_path, ensemble, images):
    ours = training.override(recipe("h2d_dir"), ["teachers=ensemble"])
    run = training.create(tmp_path / "kind", ours, 0)
    message = r"expected kind 'dirichlet', as .* received 'categorical'"
    with pytest.raises(ValueError, match=message):
        attached(run, ensemble, images)
    assert not (run.directory / ARRAY).exists()
    ours = recipe("end").replace(data={"augmentation": "mirror_shift", "resolutions": (0.5,)})
    run = training.create(tmp_path / "sizes", ours, 0)
    with pytest.raises(runs.RunError, match=r"data\.resolutions: .*--set data\.resolutions=\[\]"):
        attached(run, ensemble, images)


DAMAGES = {
    "no record": lambda array, record: record.unlink(),
    "a bit of the array": lambda array, record: flip(array),
    "a shorter array": lambda array, record: array.write_bytes(array.read_bytes()[:-9]),
    "a bit of the record": lambda array, record: flip(record),
    "half a record": lambda array, record: record.write_text("{"),
    "a record that is no text": lambda array, record: record.write_bytes(b"\xff\xfe"),
    "a record of something else": lambda array, record: record.write_text("[]"),
    "a record without a checksum": lambda array, record: record.write_text(
        json.dumps({k: files.read_json(record)[k] for k in ("teachers", "images")})
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_predictions_are_computed_again(run, predicted, ensemble, images, caplog, damage):
    DAMAGES[damage](run.directory / ARRAY, run.directory / RECORD)
    with caplog.at_level("WARNING", logger="absl"):
        again = attached(run, ensemble, images)
    assert "teacher_logits.npy is damaged, unfinished or of other teachers" in caplog.text
    np.testing.assert_array_equal(again, np.load(predicted / ARRAY))
    for name in (ARRAY, RECORD):
        assert (run.directory / name).read_bytes() == (predicted / name).read_bytes()


@pytest.mark.parametrize("before", ["nothing", "other predictions"])
def test_a_kill_between_the_two_files_is_survived(
    tmp_path, monkeypatch, ensemble, images, right, before
):
    run = student(tmp_path / "run")
    if before == "other predictions":
        assert close(attached(run, ensemble, images[::-1]), right[::-1])

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", kill)
        with pytest.raises(Killed):
            attached(run, ensemble, images)
    assert (run.directory / ARRAY).is_file()
    assert close(attached(run, ensemble, images), right)


def test_other_teachers_are_noticed(tmp_path, run, images, right):
    other = made(tmp_path / "other", recipe("ensemble"), seed=5, loadable=True)
    assert not close(attached(run, other, images), right)


@pytest.mark.parametrize(
    "teaching",
    ["cached", *(pytest.param(t, marks=pytest.mark.slow) for t in ("cache lost", "in each step"))],
)
def test_a_killed_student_ends_in_the_same_bits(tmp_path, monkeypatch, caplog, ensemble, teaching):
    given = settings(checkpoint_steps=1, teachers=str(ensemble.directory))
    ours = recipe("end")
    if teaching == "in each step":
        ours = ours.replace(data={"augmentation": "mirror_shift"})
    whole = training.train(ours, tmp_path / "whole", 3, given)
    step, count = callbacks.Checkpoint.on_train_batch_end, []

    def killed(self, batch, logs=None):
        count.append(batch)
        if len(count) == 5:  # the second step of the second epoch, before it is saved
            raise Killed
        step(self, batch, logs)

    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", killed)
    directory = tmp_path / "run"
    with pytest.raises(Killed):
        training.train(ours, directory, 3, given)
    assert newest_step(directory) == STEPS + 1
    if teaching == "cache lost":
        (directory / RECORD).unlink()
    with caplog.at_level("INFO", logger="absl"):
        run = training.train(ours, directory, 3, given)
    assert len(count) == 5 + 2, "it began anew"
    assert ("computing the predictions" in caplog.text) == (teaching == "cache lost")
    assert_same_run(run, whole)


@pytest.mark.parametrize(
    "network", [NETWORK, pytest.param("fast_resnet_half", marks=pytest.mark.slow)]
)
def test_our_students_learn_from_teachers_they_find_and_start_from(tmp_path, network):
    """By their recipes, but for a small backbone and few epochs; no warm-up, no rate of its own."""
    ours = recipe("h2d", network=network).replace(training={"epochs": 6, "warmup": 0.0})
    taught = recipe(ours.teachers, network=network)
    ensemble = made(tmp_path / taught.name, taught, loadable=True)
    run = training.train(ours, tmp_path / "run", 1, settings())
    _, history = final_state(run.directory)
    assert history[-1]["with_soft_cross_entropy"] < history[0]["with_soft_cross_entropy"]
    student, images = run.predictor(), data.load_arrays("digits", "train")[0]
    started = ensemble.members[1].predictor()
    assert not np.allclose(student.backbone.get_weights()[0], started.backbone.get_weights()[0])
    target = ensemble.predictor().predict_uncertainty(images)["probs"]
    found, before = (model.predict_uncertainty(images)["probs"] for model in (student, started))
    assert np.abs(found - target).mean() < np.abs(before - target).mean()
    assert student.decomposes


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
