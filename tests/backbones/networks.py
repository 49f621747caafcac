"""What the tests of the published networks share: their graphs, and their layers in NumPy."""

import keras
import numpy as np
from scipy import signal


def parents_of(model):
    """Layer name -> names of the layers that feed it."""
    return {
        layer["name"]: [
            tensor["config"]["keras_history"][0]
            for argument in layer["inbound_nodes"][0]["args"]
            for tensor in (argument if isinstance(argument, list) else [argument])
        ]
        for layer in model.get_config()["layers"]
        if layer["inbound_nodes"]
    }


def _conv(image, kernel, stride=1):
    """Cross-correlation of one image [H, W, C] with [k, k, C, F], zeros around, like torch."""
    pad = kernel.shape[0] // 2
    image = np.pad(image, [(pad, pad), (pad, pad), (0, 0)])
    maps = [
        sum(
            signal.correlate2d(image[..., c], kernel[..., c, f], mode="valid")
            for c in range(kernel.shape[2])
        )
        for f in range(kernel.shape[3])
    ]
    return np.stack(maps, axis=-1)[::stride, ::stride]


def layers_in_numpy(weights):
    """The convolution and the batch norm with ReLU of weights by path."""

    def conv(x, name, stride=1):
        return _conv(x, weights[f"{name}/kernel"], stride)

    def norm_relu(x, name):
        scale = weights[f"{name}/gamma"] / np.sqrt(weights[f"{name}/moving_variance"] + 1e-5)
        x = (x - weights[f"{name}/moving_mean"]) * scale + weights[f"{name}/beta"]
        return np.maximum(x, 0.0)

    return conv, norm_relu


def check_equals_numpy(model, oracle, depth, stem_stride):
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
    weights = {weight.path: weight.numpy().astype("float64") for weight in model.weights}
    images = rng.normal(size=(2, *model.input_shape[1:]))
    expected = [oracle(image, weights, depth, stem_stride) for image in images]
    received = model(images.astype("float32"), training=False)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-4)


def check_normal_kernels(model, fan):
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            kernel = layer.kernel.numpy()
            standard = kernel / np.sqrt(2.0 / fan(*kernel.shape))
            # Five standard errors; the tail beyond 2.5 (1.24%) is what truncation would remove.
            assert abs(standard.mean()) < 5 / np.sqrt(kernel.size), layer.name
            assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * kernel.size), layer.name
            if kernel.size > 10_000:
                assert 0.009 < np.mean(np.abs(standard) > 2.5) < 0.016, layer.name
            assert not layer.use_bias
