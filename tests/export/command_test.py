"""`export.save`'s checks and the command `s2d export`."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import cli, export, models, serving, zoo
from s2d_tf.export import signatures as signatures_lib
from s2d_tf.zoo import entries, networks, recipes, weights

pytestmark = pytest.mark.usefixtures("leave_no_flags")


@pytest.fixture(scope="module")
def tiny():
    backbone = keras.Sequential([keras.Input((8, 8, 2)), keras.layers.Flatten()])
    return models.S2DClassifier(backbone, 3, seed=0, input_range=(0, 255))


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A run directory as training leaves it, with random weights."""
    directory = tmp_path_factory.mktemp("runs") / "s2d"
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    recipe = recipe.replace(arguments={"depth": 10, "width": 1, "stem_stride": 2})
    run = zoo.Run(directory, recipe, seed=3).write()
    weights.save(networks.build_network(recipe, 3), run.weights())
    return run


def test_a_run_is_exported_with_its_facts(finished_run, tmp_path, capsys):
    assert cli.main(["export", str(finished_run.directory), str(tmp_path / "digits")]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert path == tmp_path / "digits" / "1"
    description = json.loads((path / "assets" / "model.json").read_text())
    assert description["metadata"]["name"] == "wrn_10_2_s2.s2d.digits"
    assert description["metadata"]["seed"] == 3
    assert description["class_names"] == list("01234567")
    images = np.random.RandomState(0).randint(0, 256, [3, 8, 8, 1]).astype(np.uint8)
    answers = tf.saved_model.load(str(path)).signatures["serving_default"](tf.constant(images))
    expected = finished_run.predictor().predict_uncertainty(images)
    np.testing.assert_allclose(answers["probabilities"], expected["probs"], rtol=1e-5, atol=1e-6)


def test_an_entry_is_exported_with_its_class_names_and_record(tmp_path, capsys):
    entry = zoo.entry("wrn_10_2_s2.s2d.digits")
    assert cli.main(["export", entry.name, str(tmp_path / "digits")]) == 0
    assets = pathlib.Path(capsys.readouterr().out.strip()) / "assets"
    assert (assets / "classes.txt").read_text().splitlines() == list("01234567")
    description = json.loads((assets / "model.json").read_text())
    record = json.dumps(description["metadata"]["entry"]).encode()
    assert entries.read(record, "model.json") == entry.record


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one"], "`s2d export NAME_OR_RUN "),
        (["wrn_10_2_s2.s2d.digit", "DIR/x"], "near: wrn_10_2_s2.s2d.digits"),
        (["DIR", "DIR/x"], "DIR: expected a run directory with a recipe.json, or an entry's with"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(capsys, tmp_path, arguments, message):
    arguments = [argument.replace("DIR", str(tmp_path)) for argument in arguments]
    assert cli.main(["export", *arguments]) == 1
    command, _, error = capsys.readouterr().err.splitlines()[-1].partition(": error: ")
    assert (command, message.replace("DIR", str(tmp_path)) in error) == ("s2d export", True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"class_names": ["a", "b"]}, "one line of text for each of 3 classes, received 2"),
        ({"class_names": ["a", "b", "c\nd"]}, "one line of text for each of 3 classes"),
        ({"metadata": {"value": object()}}, "metadata: expected a dict that JSON can hold"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(tiny, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        export.save(tiny, tmp_path / "model", **arguments)
    with pytest.raises(ValueError, match=r"directory: expected a folder of versions, .*save_onnx"):
        export.save(tiny, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_an_answer_that_is_no_number_is_never_sent(tmp_path):
    backbone = keras.Sequential([keras.Input((8, 8, 2)), keras.layers.Flatten()])
    model = models.S2DClassifier(backbone, 3, seed=0, input_range=(0, 255))
    kernel, bias = model.head.get_weights()
    kernel[..., 5, 1] = np.finfo(np.float32).max  # with which one pixel overflows
    model.head.set_weights([kernel, bias])
    loaded = tf.saved_model.load(str(export.save(model, tmp_path / "model")))
    for name, dtype in (("serving_default", np.uint8), ("serve_float", np.float32)):
        pixels = np.zeros([2, 8, 8, 2], dtype)
        assert np.isfinite(loaded.signatures[name](tf.constant(pixels))["confidence"]).all()
        pixels[1] = 255
        with pytest.raises(tf.errors.InvalidArgumentError, match="their answer is not a number"):
            loaded.signatures[name](tf.constant(pixels))


def test_an_operation_outside_of_the_list_is_written_and_read_with_trust(tmp_path):
    odd = keras.layers.Lambda(lambda x: tf.math.betainc(0.5, 0.5, tf.sigmoid(x)))
    backbone = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), odd])
    model = models.Classifier(backbone, 3, seed=0)
    path = export.save(model, tmp_path / "model")
    for read in (export.load, serving.Servables):
        with pytest.raises(ValueError, match=r"Betainc in serving\. .*trust=True .*--trust"):
            read(path.parent)
    images = np.random.RandomState(0).normal(size=[3, 8, 8, 1]).astype(np.float32)
    served = export.load(path, trust=True).signatures["serving_default"]
    answers = served(images=tf.constant(images))
    expected = model.predict_uncertainty(images)
    np.testing.assert_allclose(answers["probabilities"], expected["probs"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), lambda path: path.unlink()])
def test_files_that_are_not_those_that_were_exported_are_rejected(tiny, tmp_path, damage):
    path = export.save(tiny, tmp_path / "model", class_names="abc")
    version = export.load(path.parent)
    assert version.class_names == tuple("abc")
    assert set(version.description["files"]) > {"saved_model.pb", "assets/classes.txt"}
    damage(path / "assets" / "classes.txt")
    with pytest.raises(ValueError, match=r"files that were exported, .* \['assets/classes.txt'\]"):
        export.load(path)


def test_a_model_too_large_for_one_message_keeps_its_arrays_in_variables(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr(signatures_lib, "MAX_CONSTANT_BYTES", 100)
    path = export.save(tiny, tmp_path)
    assert [each.name for each in (path / "assets").iterdir()] == ["model.json"]  # no class names
    (stored,) = (path / "variables").glob("*.data-*")
    assert stored.stat().st_size > tiny.head.kernel.numpy().nbytes
    images = np.random.RandomState(0).randint(0, 256, [3, 8, 8, 2]).astype(np.uint8)
    signatures = export.load(path).signatures
    assert sorted(signatures) == ["serve_float", "serving_default"]  # No file has two channels.
    found = signatures["serving_default"](images=tf.constant(images))
    expected = tiny.predict_uncertainty(images)
    np.testing.assert_allclose(found["probabilities"], expected["probs"], rtol=1e-5, atol=1e-6)
