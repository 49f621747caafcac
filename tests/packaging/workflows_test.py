"""What GitHub runs and shows is complete, safe, and agrees with the project's own files."""

import configparser
import re

import pytest

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


def test_tests_run_on_every_python_with_both_ends_of_the_dependencies(workflows, project_root):
    job = workflows[TESTS]["jobs"]["tests"]
    matrix = job["strategy"]["matrix"]
    assert matrix == {"python": ["3.11", "3.12", "3.13"], "dependencies": ["newest", "lowest"]}
    text = "\n".join(step.get("run", "") for step in job["steps"])
    assert "lowest-direct" in text
    assert "'.[test]'" in text
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(project_root / "setup.cfg", encoding="utf-8")
    assert parser["options"]["python_requires"] == f">={matrix['python'][0]}"


def test_lint_and_browser_run_what_the_makefile_runs(workflows, project_root):
    makefile = (project_root / "Makefile").read_text()
    jobs = workflows[TESTS]["jobs"]
    lint = [step.get("run", "") for step in jobs["lint"]["steps"]]
    assert any("ruff check" in each for each in lint)
    assert "ruff format --check ." in lint
    assert "ruff format --check ." in makefile
    assert any(step.get("run") == "make test-browser" for step in jobs["browser"]["steps"])
    assert "\ntest-browser:" in makefile


def test_the_site_is_built_and_checked_by_the_makefile(workflows, project_root):
    makefile = (project_root / "Makefile").read_text(encoding="utf-8")
    commands = [step.get("run") for step in workflows["site.yml"]["jobs"]["site"]["steps"]]
    for target in ("site", "test-site"):
        assert f"make {target}" in commands
        assert f"\n{target}:" in makefile


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


def test_a_release_is_tested_and_needs_no_token(workflows):
    jobs = workflows[RELEASE]["jobs"]
    assert workflows[RELEASE][True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    assert jobs["tests"]["uses"] == f"./.github/workflows/{TESTS}"
    assert "workflow_call" in workflows[TESTS][True]
    publish = jobs["publish"]
    assert (publish["needs"], publish["environment"]) == ("tests", "release")
    assert publish["permissions"] == {"id-token": "write"}
    assert any(
        s.get("uses", "").startswith("pypa/gh-action-pypi-publish@") for s in publish["steps"]
    )
    # What was tested is what is sent: nothing is built again, and nothing of the checkout runs.
    assert not any("run" in step for step in publish["steps"])
    assert not any("checkout" in step.get("uses", "") for step in publish["steps"])
    assert "secrets." not in str(workflows[RELEASE])


def test_the_release_notes_are_the_section_of_the_version(workflows, tmp_path):
    import subprocess

    (script,) = (s["run"] for s in workflows[RELEASE]["jobs"]["announce"]["steps"] if "run" in s)
    extract = next(line for line in script.splitlines() if line.startswith("awk"))
    text = "# Changelog\n\n## [0.2.0]\n\n- new\n\n## [0.1.0] - today\n- first\n\n## [0.0.1]\n"
    (tmp_path / "CHANGELOG.md").write_text(text)
    subprocess.run(
        ["bash", "-c", extract],
        cwd=tmp_path,
        env={"TAG": "v0.1.0", "PATH": "/usr/bin:/bin"},
        check=True,
    )
    assert (tmp_path / "notes.md").read_text().strip() == "- first"


def test_the_version_check_finds_the_version(workflows, project_root, tmp_path):
    import subprocess

    import s2d_tf

    (script,) = (s["run"] for s in workflows[RELEASE]["jobs"]["version"]["steps"] if "run" in s)

    def run(tag):
        (tmp_path / "s2d_tf").mkdir(exist_ok=True)
        source = (project_root / "s2d_tf" / "__init__.py").read_text()
        (tmp_path / "s2d_tf" / "__init__.py").write_text(source)
        (tmp_path / "CHANGELOG.md").write_text(f"## [{s2d_tf.__version__}]\n")
        command = ["bash", "-e", "-c", script]
        return subprocess.run(
            command, cwd=tmp_path, env={"TAG": tag, "PATH": "/usr/bin:/bin"}
        ).returncode

    assert run(f"v{s2d_tf.__version__}") == 0
    assert run("v9.9.9") != 0


def test_templates_and_conduct(project_root):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, of the extra s2d_tf[test]")
    folder = project_root / ".github" / "ISSUE_TEMPLATE"
    for name in ("bug.yml", "idea.yml"):
        form = yaml.safe_load((folder / name).read_text())
        assert {"name", "description", "body"} <= set(form)
        fields = [each for each in form["body"] if each["type"] == "textarea"]
        assert len({each["id"] for each in fields}) == len(fields)
        assert fields[0]["validations"]["required"] is True
    for path in (".github/PULL_REQUEST_TEMPLATE.md", "CODE_OF_CONDUCT.md"):
        assert "](" in (project_root / path).read_text()
