"""Checkpoints: what was saved comes back, damage is passed over, another model is refused."""

import keras
import numpy as np
import pytest

from s2d_tf import files
from s2d_tf.files import arrays as packing
from s2d_tf.trainers.training import checkpoints


def variables(value=0.0, shape=(3, 2), name="kernel"):
    """Like a model's: a weight, a step, and a seed generator whose name Keras counts up."""
    return [
        keras.Variable(np.full(shape, value, np.float32), name=name),
        keras.Variable(int(value), dtype="int64", name="iteration"),
        keras.random.SeedGenerator(int(value)).state,
    ]


def values(held):
    return [v.numpy() for v in held]


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(values(first), values(second), strict=True))


def test_nothing_there(tmp_path):
    held = variables(1)
    assert checkpoints.restore(tmp_path / "none", held) is None
    assert same(held, variables(1))


def test_round_trip(tmp_path):
    saved = variables(1)
    checkpoints.save(tmp_path, 10, saved, {"epoch": 2, "history": [{"loss": 0.1}]})
    held = variables(5)
    facts = checkpoints.restore(tmp_path, held)
    assert (facts["epoch"], facts["history"], facts["step"]) == (2, [{"loss": 0.1}], 10)
    assert same(held, saved)
    assert [v.dtype for v in held] == [v.dtype for v in saved]


def test_the_newest_wins_and_old_ones_go(tmp_path):
    for step in (1, 20, 300, 4000):
        checkpoints.save(tmp_path, step, variables(step), {"epoch": step}, keep=2)
    steps = [folder.name for folder in checkpoints.found(tmp_path)]
    assert steps == ["step_000000300", "step_000004000"]
    held = variables()
    assert checkpoints.restore(tmp_path, held)["epoch"] == 4000
    assert same(held, variables(4000))
    assert {path.name for path in tmp_path.iterdir()} == set(steps), "nothing partial is left"


DAMAGE = {
    "flipped_bit": lambda folder: flip(folder / "arrays.safetensors"),
    "cut": lambda folder: cut(folder / "arrays.safetensors"),
    "no_arrays": lambda folder: (folder / "arrays.safetensors").unlink(),
    "no_manifest": lambda folder: (folder / "manifest.json").unlink(),
    "empty_manifest": lambda folder: (folder / "manifest.json").write_text(""),
    "other_manifest": lambda folder: (folder / "manifest.json").write_text("[]"),
    "deep_manifest": lambda folder: (folder / "manifest.json").write_text("[" * 10**5),
}


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_a_damaged_one_is_passed_over_and_all_damaged_is_an_error(tmp_path, damage):
    for step in (1, 2):
        checkpoints.save(tmp_path, step, variables(step), {"epoch": step})
    first, second = checkpoints.found(tmp_path)
    DAMAGE[damage](second)
    held = variables()
    assert checkpoints.restore(tmp_path, held)["epoch"] == 1
    assert same(held, variables(1))
    DAMAGE[damage](first)
    with pytest.raises(checkpoints.CheckpointError, match="received only damaged ones") as error:
        checkpoints.restore(tmp_path, held)
    assert "\n" not in str(error.value)
    assert same(held, variables(1)), "nothing is half restored"


@pytest.mark.parametrize(
    "other",
    [
        variables(shape=(2, 3)),
        variables(name="other"),
        variables()[:2],
        [*variables(), *variables()],
    ],
    ids=["shape", "name", "fewer", "more"],
)
def test_another_model_is_refused_and_its_checkpoint_kept(tmp_path, other):
    checkpoints.save(tmp_path, 7, variables(7), {"epoch": 1})
    before = values(other)
    with pytest.raises(checkpoints.CheckpointError, match="arrays of this model") as error:
        checkpoints.restore(tmp_path, other)
    assert "\n" not in str(error.value)
    for a, b in zip(before, values(other), strict=True):
        np.testing.assert_array_equal(a, b)
    held = variables()
    assert checkpoints.restore(tmp_path, held)["step"] == 7


def rewrite(folder, arrays=None, **changes):
    """Another archive or manifest in the place of one, under checksums that fit."""
    path = folder / "manifest.json"
    manifest = files.read_json(path) | changes
    manifest.pop("checksum")
    if arrays is not None:
        (folder / "arrays.safetensors").write_bytes(packing.pack(arrays))
        manifest["sha256"] = {"arrays.safetensors": files.sha256(folder / "arrays.safetensors")}
    files.write_json(path, manifest | {"checksum": checkpoints._checksum(manifest)})


@pytest.mark.parametrize("which", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["<f8", "<c8", "?", "<i2"])
def test_arrays_of_another_type_change_nothing(tmp_path, dtype, which):
    """Whichever array it is: those before it are not assigned, either."""
    metrics = [keras.Variable(0.5, name="total")]
    checkpoints.save(tmp_path, 7, variables(7), {"epoch": 1}, metrics=metrics)
    (folder,) = checkpoints.found(tmp_path)
    arrays = checkpoints.collect(variables(7), metrics)
    key = list(arrays)[which]
    arrays[key] = np.zeros(arrays[key].shape, dtype)
    rewrite(folder, arrays)
    held = variables(3)
    if which == 3 and np.dtype(dtype).kind in "biuf":  # the metrics' variables are not there yet
        assert checkpoints.restore(tmp_path, held)["metrics"] == [0]
        return
    message = f"{key}.*received" if which < 3 else "expected the arrays of this model"
    with pytest.raises(checkpoints.CheckpointError, match=message) as error:
        checkpoints.restore(tmp_path, held)
    assert "\n" not in str(error.value)
    assert same(held, variables(3))


@pytest.mark.parametrize(
    "changes",
    [
        *({"facts": facts} for facts in (5, None, "epoch", [["epoch", 1]], True)),
        *({"step": step} for step in ("7", 7.0, None, -1, True, [7], {})),
    ],
    ids=str,
)
def test_facts_and_steps_of_another_type_are_damage(tmp_path, changes):
    for step in (1, 2):
        checkpoints.save(tmp_path, step, variables(step), {"epoch": step})
    first, second = checkpoints.found(tmp_path)
    rewrite(second, **changes)
    held = variables()
    assert checkpoints.newest(tmp_path) == 1
    assert checkpoints.restore(tmp_path, held)["epoch"] == 1
    rewrite(first, **changes)
    with pytest.raises(checkpoints.CheckpointError, match="received only damaged ones"):
        checkpoints.restore(tmp_path, held)
    assert same(held, variables(1))


def test_an_array_beyond_the_variables_is_refused(tmp_path):
    checkpoints.save(tmp_path, 7, variables(7), {})
    (folder,) = checkpoints.found(tmp_path)
    arrays = checkpoints.collect(variables(7))
    key = next(iter(arrays))
    rewrite(folder, arrays | {f"{key}_1": arrays[key]})
    with pytest.raises(checkpoints.CheckpointError, match="arrays of this model"):
        checkpoints.restore(tmp_path, variables())


def test_names_that_keras_counts_up_do_not_matter(tmp_path):
    """The second network of a process has other names than in a process of its own.

    Our layers have fixed names; generators, optimisers and models are counted.
    """

    def network():
        images = keras.Input([4])
        outputs = keras.layers.Dropout(0.5)(keras.layers.Dense(3, name="head")(images))
        model = keras.Model(images, outputs)
        model.compile(keras.optimizers.SGD(momentum=0.9))
        model.optimizer.build(model.trainable_variables)
        return [*model.variables, *model.optimizer.variables]

    first, second = network(), network()
    assert [v.path for v in first] != [v.path for v in second]
    checkpoints.save(tmp_path, 1, first, {})
    checkpoints.restore(tmp_path, second)
    assert same(first, second)
