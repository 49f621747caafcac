"""What GitHub runs has few rights, and its scripts do what they are for."""

import re
import subprocess

import pytest

import s2d_tf

RELEASE, TESTS = "release.yml", "tests.yml"


@pytest.fixture(scope="module")
def workflows(project_root):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, of the extra s2d_tf[test]")
    folder = project_root / ".github" / "workflows"
    found = {path.name: yaml.safe_load(path.read_text()) for path in folder.glob("*.yml")}
    assert {"audit.yml", RELEASE, TESTS} <= set(found)
    return found


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job.get("steps", ())]


def test_rights_are_as_few_as_possible(workflows):
    for name, workflow in workflows.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for step in steps(workflow):
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False, name
            # What others write, such as a branch's name, must not become a command.
            assert not re.search(r"\$\{\{\s*github\.(event|head_ref|ref)", step.get("run", "")), (
                name
            )
        for job in workflow["jobs"].values():
            assert "timeout-minutes" in job or "uses" in job, name


def test_the_version_check_finds_the_version(workflows, project_root, tmp_path):
    (script,) = (s["run"] for s in workflows[RELEASE]["jobs"]["version"]["steps"] if "run" in s)
    (tmp_path / "s2d_tf").mkdir()
    source = project_root / "s2d_tf" / "__init__.py"
    (tmp_path / "s2d_tf" / "__init__.py").write_bytes(source.read_bytes())
    (tmp_path / "CHANGELOG.md").write_text(f"## [{s2d_tf.__version__}]\n")
    assert run(script, tmp_path, f"v{s2d_tf.__version__}") == 0
    assert run(script, tmp_path, "v9.9.9") != 0


def run(script, folder, tag):
    env = {"TAG": tag, "PATH": "/usr/bin:/bin"}
    return subprocess.run(["bash", "-ec", script], cwd=folder, env=env).returncode
