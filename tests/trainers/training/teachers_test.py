"""Teachers' predictions: computed once, whole, and the same bits after a kill."""

import json
import shutil

import numpy as np
import pytest

from s2d_tf import data, files
from s2d_tf.trainers import training
from s2d_tf.trainers.training import callbacks, teachers
from s2d_tf.zoo import networks, runs
from tests.trainers.training.small_runs import (
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
    ("method", "network"),
    [
        ("h2d", NETWORK),
        pytest.param("h2d", "fast_resnet_half", marks=pytest.mark.slow),
    ],
)
def test_our_students_learn_from_teachers_they_find_and_start_from(tmp_path, method, network):
    """By their recipes, but for a small backbone and few epochs; no warm-up, no rate of its own."""
    ours = recipe(method, network=network).replace(training={"epochs": 6, "warmup": 0.0})
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
