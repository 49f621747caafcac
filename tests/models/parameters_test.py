"""Published parameter counts (table 1 of the paper and the original authors)."""

import numpy as np
import pytest

from s2d_tf import backbones, losses, models


def trainable(model):
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)


def densenet(channels=3):
    return backbones.densenet_bc([32, 32, channels], depth=100, growth_rate=12, seed=0)


@pytest.fixture(scope="module")
def plain():
    return models.Classifier(densenet(), 100)


@pytest.mark.slow
def test_densenet_bc_100_12(plain):
    assert trainable(plain) == 800_032
    s2d = models.S2DClassifier(plain.backbone, 100)
    assert trainable(s2d) == 800_032
    assert len(s2d.trainable_variables) == len(plain.trainable_variables)


@pytest.mark.slow
def test_densenet_mimo():
    assert trainable(models.Classifier(densenet(6), 100, num_heads=2)) == 834_980


@pytest.mark.slow
def test_densenet_h2d_gauss(plain):
    student = models.Student(plain.backbone, 100, losses.NormalKLDivergence())
    assert trainable(student) == 834_332


@pytest.mark.slow
def test_densenet_swag_and_ensemble(plain):
    swag = models.SWAG(plain)
    deviations = sum(int(np.prod(v.shape)) for v in swag.stddev)
    assert trainable(swag) + deviations == 1_600_064
    members = [models.Classifier(densenet(), 100) for _ in range(5)]
    assert trainable(models.Ensemble(members)) == 4_000_160
