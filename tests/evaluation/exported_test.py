"""Exported models as something to evaluate: the same scores as the model they were made of."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data, evaluation, export, models
from s2d_tf.evaluation import answers, exported
from s2d_tf.export import reading


@pytest.fixture(scope="module")
def digits():
    images, labels = data.load_arrays("digits", "test")
    return images[:70], labels[:70]


@pytest.fixture(scope="module")
def saved(network, tmp_path_factory):
    """An S2D model and a plain one, with their exports."""
    folder = tmp_path_factory.mktemp("exported")
    made = {}
    for cls in (models.S2DClassifier, models.Classifier):
        model = network(cls)
        made[cls] = model, export.save(model, folder / cls.__name__, list("abcdefgh"))
    return made


@pytest.mark.parametrize("cls", [models.S2DClassifier, models.Classifier])
def test_scores_are_those_of_the_model(saved, digits, cls):
    model, folder = saved[cls]
    own = exported.ExportedModel(folder)
    assert (own.num_classes, own.image_shape, own.class_names) == (8, (8, 8, 1), tuple("abcdefgh"))
    scored = own.score(*digits, batch_size=32)
    expected = answers.score_model(model, *digits)
    assert scored.scores.keys() == expected.scores.keys()
    np.testing.assert_allclose(scored.log_probs, expected.log_probs, atol=1e-4)
    for name, values in expected.scores.items():
        np.testing.assert_allclose(scored.scores[name], values, atol=1e-4)
    np.testing.assert_array_equal(scored.labels, digits[1])


def test_under_shift_like_any_model(saved, digits):
    model, folder = saved[models.S2DClassifier]
    images, labels = digits
    conditions = {"clean": digits, "dark_1": (images // 2, labels), "dark_2": (images // 4, labels)}
    found = evaluation.evaluate_shift(evaluation.ExportedModel(folder), conditions).metrics()
    expected = evaluation.evaluate_shift(model, conditions).metrics()
    assert found == pytest.approx(expected, abs=1e-3)


def test_a_folder_of_versions_means_the_newest(saved):
    model, folder = saved[models.Classifier]
    newer = export.save(model, folder.parent)
    assert reading.version_folder(folder) == folder
    assert reading.version_folder(folder.parent) == newer
    assert reading.is_exported(folder.parent)
    # The same weights in other files are another export.
    first, second = (exported.ExportedModel(each).sha256 for each in (folder, newer))
    assert first != second
    assert exported.ExportedModel(folder).sha256 == first


def test_what_is_no_exported_model(tmp_path):
    assert not reading.is_exported(tmp_path)
    assert not reading.is_exported("wrn_10_2_s2.s2d.digits")
    with pytest.raises(ValueError, match="expected an exported model, received a folder without"):
        exported.ExportedModel(tmp_path)


def test_only_probabilities_are_needed(tmp_path, digits):
    """A model of other people: the total uncertainty is the entropy."""

    class Theirs(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 8, 8, 1], tf.uint8, "pixels")])
        def serve(self, pixels):
            logits = tf.reduce_mean(tf.cast(pixels, tf.float32), axis=[2, 3]) / 50.0
            return {"probabilities": tf.nn.softmax(logits)}

    theirs = Theirs()
    tf.saved_model.save(theirs, str(tmp_path), signatures={"serving_default": theirs.serve})
    scored = exported.ExportedModel(tmp_path).score(*digits)
    probs = theirs.serve(tf.constant(digits[0]))["probabilities"].numpy().astype(float)
    np.testing.assert_allclose(scored.scores["total"], -(probs * np.log(probs)).sum(-1), atol=1e-5)
    assert set(scored.scores) == {"confidence", "total"}


def test_other_outputs(tmp_path):
    class Theirs(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
        def serve(self, x):
            return {"scores": x * 2.0}

    theirs = Theirs()
    tf.saved_model.save(theirs, str(tmp_path), signatures={"serving_default": theirs.serve})
    with pytest.raises(ValueError, match=r"output 'probabilities', received .*\['scores'\]"):
        exported.ExportedModel(tmp_path)
