"""Predictions of teachers: computed once, whole, and the same bits after a kill."""

import functools
import json

import numpy as np
import pytest

from s2d_tf import files, zoo
from s2d_tf.trainers import training
from s2d_tf.trainers.training import callbacks, loop, teachers
from s2d_tf.zoo import networks, runs
from tests.trainers.training.small_runs import (
    NETWORK,
    STEPS,
    Killed,
    final_state,
    made,
    newest_step,
    recipe,
    student,
)

pytestmark = pytest.mark.usefixtures("small_world")


@pytest.fixture(scope="module")
def images():
    return loop.data.load_arrays("digits", "train")[0]


@pytest.fixture(scope="module")
def right(ensemble, images):
    """Each member asked by itself: `[n, members, classes]`."""
    logits = [member.predictor()(images, training=False) for member in ensemble.members]
    return np.stack(logits, axis=1)


opened = functools.cache(lambda directory: zoo.open_run(zoo.Run.open(directory)))


@pytest.fixture
def computed(monkeypatch):
    """A list that grows by the directory of each run whose predictor is used.

    Each is built and traced once in this file.
    """
    directories = []

    def open_run(run, with_steps=True):
        directories.append(run.directory)
        return opened(run.directory)

    monkeypatch.setattr(teachers.zoo, "open_run", open_run)
    return directories


def attached(run, ensemble, images):
    settings = training.Settings(teachers=str(ensemble.directory))
    network = networks.build_network(run.recipe)
    return teachers.attach(network, run, settings, images)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


ARRAY, RECORD = "teacher_logits.npy", "teacher_logits.json"
DAMAGES = {
    "no record": lambda folder: (folder / RECORD).unlink(),
    "a bit of the array": lambda folder: flip(folder / ARRAY),
    "a shorter array": lambda folder: (folder / ARRAY).write_bytes(
        (folder / ARRAY).read_bytes()[:-9]
    ),
    "an empty array": lambda folder: (folder / ARRAY).write_bytes(b""),
    "a bit of the record": lambda folder: flip(folder / RECORD),
    "half a record": lambda folder: (folder / RECORD).write_text("{"),
    "a record that is no text": lambda folder: (folder / RECORD).write_bytes(b"\xff\xfe"),
    "a record of something else": lambda folder: (folder / RECORD).write_text("[]"),
    "a record without a checksum": lambda folder: (folder / RECORD).write_text(
        json.dumps({k: files.read_json(folder / RECORD)[k] for k in ("teachers", "images")})
    ),
}


def test_predictions_are_computed_once(tmp_path, computed, ensemble, images, right):
    run = student(tmp_path / "run")
    first, second = (attached(run, ensemble, images) for _ in range(2))
    assert computed == [ensemble.directory]
    assert first.shape == (96, 2, 8)
    np.testing.assert_allclose(first, right, rtol=2e-3, atol=1e-3)  # kept in half precision
    np.testing.assert_array_equal(second, first)
    record = files.read_json(run.directory / RECORD)
    assert record["sha256"] == files.sha256(run.directory / ARRAY)
    assert record["teachers"] == [files.sha256(m.weights()) for m in ensemble.members]


@pytest.mark.usefixtures("computed")
def test_a_plain_ensemble_is_one_more_choice_of_teachers(tmp_path, ensemble, images, right):
    found = attached(student(tmp_path / "run", "plain_dir"), ensemble, images)
    np.testing.assert_allclose(found, right, rtol=2e-3, atol=1e-3)


@pytest.mark.usefixtures("computed")
def test_teachers_of_another_kind_are_rejected(tmp_path, ensemble, images):
    ours = training.override(recipe("h2d_dir"), ["teachers=ensemble"])
    run = runs.Run(tmp_path / "run", ours, 0).write()
    with pytest.raises(
        ValueError, match=r"expected kind 'dirichlet', as .* received 'categorical'"
    ):
        attached(run, ensemble, images)
    assert not (run.directory / ARRAY).exists()


def test_teachers_of_augmented_images_see_only_one_size(tmp_path, ensemble, images):
    ours = recipe("end").replace(data={"augmentation": "mirror_shift", "resolutions": (0.5,)})
    run = runs.Run(tmp_path / "run", ours, 0).write()
    with pytest.raises(runs.RunError, match=r"data\.resolutions: .*--set data\.resolutions=\[\]"):
        attached(run, ensemble, images)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_predictions_are_computed_again(
    tmp_path, computed, ensemble, images, caplog, damage
):
    run = student(tmp_path / "run")
    whole = attached(run, ensemble, images)
    DAMAGES[damage](run.directory)
    with caplog.at_level("WARNING", logger="absl"):
        again = attached(run, ensemble, images)
    assert "teacher_logits.npy is damaged, unfinished or of other teachers" in caplog.text
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_array_equal(attached(run, ensemble, images), whole)
    assert len(computed) == 2


@pytest.mark.usefixtures("computed")
@pytest.mark.parametrize("before", ["nothing", "other predictions"])
def test_a_kill_between_the_two_files_is_survived(
    tmp_path, monkeypatch, ensemble, images, right, before
):
    run = student(tmp_path / "run")
    if before == "other predictions":
        attached(run, ensemble, images[::-1])

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_json", kill)
        with pytest.raises(Killed):
            attached(run, ensemble, images)
    assert (run.directory / ARRAY).is_file()
    np.testing.assert_allclose(attached(run, ensemble, images), right, rtol=2e-3, atol=1e-3)


@pytest.mark.usefixtures("computed")
def test_other_teachers_and_another_order_of_images_are_noticed(tmp_path, ensemble, images, right):
    run = student(tmp_path / "run")
    attached(run, ensemble, images)
    turned = attached(run, ensemble, images[::-1])
    np.testing.assert_allclose(turned, right[::-1], rtol=2e-3, atol=1e-3)
    other = made(tmp_path / "other", recipe("ensemble"), seed=5, loadable=True)
    assert not np.allclose(attached(run, other, images), right, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    "teaching",
    ["cached", *(pytest.param(t, marks=pytest.mark.slow) for t in ("cache lost", "in each step"))],
)
def test_a_killed_student_ends_in_the_same_bits(tmp_path, monkeypatch, caplog, ensemble, teaching):
    settings = training.Settings(
        strategy="one_device", verbose=0, checkpoint_steps=1, teachers=str(ensemble.directory)
    )
    ours = recipe("end")
    if teaching == "in each step":
        ours = ours.replace(data={"augmentation": "mirror_shift"})
    whole = training.train(ours, tmp_path / "whole", 3, settings)
    step, count = callbacks.Checkpoint.on_train_batch_end, []

    def killed(self, batch, logs=None):
        count.append(batch)
        if len(count) == 5:  # the second step of the second epoch, before it is saved
            raise Killed
        step(self, batch, logs)

    monkeypatch.setattr(callbacks.Checkpoint, "on_train_batch_end", killed)
    directory = tmp_path / "run"
    with pytest.raises(Killed):
        training.train(ours, directory, 3, settings)
    assert newest_step(directory / "checkpoints") == STEPS + 1
    if teaching == "cache lost":
        (directory / RECORD).unlink()
    with caplog.at_level("INFO", logger="absl"):
        run = training.train(ours, directory, 3, settings)
    assert len(count) == 5 + 2, "it began anew"
    assert ("computing the predictions" in caplog.text) == (teaching == "cache lost")
    assert final_state(directory) == final_state(whole.directory)
    assert (directory / "log.csv").read_text() == (whole.directory / "log.csv").read_text()
    assert run.weights().read_bytes() == whole.weights().read_bytes()


@pytest.mark.parametrize(
    ("method", "network"),
    [
        ("h2d", NETWORK),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                ("plain_dir", NETWORK),
                ("h2d", "fast_resnet_half"),
            )
        ),
    ],
)
def test_our_students_learn_from_teachers_they_find_and_start_from(tmp_path, method, network):
    """By their recipes, but for a small backbone and few epochs; no warm-up, no rate of its own."""
    ours = recipe(method, network=network).replace(training={"epochs": 6, "warmup": 0.0})
    taught = recipe(ours.teachers, network=network)
    ensemble = made(tmp_path / taught.name, taught, loadable=True)
    settings = training.Settings(strategy="one_device", verbose=0)
    run = training.train(ours, tmp_path / "run", 1, settings)
    _, history = final_state(run.directory)
    assert history[-1]["with_soft_cross_entropy"] < history[0]["with_soft_cross_entropy"]
    student, images = run.predictor(), loop.data.load_arrays("digits", "train")[0]
    started = ensemble.members[1].predictor()
    assert not np.allclose(student.backbone.get_weights()[0], started.backbone.get_weights()[0])
    target = ensemble.predictor().predict_uncertainty(images)["probs"]
    found, before = (model.predict_uncertainty(images)["probs"] for model in (student, started))
    assert np.abs(found - target).mean() < np.abs(before - target).mean()
    assert student.decomposes


def test_predictions_are_the_same_bits_whatever_was_predicted_before(tmp_path, ensemble, images):
    """No clock, cache or earlier prediction changes what a student learns from."""
    first = attached(student(tmp_path / "first"), ensemble, images)
    predictor = ensemble.predictor()
    predictor.predict_members(images[:7])
    predictor.predict_members(images)
    second = attached(student(tmp_path / "second"), ensemble, images)
    assert first.tobytes() == second.tobytes()
    np.testing.assert_array_equal(
        predictor.predict_members(images)[1].transpose(1, 0, 2).astype(np.float16), first
    )
