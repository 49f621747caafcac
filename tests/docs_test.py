"""The pages with code: it runs in order. The architecture page's table is the import order."""

import ast
import inspect
import re

import numpy as np


def test_the_way_of_an_image_runs(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (project_root / "docs" / "architecture.md").read_text(encoding="utf-8")
    names = {}
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    exec(compile(code, "architecture.md", "exec"), names)
    for name, value in names["parts"].items():
        np.testing.assert_allclose(names["answer"][name], value, atol=1e-5)
    served = names["served"]["knowledge_uncertainty"]
    np.testing.assert_allclose(served, names["answer"]["knowledge"], atol=1e-5)
    assert names["found"]["digits_photos/auroc/knowledge"] <= 1
    assert names["answer"]["probs"].shape == (4, 8)


def test_your_model_runs(project_root, tmp_path, monkeypatch):
    import tensorflow as tf

    monkeypatch.chdir(tmp_path)
    text = (project_root / "docs" / "your-model.md").read_text(encoding="utf-8")
    names = {}
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    exec(compile(code, "your-model.md", "exec"), names)
    assert names["answer"]["knowledge"].shape == (60,)
    served = tf.saved_model.load(str(names["folder"])).signatures["serving_default"]
    found = served(**{name: tf.constant(value) for name, value in names["x"].items()})
    expected = names["model"].predict_uncertainty(names["x"])
    np.testing.assert_allclose(found["probabilities"], expected["probs"], atol=1e-5)
    assert 0.5 < names["found"]["digits_upside_down/auroc/knowledge"] <= 1
    for logged in re.findall(r"`(\w+)`", text.split("- **The log**")[1].split("Both")[0]):
        assert logged in names["history"].history
    signature = inspect.signature(type(names["model"]).__init__).parameters
    settings = re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", text, re.MULTILINE)
    assert len(settings) == 3
    for name, value in settings:
        assert signature[name].default == ast.literal_eval(value)


def test_the_table_of_imports_is_that_of_build(project_root):
    text = (project_root / "docs" / "architecture.md").read_text(encoding="utf-8")
    stated = [
        re.findall(r"`(\w+)`", cell) for cell in re.findall(r"^\| \d \| (.*?) \|", text, re.M)
    ]
    build = (project_root / "BUILD").read_text(encoding="utf-8")
    rows = ast.literal_eval(re.search(r"^ROWS = (\[.*?^\])", build, re.M | re.S)[1])
    exists = {path.stem for path in (project_root / "s2d_tf").iterdir()} - {"quickstart"}
    rows = [[name for name in row if name in exists] for row in rows]
    assert [set(row) for row in stated[:-1]] == [set(row) for row in rows if row]
