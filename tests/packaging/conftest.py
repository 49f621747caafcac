"""BUILD, run as Python."""

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


@pytest.fixture(scope="session")
def build(project_root):
    """What the rules in BUILD receive.

    The file is Python as well as Starlark, so it runs here with rules that only take notes.
    """
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
