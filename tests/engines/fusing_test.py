"""Runtimes run a scale, a shift and an activation as one kernel, and so a convolution with both.

What is looked at are the kernels that run, not the graph that they were made from.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import test_util

from benchmarks import profile
from s2d_tf import backbones
from s2d_tf.engines import converting, runtimes
from s2d_tf.engines.freezing import freeze

SPEC = tf.TensorSpec([None, 8, 8, 3], tf.float32, name="images")
IMAGES = np.random.default_rng(0).normal(size=[2, 8, 8, 3]).astype(np.float32)


@pytest.fixture(scope="module")
def backbone():
    """Normalizes before its convolutions; of 7 batch norms no convolution takes the scale in."""
    found = backbones.wide_resnet((8, 8, 3), depth=16, width=1)
    random = np.random.default_rng(1)
    for weight in found.weights:
        part = weight.path.rpartition("/")[2]
        if part in ("gamma", "beta", "moving_mean", "moving_variance"):
            weight.assign(random.uniform(0.5, 1.5, weight.shape))
    return found


def test_tensorflow(backbone):
    if not test_util.IsMklEnabled():
        pytest.skip("TensorFlow fuses batch norm with its activation only with oneDNN")
    call, _ = freeze(lambda x: {"y": backbone(x, training=False)}, SPEC)
    run = runtimes.tensorflow(call, [SPEC])
    run([IMAGES])
    kernels = profile.operations(lambda: run([IMAGES]), top=100)
    assert {"FusedBatchNormEx", "PadWithFusedConv2D"} <= set(kernels)
    assert not {"FusedBatchNormV3", "FusedBatchNorm", "Relu", "BiasAdd", "Mul"} & set(kernels)


def test_onnx_runtime(backbone, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra s2d_tf[onnx]")
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    import onnx

    call, _ = freeze(lambda x: {"y": backbone(x, training=False)}, SPEC, portable=True)
    content = converting.convert_to_onnx(tf.function(call, input_signature=[SPEC], autograph=False))
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(str(tmp_path / "optimized.onnx")).graph.node
    kernels = [node.op_type for node in nodes]
    assert not {"BatchNormalization", "Relu", "Mul"} & set(kernels)
    # The 7 batch norms are convolutions of one pixel and one channel now, with an activation.
    written = [node for node in onnx.load_from_string(content).graph.node if node.op_type == "Conv"]
    assert kernels.count("Conv") == len(written) + 7
