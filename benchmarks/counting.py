"""Multiplications of a network."""

import math


def multiply_adds(backbone):
    """Multiplications of one image's forward pass through a functional network's convolutions."""
    return sum(
        math.prod(layer.output.shape[1:]) * math.prod(layer.kernel.shape[:3])
        for layer in backbone.layers
        if hasattr(layer, "kernel") and len(layer.kernel.shape) == 4
    )
