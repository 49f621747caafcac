"""The fast residual network as one writes it in PyTorch.

For a process of its own: PyTorch and TensorFlow in one may crash.
"""

import contextlib

import numpy as np

from benchmarks import networks

FRAMEWORK = "torch"

# As in `s2d_tf.backbones.fast_resnet`, which cannot be imported beside PyTorch.
GROUP_FILTERS = (64, 256, 768)
GROUPS = ((3, (1, 1), 64), (3, (3, 1), 192), (2, (3, 3), 512))
FEATURE_SCALE = 1.25 / 9


def build(num_classes, width=1.0, channels=3):
    """The network with its head, for images of at least 14 pixels, as a `torch.nn.Module`."""
    import torch
    from torch import nn

    def conv_norm_silu(inputs, filters, kernel_size, pool=False):
        conv = nn.Conv2d(inputs, filters, kernel_size, padding=kernel_size % 2 * (kernel_size // 2))
        conv.register_parameter("bias", None)
        norm = nn.BatchNorm2d(filters, eps=1e-5, momentum=0.4)
        norm.weight.requires_grad_(False)
        return nn.Sequential(conv, nn.MaxPool2d(2) if pool else nn.Identity(), norm, nn.SiLU())

    class FastResNet(nn.Module):
        def __init__(self):
            super().__init__()
            inputs = 8 * channels
            self.stem = nn.Conv2d(channels, inputs, 2, bias=False)
            self.stem.weight.requires_grad_(False)
            self.scopes = nn.ModuleDict()
            for number, (kernel_size, pair, inner) in enumerate(GROUPS, start=1):
                filters, inner = round(GROUP_FILTERS[number - 1] * width), round(inner * width)
                scope = f"group{number}"
                self.scopes[scope] = conv_norm_silu(inputs, filters, kernel_size, pool=True)
                self.scopes[f"{scope}_pair1"] = conv_norm_silu(filters, inner, pair[0])
                self.scopes[f"{scope}_pair2"] = conv_norm_silu(inner, filters, pair[1])
                inputs = filters
            self.head = nn.Linear(inputs, num_classes)

        def forward(self, x):
            x = nn.functional.silu(self.stem(x))
            for number in range(1, len(GROUPS) + 1):
                x = self.scopes[f"group{number}"](x)
                residual = self.scopes[f"group{number}_pair1"](x)
                x = x + self.scopes[f"group{number}_pair2"](residual)
            features = FEATURE_SCALE * (x.amax(dim=(2, 3)) + x.mean(dim=(2, 3)))
            return self.head(features)

    torch.manual_seed(0)
    return FastResNet().to(memory_format=torch.channels_last)


def copy_weights(network, weights):
    """Sets the weights to those of ours, `{"<layer>/<variable>": array}`."""
    import torch

    def put(parameter, name, *axes):
        value = weights[name].transpose(axes) if axes else weights[name]
        parameter.data = torch.from_numpy(np.ascontiguousarray(value)).clone()

    put(network.stem.weight, "stem/kernel", 3, 2, 0, 1)
    for scope, (conv, _, norm, _) in network.scopes.items():
        put(conv.weight, f"{scope}_conv/kernel", 3, 2, 0, 1)
        put(norm.bias, f"{scope}_bn/beta")
        put(norm.running_mean, f"{scope}_bn/moving_mean")
        put(norm.running_var, f"{scope}_bn/moving_variance")
    put(network.head.weight, "head/kernel", 1, 0)
    put(network.head.bias, "head/bias")


def training(batch, arguments, num_classes, compiled, precision):
    """A training step with SGD on a fixed batch of 32x32 images."""
    import torch

    network = build(num_classes, **arguments)
    network.train()
    images, labels = networks.random_images(batch, num_classes=num_classes)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0  # Channels last as it is.
    targets = torch.from_numpy(labels)
    loss = torch.nn.CrossEntropyLoss()
    trained = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, 0.1, momentum=0.9, nesterov=True)
    forward = torch.compile(network) if compiled else network

    def step():
        optimizer.zero_grad()
        half = torch.autocast("cpu", torch.bfloat16) if precision == "bfloat16" else None
        with half or contextlib.nullcontext():
            logits = forward(pixels)
        value = loss(logits.float(), targets)
        value.backward()
        optimizer.step()
        return value.item()

    return {"train": step}
