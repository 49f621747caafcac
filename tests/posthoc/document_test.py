"""The page on post-hoc steps runs."""

import re

from s2d_tf import posthoc
from tests.docstrings_test import set_up


def test_the_document_runs(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (project_root / "docs" / "posthoc.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scope = set_up()
    exec(compile(block, "posthoc.md", "exec"), scope)
    assert {"knn", "prediction_set", "abstain"} <= set(scope["found"])
    for name in posthoc.steps():
        assert f"`{name}" in text, name
