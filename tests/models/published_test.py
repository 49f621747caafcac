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
    assert trainable(plain) == trainable(models.S2DClassifier(plain.backbone, 100)) == 800_032
    assert trainable(models.Classifier(densenet(6), 100, num_heads=2)) == 834_980
    student = models.Student(plain.backbone, 100, losses.NormalKLDivergence())
    assert trainable(student) == 834_332
    assert models.SWAG(plain).num_parameters == 1_600_064
    members = [models.Classifier(densenet(), 100) for _ in range(5)]
    assert trainable(models.Ensemble(members)) == 4_000_160
