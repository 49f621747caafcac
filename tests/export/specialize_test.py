"""What does not depend on the request is computed once."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.export.specialize import specialize

SPEC = tf.TensorSpec([None, 3], tf.float32, name="x")


def operations_in(call):
    concrete = tf.function(call).get_concrete_function(SPEC)
    return [node.op for node in concrete.graph.as_graph_def().node]


def test_draws_and_folded_weights_become_variables():
    weight = tf.Variable(np.arange(9.0, dtype=np.float32).reshape(3, 3))

    def function(x):
        noise = tf.random.stateless_normal([3, 3], (1, 2))
        return {"y": tf.matmul(x, tf.math.rsqrt(weight + 1.0) * noise)}

    specialized, weights = specialize(function, SPEC)
    call = tf.function(specialized)
    x = tf.constant([[1.0, 2.0, 3.0]])
    np.testing.assert_allclose(call(x)["y"], function(x)["y"], rtol=1e-6)
    used = operations_in(specialized)
    assert used.count("MatMul") == 1
    assert not {"StatelessRandomNormalV2", "Rsqrt", "Mul"} & set(used)
    assert [tuple(v.shape) for v in weights] == [(3, 3)]
    # It is a copy: training goes on without changing it.
    before = call(x)["y"].numpy()
    weight.assign_add(tf.ones([3, 3]))
    np.testing.assert_array_equal(call(x)["y"], before)


def test_equal_arrays_are_kept_once():
    weight = tf.Variable(tf.ones([3]))
    _, weights = specialize(lambda x: {"y": x * weight + tf.exp(x + weight)}, SPEC)
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

    specialized, _ = specialize(function, SPEC)
    gc.collect()  # The loop's body has to outlive the function that was traced.
    call = tf.function(specialized)
    x = tf.random.stateless_normal([4, 3], (0, 0))
    np.testing.assert_allclose(call(x)["y"], 8.0 * (x + table), rtol=1e-6)
    assert call(x)["n"] == 4


def test_an_answer_that_does_not_depend_on_the_input_is_refused():
    with pytest.raises(ValueError, match=r"depend on the input, received \['constant'\]"):
        specialize(lambda x: {"y": x + 1.0, "constant": tf.zeros([2])}, SPEC)
