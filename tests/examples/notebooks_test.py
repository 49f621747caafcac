"""The notebooks run as they are, and each within three minutes of two quiet cores."""

import pathlib

import pytest

import s2d_tf.trainers.datasets  # noqa: F401 (registers CLINC150)
from s2d_tf import data

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((pathlib.Path(__file__).parents[2] / "examples" / "notebooks").glob("*.py"))
NEEDS = {"detect_and_abstain": ("cifar100", "svhn_cropped"), "your_own_model": ("clinc150",)}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel has its own, which shows pictures
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name in NEEDS.get(path.stem, ()):
        try:
            data.load_arrays(name, "test")
        except data.MissingDataError as error:
            pytest.skip(str(error))
    notebook = jupytext.read(path)
    nbclient.NotebookClient(
        notebook, timeout=1200, resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    pictures = [out for out in outputs if "image/png" in out.get("data", {})]
    assert path.stem == "serve_a_model" or pictures
