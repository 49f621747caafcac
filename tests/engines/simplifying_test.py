"""A simplified network answers as the trained one does, with fewer operations."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import backbones, models
from s2d_tf.engines.freezing import freeze

SPEC = tf.TensorSpec([None, 8, 8, 3], tf.float32, name="images")
IMAGES = np.random.default_rng(0).normal(size=[5, 8, 8, 3]).astype(np.float32)


def shake(model):
    """Moves every weight; no two channels have the same statistics."""
    random = np.random.default_rng(1)
    for weight in model.weights:
        if "seed" in weight.path:
            continue
        noise = random.normal(size=weight.shape)
        positive = "variance" in weight.path
        weight.assign(0.5 + np.abs(noise) if positive else np.asarray(weight) + 0.2 * noise)


def simplified(function, portable=False, spec=SPEC):
    """The answer of a simplified function, and how many of each operation it has."""
    call, _ = freeze(function, spec, portable=portable)
    concrete = tf.function(call).get_concrete_function(spec)
    used = collections.Counter(node.op for node in concrete.graph.as_graph_def().node)
    return tf.function(call), used


BACKBONES = {
    # All batch norms follow a convolution, some behind a pooling.
    "fast": (lambda: backbones.fast_resnet((8, 8, 3), width=0.125), 0),
    # The first of each unit stays, since the sum before it goes on to the next unit too; the last.
    "wide": (lambda: backbones.wide_resnet((8, 8, 3), depth=16, width=1), 7),
    # One or two maps of each unit and transition are normalized before their convolution; the last.
    "dense": (lambda: backbones.densenet_bc((8, 8, 3), depth=16, growth_rate=6), 14),
}


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("name", sorted(BACKBONES))
def test_backbones(name, portable):
    build, remaining = BACKBONES[name]
    backbone = build()
    shake(backbone)
    expected = backbone(IMAGES, training=False)
    call, used = simplified(lambda x: {"y": backbone(x, training=False)}, portable)
    found = call(IMAGES)["y"]
    scale = float(np.abs(expected).max())
    assert scale > 1e-3
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale)
    assert used["FusedBatchNormV3"] == remaining
    assert not {"Identity", "IdentityN", "StopGradient"} & {op for op in used if used[op] > 1}
    assert not (portable and used["Reshape"])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_negative_scale_does_not_pass_a_maximum(sign):
    kernel = tf.random.stateless_normal([3, 3, 3, 4], (0, 0))

    def function(x):
        pooled = tf.nn.max_pool2d(tf.nn.conv2d(x, kernel, 1, "SAME"), 2, 2, "SAME")
        return {"y": pooled * tf.constant([1.0, 2.0, sign, 3.0]) + 0.5}

    call, used = simplified(function)
    np.testing.assert_allclose(call(IMAGES)["y"], function(IMAGES)["y"], rtol=1e-5, atol=1e-5)
    assert used["Mul"] == (0 if sign > 0 else 1)
    assert used["BiasAdd"] == (1 if sign > 0 else 0)


def test_what_others_use_is_not_scaled():
    kernel = tf.random.stateless_normal([1, 1, 3, 4], (0, 0))

    def function(x):
        found = tf.nn.conv2d(x, kernel, 1, "SAME")
        return {"y": found * 2.0, "same": tf.nn.relu(found)}

    call, _ = simplified(function)
    for name, value in function(IMAGES).items():
        np.testing.assert_allclose(call(IMAGES)[name], value, rtol=1e-6, atol=1e-6)


def test_sums_of_convolutions_share_one_bias():
    kernels = [tf.random.stateless_normal([1, 1, 3, 4], (0, i)) for i in range(2)]
    scale, shift = tf.constant([1.0, -2.0, 3.0, 0.0]), tf.constant([4.0, 3.0, 2.0, 1.0])

    def function(x):
        total = tf.add(*(tf.nn.conv2d(x, kernel, 1, "SAME") for kernel in kernels))
        return {"y": tf.nn.relu(total * scale + shift)}

    call, used = simplified(function)
    np.testing.assert_allclose(call(IMAGES)["y"], function(IMAGES)["y"], rtol=1e-5, atol=1e-5)
    assert (used["Conv2D"], used["BiasAdd"], used["Mul"], used["AddV2"]) == (2, 1, 0, 1)


def test_monte_carlo_masks_share_what_comes_before_them():
    backbone = backbones.wide_resnet((8, 8, 3), depth=10, width=1, dropout=0.5, seed=0)
    model = models.Classifier(backbone, 3, seed=0)
    shake(model)
    drawn = models.MonteCarloDropout(model, num_samples=3)
    call, used = simplified(lambda x: {"y": drawn.member_logits(x)})
    np.testing.assert_allclose(call(IMAGES)["y"], drawn.member_logits(IMAGES), rtol=1e-4, atol=1e-5)
    # The stem and the first convolution once, the other seven for each mask.
    assert used["Conv2D"] == 2 + 3 * 7


def test_training_statistics_and_unknown_kernels_are_left_alone():
    norm = keras.layers.BatchNormalization()
    norm.build((None, 8, 8, 3))
    kernel = tf.random.stateless_normal([1, 1, 3, 3], (0, 0))

    def function(x):
        found = tf.nn.conv2d(x, kernel * tf.reduce_mean(x), 1, "SAME")
        return {"y": norm(found, training=False)}

    call, _ = simplified(function)
    np.testing.assert_allclose(call(IMAGES)["y"], function(IMAGES)["y"], rtol=1e-5, atol=1e-5)
