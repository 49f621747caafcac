"""BUILD leaves out no module, program or test, and its dependencies are the real ones.

The file is run here as Python, which it is as well as Starlark, with rules that only take notes.
So it is what the rules receive that is checked, not how the file is written.
"""

import ast
import pathlib
import shutil
import subprocess

import pytest


class Rules:
    """Stands in for Bazel while BUILD runs."""

    def __init__(self, root):
        self.root = root
        self.targets = {}

    def glob(self, include, exclude=(), allow_empty=True):
        found = set()
        for pattern in include:
            # Bazel's trailing `**` matches files at any depth, pathlib's only folders.
            pattern = pattern + "/*" if pattern.endswith("**") else pattern
            found |= {path for path in self.root.glob(pattern) if path.is_file()}
        names = {path.relative_to(self.root) for path in found}
        kept = [name for name in names if not any(self._matches(name, p) for p in exclude)]
        assert kept or allow_empty, include
        return sorted(name.as_posix() for name in kept)

    @staticmethod
    def _matches(name, pattern):
        if pattern == "**/__pycache__/**":
            return "__pycache__" in name.parts
        return name.match(pattern)

    def rule(self, kind):
        def take_note(name, **attributes):
            assert name not in self.targets, f"two targets are called {name}"
            self.targets[name] = {"kind": kind, **attributes}

        return take_note


@pytest.fixture(scope="module")
def build(project_root):
    rules = Rules(project_root)
    names = {kind: rules.rule(kind) for kind in ("py_library", "py_binary", "py_test", "filegroup")}
    names.update(
        glob=rules.glob,
        package=lambda **_: None,
        licenses=lambda _: None,
        exports_files=lambda _: None,
    )
    exec(compile((project_root / "BUILD").read_text(), "BUILD", "exec"), names)
    rules.libraries = names["LIBRARIES"]
    return rules


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


def test_every_public_submodule_is_a_library(build):
    import s2d_tf

    public = set(s2d_tf.__all__) - {"__version__"}
    # Anything else that is listed is there.
    assert public <= set(build.libraries)
    for name in set(build.libraries) - public:
        assert build.targets[name]["srcs"], name


def test_every_trainer_is_in_the_library_and_has_a_program(build, project_root):
    trainers = files(project_root, "trainers")
    assert set(build.targets["trainers"]["srcs"]) == trainers
    commands = {pathlib.Path(path).stem for path in trainers}
    commands = {name for name in commands if not name.startswith("_")}
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


def test_the_zoo_is_data_of_what_finds_it(build, project_root):
    assert set(build.targets["zoo_data"]["srcs"]) == files(project_root, "zoo", "*.*")
    assert ":zoo_data" in build.targets["package"]["data"]


def test_libraries_declare_what_they_import(build, project_root):
    package = project_root / "s2d_tf"
    missing = []
    for path in package.rglob("*.py"):
        owner = path.relative_to(package).with_suffix("").parts[0]
        if owner not in build.libraries:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                used = name.split(".")[1] if name.startswith("s2d_tf.") else owner
                if used in build.libraries and used not in {owner, *build.libraries[owner]}:
                    missing.append(f"{path.relative_to(project_root)} imports {used}")
    assert not missing, "not in BUILD's LIBRARIES"


def test_a_library_comes_after_its_dependencies(build):
    seen = set()
    for name, deps in build.libraries.items():
        assert set(deps) <= seen, name
        seen.add(name)


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
