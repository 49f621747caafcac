"""Loading, predicting and exporting need only the packages that a serving machine has."""

import os
import subprocess
import sys

HEAVY = (
    "s2d_tf.training",
    "tensorflow_datasets",
    "sklearn",
    "matplotlib",
    "tensorboard",
    "tensorflow_probability",
)
PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if any(name == heavy or name.startswith(heavy + ".") for heavy in {heavy}):
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocked())
from s2d_tf import export, zoo
from s2d_tf.storage import golden

model = zoo.load({name!r})
images = golden.images(model.image_shape, count=2)
assert model.predict_uncertainty(images)["knowledge"].shape == (2,)
export.save(model, {directory!r})
for heavy in {heavy}:
    try:
        __import__(heavy)
    except ImportError as error:
        assert "is blocked" in str(error), error
    else:
        raise AssertionError(heavy + " could be imported")
"""


def test_load_predict_and_export_without_training_and_heavy_packages(tmp_path, project_root):
    name = "wrn_10_2_s2.s2d.digits"
    program = PROGRAM.format(heavy=HEAVY, name=name, directory=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(project_root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "1" / "saved_model.pb").is_file()
