"""DenseNet-BC as one writes it in PyTorch: eager, channels last.

For a process of its own: PyTorch and TensorFlow in one may crash.
"""

import importlib.util

from benchmarks import networks

FRAMEWORK = "torch"


def available():
    return importlib.util.find_spec("torch") is not None


def functions(batch, depth, growth_rate, weight_decay, num_classes=100):
    """A training step and a prediction, as `backbone_speed.functions` makes them."""
    import torch

    torch.manual_seed(0)
    images, labels = networks.random_images(batch, num_classes=num_classes)
    network = build(images.shape[-1], num_classes, depth, growth_rate)
    network = network.to(memory_format=torch.channels_last)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255.0  # Channels last as it is.
    targets = torch.from_numpy(labels)
    loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(
        network.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=weight_decay
    )

    def train():
        network.train()
        optimizer.zero_grad()
        value = loss(network(pixels), targets)
        value.backward()
        optimizer.step()
        return value.item()

    def infer():
        network.eval()
        with torch.inference_mode():
            return torch.softmax(network(pixels), dim=-1).numpy()

    return {"train": train, "infer": infer}


def build(channels, num_classes, depth, growth_rate):
    """The network as a `torch.nn.Module`."""
    from torch import nn

    parts = [nn.Conv2d(channels, 2 * growth_rate, 3, padding=1, bias=False)]
    channels = 2 * growth_rate
    for block in range(3):
        if block:
            parts += [*_norm_relu_conv(channels, channels // 2, 1), nn.AvgPool2d(2)]
            channels //= 2
        for _ in range((depth - 4) // 6):
            bottleneck = _norm_relu_conv(channels, 4 * growth_rate, 1)
            parts += [_appending(*bottleneck, *_norm_relu_conv(4 * growth_rate, growth_rate, 3))]
            channels += growth_rate
    pooled = [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*parts, *pooled, nn.Linear(channels, num_classes))


def _norm_relu_conv(channels, filters, size):
    from torch import nn

    convolution = nn.Conv2d(channels, filters, size, padding=size // 2, bias=False)
    return nn.BatchNorm2d(channels), nn.ReLU(), convolution


def _appending(*layers):
    import torch

    class Appending(torch.nn.Sequential):
        """What the layers make of the input, appended to the input."""

        def forward(self, x):
            return torch.cat([x, super().forward(x)], dim=1)

    return Appending(*layers)
