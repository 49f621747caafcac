"""BUILD leaves out no module, program or test.

What the rules receive is checked (the fixture `build`), not how the file is written.
"""

import shutil
import subprocess

import pytest


def files(project_root, folder, pattern="*.py"):
    return {
        path.relative_to(project_root).as_posix()
        for path in (project_root / folder).rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }


def sources(build, kind):
    return [
        source
        for target in build.targets.values()
        if target["kind"] == kind
        for source in target.get("srcs", ())
    ]


def test_every_module_is_in_exactly_one_library(build, project_root):
    listed = [source for source in sources(build, "py_library") if source.startswith("s2d_tf/")]
    assert len(listed) == len(set(listed))
    # __main__ is a program.
    assert set(listed) == files(project_root, "s2d_tf") - {"s2d_tf/__main__.py"}


def test_every_trainer_is_in_the_library_and_has_a_program(build, project_root):
    trainers = files(project_root, "trainers")
    assert set(build.targets["trainers"]["srcs"]) == trainers
    commands = {path.stem for path in (project_root / "trainers").glob("[!_]*.py")}
    programs = {
        tuple(target.get("args", ()))
        for target in build.targets.values()
        if target["kind"] == "py_binary"
    }
    assert programs == {(), *((name,) for name in commands)}


def test_every_test_file_is_a_test(build, project_root):
    tests = files(project_root, "tests", "*_test.py")
    assert {source for source in sources(build, "py_test") if source.endswith("_test.py")} == tests
    for name, target in build.targets.items():
        if target["kind"] == "py_test":
            assert target["args"] == [name + ".py"]
            assert target["main"] in target["srcs"]


def test_every_label_exists(build, project_root):
    for name, target in build.targets.items():
        for attribute in ("srcs", "deps", "data"):
            for label in target.get(attribute, ()):
                known = label[1:] in build.targets if label[0] == ":" else None
                assert known or (project_root / label).is_file(), f"{name}: {label}"


@pytest.mark.slow
def test_bazel_loads_it(build, project_root, tmp_path):
    """The real thing, where it is installed; without a network, as the rules are built in."""
    bazel = shutil.which("bazel")
    if bazel is None:
        pytest.skip("needs bazel (Debian: bazel-bootstrap)")
    result = subprocess.run(
        [bazel, "--batch", f"--output_user_root={tmp_path}", "query", "--noshow_progress", "//..."],
        cwd=project_root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert set(result.stdout.split()) == {f"//:{name}" for name in build.targets}
