"""The precision of training: what is chosen, and what the finished run is."""

import keras
import numpy as np
import pytest

from s2d_tf import files
from s2d_tf.trainers import training
from s2d_tf.trainers.training import checkpoints, strategies
from s2d_tf.zoo import recipes


@pytest.mark.parametrize(
    ("wanted", "processor", "chosen"),
    [
        ("float32", True, "float32"),
        ("auto", True, "bfloat16"),
        ("auto", False, "float32"),
        ("bfloat16", True, "bfloat16"),
    ],
)
def test_auto_follows_the_processor(monkeypatch, wanted, processor, chosen):
    monkeypatch.setattr(strategies, "multiplies_bfloat16", lambda: processor)
    assert strategies.choose_precision(wanted) == chosen


def test_what_cannot_be_had_is_rejected(monkeypatch):
    monkeypatch.setattr(strategies, "multiplies_bfloat16", lambda: False)
    with pytest.raises(ValueError, match=r"AVX512-BF16.*Use precision float32"):
        strategies.choose_precision("bfloat16")
    with pytest.raises(ValueError, match=r"precision: expected one of .*'half'"):
        strategies.choose_precision("half")


@pytest.mark.skipif(not strategies.multiplies_bfloat16(), reason="no instructions for bfloat16")
def test_a_run_in_bfloat16_ends_in_float32_and_continues_only_in_it(tmp_path):
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits").replace(
        arguments={"depth": 10, "width": 1}, training={"epochs": 1}
    )
    settings = training.Settings(strategy="one_device", verbose=0, precision="bfloat16")
    run = training.train(recipe, tmp_path / "run", 0, settings)
    assert files.read_json(run.directory / "summary.json")["precision"] == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"
    predictor = run.predictor()
    assert {v.dtype for v in predictor.backbone.weights} == {"float32"}
    answer = predictor.predict_uncertainty(np.zeros((2, 8, 8, 1), np.uint8))
    assert all(np.isfinite(values).all() for values in answer.values())
    run.weights().unlink()
    with pytest.raises(checkpoints.CheckpointError, match="precision float32, received bfloat16"):
        training.train(recipe, run.directory, 0, training.Settings(verbose=0))
