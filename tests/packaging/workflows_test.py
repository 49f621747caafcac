"""What GitHub runs has few rights."""

import re

import pytest


def test_rights_are_as_few_as_possible(project_root):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, of the extra s2d_tf[test]")
    folder = project_root / ".github" / "workflows"
    found = {path.name: yaml.safe_load(path.read_text()) for path in folder.glob("*.yml")}
    assert {"audit.yml", "release.yml", "tests.yml"} <= set(found)
    # What others write, such as a branch's name, must not become a command.
    foreign = re.compile(r"\$\{\{\s*github\.(event|head_ref|ref)")
    for name, workflow in found.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job in workflow["jobs"].values():
            assert "timeout-minutes" in job or "uses" in job, name
            for step in job.get("steps", ()):
                if step.get("uses", "").startswith("actions/checkout"):
                    assert step["with"]["persist-credentials"] is False, name
                assert not foreign.search(step.get("run", "")), name
