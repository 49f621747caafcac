"""Counted work against published and hand-computed numbers; competitors against each other."""

import numpy as np
import pytest

from benchmarks import competitors, counting, plain_keras, pytorch_densenet
from s2d_tf import backbones, models

needs_torch = pytest.mark.skipif(
    not pytorch_densenet.available(), reason="needs the package `torch`"
)


@pytest.mark.slow
def test_densenet_has_its_published_number_of_multiplications():
    # The published 298 million also count batch norm and the head: here only convolutions.
    counted = counting.multiply_adds(backbones.densenet_bc(depth=100, growth_rate=12))
    assert 0.95 * 298e6 < counted < 298e6


@pytest.mark.parametrize(
    ("backbone", "arguments", "parameters"),
    [
        ("densenet_bc", {"depth": 10, "growth_rate": 12}, None),
        pytest.param(
            "densenet_bc", {"depth": 100, "growth_rate": 12}, 800_032, marks=pytest.mark.slow
        ),
        ("wide_resnet", {"depth": 10, "width": 2}, None),
    ],
)
def test_the_plain_networks_are_the_same_networks(backbone, arguments, parameters):
    shape = (8, 8, 3)
    plain = plain_keras.classifier(backbone, arguments, shape, 100, [0.0] * 3, [1.0] * 3, 0.0)
    ours = getattr(backbones, backbone)(input_shape=shape, **arguments)
    width = ours.output_shape[-1]
    count = sum(int(np.prod(w.shape)) for w in plain.trainable_variables)
    expected = sum(int(np.prod(w.shape)) for w in ours.trainable_variables) + (width + 1) * 100
    assert count == expected
    assert parameters in (None, count)


def test_competitors_solve_the_same_equations():
    log_probs = competitors.teacher_predictions(2, 5, 4)
    assert np.exp(log_probs).sum(axis=-1) == pytest.approx(1.0)
    assert competitors.error(competitors.scipy_lbfgs(log_probs), log_probs) < 1e-3
    assert competitors.error(np.ones((2, 4)), log_probs) > 0.1


PYTORCH = """
from benchmarks import pytorch_densenet
network = pytorch_densenet.build(3, 100, depth=100, growth_rate=12)
print(sum(parameter.numel() for parameter in network.parameters()))
made = pytorch_densenet.functions(2, depth=10, growth_rate=4, weight_decay=1e-4)
print(*(made["train"]() for _ in range(10)))
print(*made["infer"]().sum(axis=-1))
"""


@needs_torch
def test_the_network_in_pytorch_is_the_same_network(run_python):
    process = run_python("-c", PYTORCH)
    parameters, losses, sums = (
        [float(word) for word in line.split()] for line in process.stdout.splitlines()
    )
    assert parameters == [800_032]
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)


SAME = """
import sys
import numpy as np, torch
from benchmarks import pytorch_fast_resnet

held = np.load(sys.argv[1])
network = pytorch_fast_resnet.build(7, width=0.25)
pytorch_fast_resnet.copy_weights(network, held)
network.eval()
with torch.inference_mode():
    found = network(torch.from_numpy(held["images"]).permute(0, 3, 1, 2)).numpy()
np.testing.assert_allclose(found, held["logits"], rtol=1e-4, atol=1e-4)
trained = sum(p.numel() for p in network.parameters() if p.requires_grad)
assert trained == held["trained"], (trained, held["trained"])
"""


@pytest.mark.slow
@needs_torch
def test_the_fast_network_in_pytorch_is_the_same_network(tmp_path, run_python):
    random = np.random.default_rng(0)
    model = models.Classifier(backbones.fast_resnet((32, 32, 3), width=0.25, seed=0), 7, seed=0)
    images = random.normal(size=[4, 32, 32, 3]).astype(np.float32)
    model.adapt(images)
    for layer in model.backbone.layers:
        for weight in layer.weights:
            if weight.name in ("beta", "moving_mean"):
                weight.assign(0.1 * random.normal(size=weight.shape))
            elif weight.name == "moving_variance":
                weight.assign(random.uniform(0.5, 2.0, size=weight.shape))
    weights = {
        f"{layer.name}/{weight.name}": np.asarray(weight)
        for layer in model.backbone.layers
        for weight in layer.weights
    }
    weights |= {"head/kernel": np.asarray(model.head.kernel)[0]}
    weights |= {"head/bias": np.asarray(model.head.bias)[0]}
    held = {"images": images, "logits": model(images).numpy(), "trained": model.num_parameters}
    np.savez(tmp_path / "held.npz", **weights, **held)
    result = run_python("-c", SAME, tmp_path / "held.npz")
    assert result.returncode == 0, result.stderr[-2000:]
