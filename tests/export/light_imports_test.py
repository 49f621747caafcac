"""Loading, predicting and exporting need neither training nor the packages of evaluation."""

PROGRAM = """
import sys

HEAVY = {"tensorflow_probability", "tf_keras", "tensorflow_datasets", "scipy", "matplotlib",
         "tensorboard", "sklearn"}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        # Keras itself tries scikit-learn and goes on without it.
        if name.partition(".")[0] in HEAVY or name.startswith("s2d_tf.trainers.training"):
            raise ImportError(f"{name} is blocked")


sys.meta_path.insert(0, Blocker())
import numpy as np

from s2d_tf import backbones, export, losses, models, zoo

images = np.zeros([2, 8, 8, 1], np.uint8)
backbone = backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1)
student = models.Student(backbone, 3, losses.NormalKLDivergence(), num_draws=2)
for model in (student, zoo.load("wrn_10_2_s2.s2d.digits")):
    assert np.isfinite(model.predict_uncertainty(images)["knowledge"]).all()
print(export.save(model, sys.argv[1]))
assert not [name for name in sys.modules if name.partition(".")[0] in HEAVY]
"""


def test_heavy_packages_are_not_imported(tmp_path, run_python):
    result = run_python("-c", PROGRAM, tmp_path / "model")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith(str(tmp_path / "model" / "1"))
