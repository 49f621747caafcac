"""The fast network's suite: minutes from finished runs, and a PyTorch twin that is one."""

import importlib.util
import json

import numpy as np
import pytest

from benchmarks import fast_network

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


def run(folder, accuracy, seconds, name="fast_resnet.s2d.cifar100_plus"):
    folder.mkdir()
    (folder / "summary.json").write_text(json.dumps({"name": name, "training_seconds": seconds}))
    (folder / "metrics.json").write_text(
        json.dumps({"cifar100/accuracy": accuracy, "cifar100/nll": 1.0, "svhn/auroc/total": 0.8})
    )
    return str(folder)


def test_minutes_are_those_of_the_quickest_run_that_reaches_the_mark(tmp_path):
    runs = [
        run(tmp_path / "slow", 0.76, 6000.0),
        run(tmp_path / "half", 0.701, 600.0, "fast_resnet_half.s2d.cifar100_plus"),
        run(tmp_path / "weak", 0.65, 60.0),
    ]
    first, second = fast_network.minutes(runs)
    assert (first.name, first.median) == ("minutes to 70% on test images", 10.0)
    assert first.facts["run"] == "fast_resnet_half.s2d.cifar100_plus"
    assert second.median == 100.0
    _, missed = fast_network.minutes(runs[1:])
    assert missed.kind == "not run"
    assert "70.10%" in missed.note
    assert not list(fast_network.minutes([]))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_the_pytorch_network_is_the_same(tmp_path, run_python):
    from s2d_tf import backbones, models

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
