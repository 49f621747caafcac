"""Shares of operations in a compiled function."""

import pytest
import tensorflow as tf

from benchmarks import profile


def test_the_expensive_operation_leads():
    x = tf.random.stateless_normal([200, 200], (0, 0))
    function = tf.function(lambda: tf.reduce_sum(tf.linalg.svd(x, compute_uv=False)) + 1.0)
    function()
    shares = profile.operations(lambda: function().numpy())
    assert next(iter(shares)) == "Svd"
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("event", "operation"),
    [
        ("a/b/Conv2D:Conv2D", "Conv2D"),
        ("a:_MklNativeConv2DBackpropFilter", "Conv2DBackpropFilter"),
        ("a:_FusedConv2D", "FusedConv2D"),
        ("EagerLocalExecute: __inference_step_7600", None),
        ("ParallelFor", None),
    ],
)
def test_events_that_are_operations(event, operation):
    found = profile._OPERATION.match(event)
    assert (found and found.group(1)) == operation
