"""XLA inside a SavedModel: for listed batch sizes, with the same answers, never by itself."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import cli, export, models
from s2d_tf.serving.servable import Servable


@pytest.fixture(scope="module")
def model():
    backbone = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, kernel_initializer=keras.initializers.HeNormal(0)),
            keras.layers.ReLU(),
            keras.layers.Flatten(),
        ]
    )
    return models.S2DClassifier(backbone, 3, seed=0, input_range=(0, 255), stddev=[64.0])


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "compiled"
    return export.save(model, folder, xla_batch_sizes=[2, 1])


def functions(path):
    (meta_graph,) = export.check(path).meta_graphs
    return meta_graph.graph_def.library.function


def compiled(path):
    names = "_XlaMustCompile"
    return [each for each in functions(path) if names in each.attr and each.attr[names].b]


def test_answers_are_those_of_the_model_whatever_the_size(model, path, images):
    signatures = tf.saved_model.load(str(path)).signatures
    expected = model.predict_uncertainty(images, engine="tensorflow")
    for size in (1, 2, 3, 7):
        answers = signatures["serving_default"](images=tf.constant(images[:size]))
        for name, key in (("probabilities", "probs"), ("knowledge_uncertainty", "knowledge")):
            np.testing.assert_allclose(answers[name], expected[key][:size], rtol=1e-5, atol=2e-6)
        pixels = tf.constant(images[:size], tf.float32)
        np.testing.assert_array_equal(signatures["serve_float"](images=pixels)["label"],
                                      answers["label"])  # fmt: skip
    files = [tf.io.encode_png(image).numpy() for image in images[:2]]
    encoded = signatures["serve_encoded"](image_bytes=tf.constant(files))
    np.testing.assert_allclose(encoded["total_uncertainty"], expected["total"][:2], rtol=1e-5)


def test_one_function_is_compiled_and_calls_the_plain_one(path):
    (only,) = compiled(path)
    assert {node.op for node in only.node_def} <= {"Identity", "PartitionedCall", "NoOp"}
    # The weights are in the file once.
    convolutions = [
        node for each in functions(path) for node in each.node_def if node.op == "Conv2D"
    ]
    assert len(convolutions) == 1
    (sizes,) = (
        tf.make_ndarray(node.attr["value"].tensor).tolist()
        for each in functions(path)
        for node in each.node_def
        if node.op == "Const" and tf.make_ndarray(node.attr["value"].tensor).tolist() == [1, 2]
    )
    assert sizes == [1, 2]


def test_nothing_is_compiled_unless_asked_for(exports):
    assert not compiled(exports("s2d").path)


def test_warm_up_has_the_compiled_sizes(path):
    records = tf.data.TFRecordDataset(str(path / "assets.extra" / "tf_serving_warmup_requests"))
    assert len(list(records)) == 4 * len({1, 2, 8, 32})
    assert json.loads((path / "assets" / "model.json").read_text())["xla_batch_sizes"] == [1, 2]


def test_an_answer_that_is_no_number_is_never_sent(tmp_path, overflowing):
    path = export.save(overflowing, tmp_path / "model", xla_batch_sizes=[2])
    loaded = tf.saved_model.load(str(path))
    for size in (2, 3):
        pixels = np.zeros([size, 8, 8, 2], np.uint8)
        assert np.isfinite(
            loaded.signatures["serving_default"](tf.constant(pixels))["confidence"]
        ).all()
        pixels[1] = 255
        with pytest.raises(tf.errors.InvalidArgumentError, match="their answer is no number"):
            loaded.signatures["serving_default"](tf.constant(pixels))


def test_our_server_takes_it(path, images, model):
    answers = Servable(path).run("serving_default", {"images": images[:2]})
    expected = model.predict_uncertainty(images[:2])
    np.testing.assert_allclose(answers["probabilities"], expected["probs"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [[0], [-1, 2], [1.5], list(range(1, 10))])
def test_sizes_that_cannot_be_compiled_for(model, tmp_path, sizes):
    with pytest.raises(ValueError, match=r"xla_batch_sizes: expected up to 8 positive whole"):
        export.save(model, tmp_path / "model", xla_batch_sizes=sizes)
    assert not list(tmp_path.glob("model/*"))


def test_inputs_of_free_size_are_not_compiled(tmp_path):
    backbone = keras.Sequential(
        [keras.Input((None, None, 1)), keras.layers.GlobalAveragePooling2D()]
    )
    model = models.S2DClassifier(backbone, 3, seed=0)
    with pytest.raises(ValueError, match="inputs of free size, which XLA does not compile"):
        export.save(model, tmp_path / "model", xla_batch_sizes=[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--xla_batch_sizes=1,x"], "--xla_batch_sizes: expected whole numbers such as 1,8,32"),
        (["--xla_batch_sizes=1", "--format=onnx"], "--xla_batch_sizes: expected none with"),
        (["--precision=int8"], "--precision: expected none with --format=saved_model"),
        (["--calibration=DIR", "--format=litert"], "--calibration: expected none with"),
    ],
)
@pytest.mark.usefixtures("leave_no_flags")
def test_flags_of_other_formats_are_rejected(capsys, tmp_path, arguments, message):
    assert cli.main(["export", "wrn_10_2_s2.s2d.digits", str(tmp_path / "x"), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("leave_no_flags")
def test_the_command(capsys, tmp_path):
    arguments = ["wrn_10_2_s2.s2d.digits", str(tmp_path / "digits"), "--xla_batch_sizes=4,1"]
    assert cli.main(["export", *arguments]) == 0
    folder = pathlib.Path(capsys.readouterr().out.strip())
    description = json.loads((folder / "assets" / "model.json").read_text())
    assert description["xla_batch_sizes"] == [1, 4]
    assert len(compiled(folder)) == 1
