"""Predictions with all uncertainties in compiled PyTorch.

For a process of its own: PyTorch and TensorFlow in one may crash.
"""

import importlib.util

from benchmarks import networks, pytorch_densenet, pytorch_fast_resnet

FRAMEWORK = "torch"
NUM_CLASSES = 100
NETWORKS = {
    "densenet_bc": lambda depth, growth_rate: pytorch_densenet.build(
        3, NUM_CLASSES, depth, growth_rate
    ),
    "fast_resnet": lambda width: pytorch_fast_resnet.build(NUM_CLASSES, width),
}
"""By the name of the backbone, from its arguments."""


def available():
    return importlib.util.find_spec("torch") is not None


def functions(backbone, arguments, batches):
    """A function for each batch size, compiled for it."""
    import torch
    import torch._inductor.config

    # As one serves with it: batch norms are folded, and weights packed once.
    torch._inductor.config.freezing = True
    network = NETWORKS[backbone](**arguments).to(memory_format=torch.channels_last).eval()
    predict = torch.compile(lambda pixels: uncertainties(network(pixels)), dynamic=False)
    images, _ = networks.random_images(max(batches))

    def call(batch):
        # Channels last as it is.
        pixels = torch.from_numpy(images[:batch]).permute(0, 3, 1, 2).float() / 255.0
        with torch.inference_mode():
            return [value.numpy() for value in predict(pixels)]

    return {str(batch): (lambda batch=batch: call(batch)) for batch in batches}


def uncertainties(logits):
    """What `s2d_tf.uncertainty` gives for one Dirichlet, as one writes it."""
    import torch

    probs = torch.softmax(logits, dim=-1)
    concentrations = torch.exp(logits)
    total_concentration = concentrations.sum(dim=-1, keepdim=True)
    total = -(probs * torch.log_softmax(logits, dim=-1)).sum(dim=-1)
    digamma = torch.special.digamma
    data = (probs * (digamma(total_concentration + 1) - digamma(concentrations + 1))).sum(dim=-1)
    return probs, probs.argmax(dim=-1), probs.amax(dim=-1), total, data, total - data
