"""What a run takes from others: only what fits, whole, and the same bits after a kill."""

import functools
import json
import shlex

import keras
import numpy as np
import pytest
import safetensors.numpy

from s2d_tf import backbones, files, layers, recipes, training
from s2d_tf.recipes import build
from s2d_tf.storage import checkpoints, runs, weights
from s2d_tf.training import callbacks, loop, teachers

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


@pytest.fixture(scope="module", autouse=True)
def small_world():
    """The small backbone, and 96 of the digits: 3 steps an epoch."""
    load = loop.data.load_arrays
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, "tiny", tiny, raising=False)
        patch.setattr(
            loop.data, "load_arrays", lambda *args: tuple(p[: 32 * STEPS] for p in load(*args))
        )
        yield


def recipe(method, dataset="digits", network=NETWORK):
    found = recipes.resolve(f"{network}.{method}.{dataset}")
    found = found.replace(backbone="tiny", arguments={}, training={"epochs": 2})
    return found.replace(num_members=2) if found.draws == "ensemble" else found


def made(directory, recipe, seed=0, split="train", finished=True, loadable=False):
    """A run directory as training leaves it; its weights are random, or only empty files."""
    run = runs.Run.create(directory, recipe, seed, split)
    if recipe.draws == "ensemble":
        member = recipe.member_recipe.replace(backbone="tiny")
        for index, folder in enumerate(run.member_directories):
            made(folder, member, seed + index, split, finished, loadable)
    elif loadable:
        weights.save(build.build_network(recipe, seed + 7), run.weights())
    elif finished:
        run.weights().touch()
    return run


def student(directory, method="end", seed=0, split="train"):
    return runs.Run.create(directory, recipe(method), seed, split)


def test_teachers_are_found_inside_and_beside(tmp_path):
    run = student(tmp_path / "run")
    beside = made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))
    assert teachers.find(run, "ensemble") == beside
    inside = made(run.directory / "teachers", recipe("ensemble"))
    assert teachers.find(run, "ensemble") == inside
    assert teachers.find(run, "ensemble", str(beside.directory)) == beside


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("seed", "member"), [(3, "member_0"), (4, "member_1"), (9, "member_0")])
def test_an_ensemble_stands_for_its_member(tmp_path, given, seed, member):
    run = student(tmp_path / "run", "h2d_dir", seed)
    made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))  # of another method
    ensemble = made(tmp_path / f"{NETWORK}.s2d_ensemble.digits", recipe("s2d_ensemble"), seed=3)
    found = teachers.find(run, "s2d", ensemble.directory if given else None)
    assert found.directory == ensemble.directory / member
    assert found.recipe.method == "s2d"


MISFITS = {
    "nothing": (None, {}, "given: no "),
    "unfinished": (
        recipe("ensemble"),
        {"finished": False},
        "digits on the split train that is not",
    ),
    "method": (recipe("s2d_ensemble"), {}, f"a run of {NETWORK}.s2d_ensemble.digits"),
    "one network": (recipe("individual"), {}, f"a run of {NETWORK}.individual.digits"),
    "dataset": (recipe("ensemble", "cifar100"), {}, f"a run of {NETWORK}.ensemble.cifar100"),
    "network": (
        recipe("ensemble", network="densenet_bc_22_12_s2"),
        {},
        "a run of densenet_bc_22_12_s2.ensemble.digits",
    ),
    "split": (recipe("ensemble"), {"split": HELD_OUT}, f"on the split {HELD_OUT}"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_given_folder_that_does_not_fit_is_refused_although_another_would(tmp_path, misfit):
    other, options, received = MISFITS[misfit]
    made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))
    if other is not None:
        made(tmp_path / "given", other, **options)
    run = student(tmp_path / "run")
    with pytest.raises(runs.RunError) as error:
        teachers.find(run, "ensemble", str(tmp_path / "given"))
    expected = f"a finished run of {NETWORK}.ensemble.digits on the split train"
    assert f"expected {expected}, received {tmp_path / 'given'}: " in str(error.value)
    assert received in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("misfit", MISFITS)
def test_a_folder_nearby_that_does_not_fit_does_not_count(tmp_path, misfit):
    other, options, received = MISFITS[misfit]
    run = student(tmp_path / "run")
    if other is not None:
        made(run.directory / "teachers", other, **options)
    with pytest.raises(runs.RunError) as error:
        teachers.find(run, "ensemble")
    if other is not None:
        assert received in str(error.value)
    beside = made(tmp_path / f"{NETWORK}.ensemble.digits", recipe("ensemble"))
    assert teachers.find(run, "ensemble") == beside


def test_augmented_teachers_do_not_serve_a_student_without(tmp_path):
    run = runs.Run.create(tmp_path / "run", recipe("end", "cifar100"), 0)
    plus = made(run.directory / "teachers", recipe("ensemble", "cifar100_plus"))
    for directory in (None, plus.directory):
        with pytest.raises(runs.RunError, match=r"ensemble\.cifar100 .*ensemble\.cifar100_plus"):
            teachers.find(run, "ensemble", directory)


def test_a_given_ensemble_without_the_member_says_which(tmp_path):
    ensemble = runs.Run.create(tmp_path / "ensemble", recipe("s2d_ensemble"), 0)
    run = student(tmp_path / "run", "h2d_dir", seed=1)
    with pytest.raises(runs.RunError, match=r"s2d\.digits .*received .*: no .*member_1"):
        teachers.find(run, "s2d", ensemble.directory)


@pytest.mark.parametrize("split", ["train", HELD_OUT])
@pytest.mark.parametrize("taken", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_the_command_in_the_message_makes_what_is_found(tmp_path, monkeypatch, split, taken, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    if taken:  # by the teachers of the other split
        other = HELD_OUT if split == "train" else "train"
        made(tmp_path / "a b" / f"{NETWORK}.ensemble.digits", recipe("ensemble"), split=other)
    run = student("a b/run", split=split)
    with pytest.raises(runs.RunError) as error:
        teachers.find(run, "ensemble", "elsewhere" if given else None)
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


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    """Two teachers with random weights."""
    folder = tmp_path_factory.mktemp("ensemble") / "run"
    return made(folder, recipe("ensemble"), loadable=True)


@pytest.fixture(scope="module")
def images():
    return loop.data.load_arrays("digits", "train")[0]


@pytest.fixture(scope="module")
def right(ensemble, images):
    """Each member asked by itself: `[n, members, classes]`."""
    logits = [member.predictor()(images, training=False) for member in ensemble.members]
    return np.stack(logits, axis=1)


predictor = runs.Run.predictor


@functools.cache
def traced(directory):
    return predictor(runs.Run.open(directory))


@pytest.fixture
def quick(monkeypatch):
    """Each run's predictor is built and traced once in this file."""
    monkeypatch.setattr(runs.Run, "predictor", lambda self: traced(self.directory))


def count_predictors(monkeypatch):
    """A list that grows by each run's directory that is asked for its predictor."""
    asked, predictor = [], runs.Run.predictor

    def counted(self):
        asked.append(self.directory)
        return predictor(self)

    monkeypatch.setattr(runs.Run, "predictor", counted)
    return asked


def attached(run, ensemble, images):
    settings = training.Settings(teachers=str(ensemble.directory))
    network = build.build_network(run.recipe)
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


@pytest.mark.usefixtures("quick")
def test_predictions_are_computed_once(tmp_path, monkeypatch, ensemble, images, right):
    run, asked = student(tmp_path / "run"), count_predictors(monkeypatch)
    first, second = (attached(run, ensemble, images) for _ in range(2))
    assert asked.count(ensemble.directory) == 1
    assert first.shape == (96, 2, 8)
    np.testing.assert_allclose(first, right, rtol=2e-3, atol=1e-3)  # kept in half precision
    np.testing.assert_array_equal(second, first)
    record = files.read_json(run.directory / RECORD)
    assert record["sha256"] == files.sha256(run.directory / ARRAY)
    assert record["teachers"] == [files.sha256(m.weights()) for m in ensemble.members]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("method", ["plain_dir", "plain_gauss"])
def test_a_plain_ensemble_is_one_more_choice_of_teachers(tmp_path, ensemble, images, right, method):
    found = attached(student(tmp_path / "run", method), ensemble, images)
    np.testing.assert_allclose(found, right, rtol=2e-3, atol=1e-3)


@pytest.mark.usefixtures("quick")
def test_teachers_of_another_kind_are_rejected(tmp_path, ensemble, images):
    ours = recipes.override(recipe("h2d_dir"), ["teachers=ensemble"])
    run = runs.Run.create(tmp_path / "run", ours, 0)
    with pytest.raises(
        ValueError, match=r"expected kind 'dirichlet', as .* received 'categorical'"
    ):
        attached(run, ensemble, images)
    assert not (run.directory / ARRAY).exists()


def test_teachers_of_augmented_images_see_only_one_size(tmp_path, ensemble, images):
    ours = recipe("end").replace(data={"augmentation": "mirror_shift", "resolutions": (0.5,)})
    run = runs.Run.create(tmp_path / "run", ours, 0)
    with pytest.raises(runs.RunError, match=r"data\.resolutions: .*--set data\.resolutions=\[\]"):
        attached(run, ensemble, images)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_predictions_are_computed_again(
    tmp_path, monkeypatch, ensemble, images, right, caplog, damage
):
    run, asked = student(tmp_path / "run"), count_predictors(monkeypatch)
    whole = attached(run, ensemble, images)
    DAMAGES[damage](run.directory)
    with caplog.at_level("WARNING", logger="absl"):
        again = attached(run, ensemble, images)
    assert "teacher_logits.npy is damaged, unfinished or of other teachers" in caplog.text
    np.testing.assert_array_equal(again, whole)
    np.testing.assert_allclose(again, right, rtol=2e-3, atol=1e-3)
    np.testing.assert_array_equal(attached(run, ensemble, images), whole)
    assert asked.count(ensemble.directory) == 2


@pytest.mark.usefixtures("quick")
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


@pytest.mark.usefixtures("quick")
def test_other_teachers_and_another_order_of_images_are_noticed(tmp_path, ensemble, images, right):
    run = student(tmp_path / "run")
    attached(run, ensemble, images)
    turned = attached(run, ensemble, images[::-1])
    np.testing.assert_allclose(turned, right[::-1], rtol=2e-3, atol=1e-3)
    other = made(tmp_path / "other", recipe("ensemble"), seed=5, loadable=True)
    assert not np.allclose(attached(run, other, images), right, rtol=2e-3, atol=1e-3)


def final_state(directory):
    """All that a run's last checkpoint holds, as bytes, and its history."""
    folder = checkpoints.found(directory / "checkpoints")[-1]
    arrays = safetensors.numpy.load_file(folder / "arrays.safetensors")
    state = {key: array.tobytes() for key, array in arrays.items()}
    return state, files.read_json(folder / "manifest.json")["facts"]["history"]


@pytest.mark.parametrize(
    "teaching",
    ["cached", *(pytest.param(t, marks=pytest.mark.slow) for t in ("cache lost", "in each step"))],
)
def test_a_killed_student_ends_in_the_same_bits(tmp_path, monkeypatch, ensemble, teaching):
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
    assert checkpoints.newest(directory / "checkpoints") == STEPS + 1
    if teaching == "cache lost":
        (directory / RECORD).unlink()
    asked = count_predictors(monkeypatch)
    run = training.train(ours, directory, 3, settings)
    assert len(count) == 5 + 2, "it began anew"
    assert (ensemble.directory in asked) == (teaching != "cached")
    assert final_state(directory) == final_state(whole.directory)
    assert (directory / "log.csv").read_text() == (whole.directory / "log.csv").read_text()
    assert run.weights().read_bytes() == whole.weights().read_bytes()


@pytest.mark.parametrize(
    ("method", "network"),
    [
        ("h2d", NETWORK),
        ("plain_gauss", NETWORK),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (
                ("h2d_spread", NETWORK),
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
