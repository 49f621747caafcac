"""BUILD leaves out no module or test.

What the rules receive is checked (the fixture `build`), not how the file is written.
"""

import shutil
import subprocess

import pytest


def sources(build, kind):
    return [
        source
        for target in build.targets.values()
        if target["kind"] == kind
        for source in target.get("srcs", ())
    ]


def test_every_module_is_in_one_library_and_every_test_file_is_a_test(build, project_root):
    modules, tests = sources(build, "py_library"), sources(build, "py_test")
    assert len(modules) == len(set(modules))
    listed = {*modules, *tests, *sources(build, "py_binary")}
    for folder in ("s2d_tf", "trainers", "tests"):
        paths = [path.relative_to(project_root) for path in (project_root / folder).rglob("*.py")]
        missing = {path.as_posix() for path in paths} - listed
        assert not missing


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
