"""What does not depend on the request is computed once."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.engines import freezing
from s2d_tf.engines.freezing import freeze

SPEC = tf.TensorSpec([None, 3], tf.float32, name="x")


def operations_in(call):
    concrete = tf.function(call).get_concrete_function(SPEC)
    return [node.op for node in concrete.graph.as_graph_def().node]


@pytest.fixture(params=["constants", "variables"])
def large(request, monkeypatch):
    """Whether the network is too large for constants."""
    if request.param == "variables":
        monkeypatch.setattr(freezing, "MAX_CONSTANT_BYTES", 0)
    return request.param == "variables"


def test_draws_and_folded_weights_are_computed_once(large):
    weight = tf.Variable(np.arange(9.0, dtype=np.float32).reshape(3, 3))

    def function(x):
        noise = tf.random.stateless_normal([3, 3], (1, 2))
        return {"y": tf.matmul(x, tf.math.rsqrt(weight + 1.0) * noise)}

    frozen, weights = freeze(function, SPEC)
    call = tf.function(frozen)
    x = tf.constant([[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(call(x)["y"], function(x)["y"], rtol=1e-6)
    used = operations_in(frozen)
    assert used.count("MatMul") == 1
    assert ("ReadVariableOp" in used) == large
    assert not {"StatelessRandomNormalV2", "Rsqrt", "Mul"} & set(used)
    assert [tuple(v.shape) for v in weights] == ([(3, 3)] if large else [])
    # It is a copy: training goes on without changing it.
    before = call(x)["y"].numpy()
    weight.assign_add(tf.ones([3, 3]))
    np.testing.assert_array_equal(call(x)["y"], before)


def test_equal_arrays_are_kept_once(monkeypatch):
    monkeypatch.setattr(freezing, "MAX_CONSTANT_BYTES", 0)
    weight = tf.Variable(tf.ones([3]))
    _, weights = freeze(lambda x: {"y": x * weight + tf.exp(x + weight)}, SPEC)
    assert len(weights) == 1


def test_captured_constants_functions_and_control_flow():
    table = tf.constant([[0.5, 1.5, 2.5]])
    weight = tf.Variable(2.0)

    @tf.function
    def inner(x):
        return x * weight

    def function(x):
        steps = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, inner(y)), [0, x + table])
        return {"y": steps[1], "n": tf.shape(x)[0]}

    frozen, _ = freeze(function, SPEC)
    gc.collect()  # The loop's body has to outlive the function that was traced.
    call = tf.function(frozen)
    x = tf.random.stateless_normal([4, 3], (0, 0))
    np.testing.assert_allclose(call(x)["y"], 8.0 * (x + table), rtol=1e-6)
    assert call(x)["n"] == 4


def test_an_answer_that_does_not_depend_on_the_input_is_refused():
    with pytest.raises(ValueError, match=r"depend on the input, received \['constant'\]"):
        freeze(lambda x: {"y": x + 1.0, "constant": tf.zeros([2])}, SPEC)
