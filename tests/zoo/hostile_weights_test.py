"""Weights files that mean harm, and thousands of damaged ones: rejected, or harmless.

The model has two small layers, so that most bytes of its file are structure and not numbers.
"""

import random
import resource
import tracemalloc

import keras
import numpy as np
import pytest

from s2d_tf.zoo import weights
from tests.zoo import crafted_weights

LITTLE = 2**20
"""Bytes that a rejection may take; the bombs among the crafted files declare far more."""


@pytest.fixture(scope="module")
def model():
    network = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(3, name="b")]
    )
    rng = np.random.default_rng(0)
    for weight in network.weights:
        weight.assign(rng.normal(size=weight.shape))
    return network


@pytest.fixture(scope="module")
def good(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "a.safetensors"
    weights.save(model, path)
    return path.read_bytes()


def test_there_are_forty_of_them():
    assert len(set(crafted_weights.NAMES)) >= 40


@pytest.mark.parametrize("name", crafted_weights.NAMES)
def test_a_crafted_file_is_rejected_and_nothing_changes(name, model, good, tmp_path):
    path = tmp_path / "a.safetensors"
    message = crafted_weights.craft(name, good, path)
    before = [weight.numpy().copy() for weight in model.weights]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    with pytest.raises(weights.WeightsError, match=message) as caught:
        weights.load(model, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 800
    # Neither Python nor the reader itself takes what is declared; the first is counted in bytes.
    assert peak < LITTLE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 16 * LITTLE // 1024
    for expected, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), expected)


def check_mutations(model, good, mutate, count, seed):
    """Every copy is rejected by name or gives the very arrays; returns how many were rejected."""
    expected = {name: weight.numpy() for name, weight in weights.by_name(model).items()}
    rng, reasons = random.Random(seed), []
    for i in range(count):
        data = mutate(good, rng)
        try:
            arrays = weights.parse(data, model, f"copy {i}")
        except weights.WeightsError as error:
            reasons.append(str(error))
            continue
        assert arrays.keys() == expected.keys(), i
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"copy {i}")
    assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
    return len(reasons)


def test_ten_thousand_damaged_copies_are_rejected_or_harmless(model, good, mutate):
    rejected = check_mutations(model, good, mutate, count=10_000, seed=2)
    assert 9000 < rejected <= 10_000
