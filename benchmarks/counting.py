"""Multiplications and bytes of a network, and what a device of known rates would need for them."""

import dataclasses
import math

BYTES = 4  # float32


@dataclasses.dataclass(frozen=True)
class Device:
    """Peak rates and the share of them that is reached.

    The shares are assumptions, not measurements: half the peak is what well-tuned float32
    convolutions reach, and 0.7 what a copy of memory reaches.
    """

    name: str
    flops: float
    bandwidth: float
    flops_share: float = 0.5
    bandwidth_share: float = 0.7


V100 = Device("V100-class GPU (15.7 TFLOP/s float32, 900 GB/s)", 15.7e12, 900e9)


@dataclasses.dataclass(frozen=True)
class Work:
    """Of one layer and one image, forward."""

    multiply_adds: int
    values_read: int
    values_written: int
    values_kept: int  # for the backward pass


def layer_work(layer):
    """`Work` of a layer of a functional network."""
    import keras

    read = sum(math.prod(tensor.shape[1:]) for tensor in keras.tree.flatten(layer.input))
    shape = layer.output.shape[1:]
    written = math.prod(shape)
    kind = type(layer).__name__
    multiply_adds = 0
    if kind in ("Conv2D", "NormalizedConv2D", "PatchWhitening"):
        height, width, filters = shape
        multiply_adds = height * width * filters * math.prod(layer.kernel.shape[:3])
    # Batch norm keeps its input, which is the output of another layer; ReLU's backward pass needs
    # its output only.
    kept = 0 if kind in ("InputLayer", "BatchNormalization") else written
    return Work(multiply_adds, 0 if kind == "InputLayer" else read, written, kept)


def network_work(backbone):
    """`Work` of each layer of a functional network."""
    return [layer_work(layer) for layer in backbone.layers]


def multiply_adds(backbone):
    """Of one image's forward pass."""
    return sum(work.multiply_adds for work in network_work(backbone))


def step_seconds(backbone, batch, device):
    """A training step: each layer takes the longer of its arithmetic and its memory traffic.

    The backward pass has twice the multiplications (for the inputs and for the weights) and twice
    the traffic of the forward pass.
    """
    return 3.0 * sum(_seconds(work, batch, device) for work in network_work(backbone))


def forward_seconds(backbone, batch, device):
    """A forward pass."""
    return sum(_seconds(work, batch, device) for work in network_work(backbone))


def training_bytes(backbone, parameters, batch):
    """Activations kept for the backward pass, and weights with gradients and momentum."""
    kept = sum(work.values_kept for work in network_work(backbone))
    return BYTES * (batch * kept + 3 * parameters)


def _seconds(work, batch, device):
    arithmetic = 2.0 * batch * work.multiply_adds / (device.flops * device.flops_share)
    traffic = BYTES * batch * (work.values_read + work.values_written)
    return max(arithmetic, traffic / (device.bandwidth * device.bandwidth_share))
