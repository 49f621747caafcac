"""Published facts: parameter counts (table 1 of the paper), and answers in the same bits."""

import numpy as np
import pytest

from s2d_tf import backbones, losses, models


def trainable(model):
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)


def densenet(channels=3):
    return backbones.densenet_bc([32, 32, channels], depth=100, growth_rate=12, seed=0)


@pytest.mark.slow
def test_parameters_of_densenet_bc_100_12():
    plain = models.Classifier(densenet(), 100)
    assert trainable(plain) == trainable(models.S2DClassifier(plain.backbone, 100)) == 800_032
    assert trainable(models.Classifier(densenet(6), 100, num_heads=2)) == 834_980
    student = models.Student(plain.backbone, 100, losses.NormalKLDivergence())
    assert trainable(student) == 834_332
    assert models.SWAG(plain).num_parameters == 1_600_064
    members = [models.Classifier(densenet(), 100) for _ in range(5)]
    assert trainable(models.Ensemble(members)) == 4_000_160


PROGRAM = """
import hashlib
import sys
import numpy as np
from s2d_tf import zoo

rng = np.random.default_rng(0)
images, others = (rng.integers(0, 256, [n, 32, 32, 3], np.uint8) for n in (300, 10_000))
model = zoo.load("fast_resnet_half.s2d.cifar100_plus")
for before in (None, None, others[: int(sys.argv[1])]):
    if before is not None:
        model.predict_uncertainty(before)
    answer = model.predict_uncertainty(images)
    print(hashlib.sha256(b"".join(values.tobytes() for values in answer.values())).hexdigest())
"""


@pytest.mark.slow
def test_answers_have_the_same_bits_again_after_other_images_and_in_another_process(run_python):
    digests = []
    for others in (10_000, 1):
        found = run_python("-c", PROGRAM, others, timeout=900)
        assert found.returncode == 0, found.stderr
        digests += found.stdout.split()
    assert len(digests) == 6
    assert len(set(digests)) == 1
