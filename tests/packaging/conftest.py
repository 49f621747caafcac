"""BUILD, run as Python; and a small tree with the command `s2d` and trainers made for the tests."""

import shutil
import textwrap
import traceback
import types

import pytest

from s2d_tf import _paths, cli

DISPATCHER = ("__init__", "__main__", "_backend", "_lazy", "_paths", "cli", "errors")
TRAINERS = {
    "__init__": '"""Programs."""',
    "_private": '"""Not a command."""',
    "greet": '''
        """Says hello to people.

        The rest of the story.
        """
        from absl import flags

        _GREETING = flags.DEFINE_string("greeting", "hello", "what to say")
        _TIMES = flags.DEFINE_integer("times", 1, "how often", lower_bound=1)
        _MOOD = flags.DEFINE_enum("mood", "calm", ["calm", "loud"], "in which voice")
        _COUNT = flags.DEFINE_bool("count", False, "whether to number the lines")

        def main(argv):
            for i in range(_TIMES.value):
                text = " ".join([_GREETING.value, *argv[1:]])
                text = text.upper() if _MOOD.value == "loud" else text
                print(f"{i} {text}" if _COUNT.value else text)
    ''',
    "run": '''
        """Runs a line of Python."""
        from absl import flags

        from s2d_tf.errors import UserError

        flags.DEFINE_integer("times", 1, "shares its name with a flag of another command")

        def main(argv):
            exec(argv[1], globals() | {"argv": argv})
            return int(argv[1]) if argv[1].isdecimal() else 0
    ''',
    "talk_much": '''
        """Prints more than a pipe holds."""

        def main(argv):
            for i in range(100_000):
                print("line", i)
    ''',
    "train": '''
        """Comes after list."""
        from absl import flags

        flags.DEFINE_string("workdir", None, "Run directory.", required=True)
    ''',
    "list": '"""Comes first."""',
}


@pytest.fixture(scope="session")
def build(project_root):
    """What the rules in BUILD receive.

    The file is Python as well as Starlark, so it runs here with rules that only take notes.
    """
    targets = {}

    def glob(include, exclude=(), allow_empty=True):
        # Bazel's trailing `**` matches files at any depth, pathlib's only folders.
        patterns = [pattern + "/*" if pattern.endswith("**") else pattern for pattern in include]
        paths = {p for pattern in patterns for p in project_root.glob(pattern) if p.is_file()}
        names = [path.relative_to(project_root) for path in paths]
        return sorted(n.as_posix() for n in names if not any(map(n.match, exclude)))

    def rule(kind):
        def take_note(name, **attributes):
            assert name not in targets, f"two targets are called {name}"
            targets[name] = {"kind": kind, **attributes}

        return take_note

    names = {kind: rule(kind) for kind in ("py_library", "py_binary", "py_test", "filegroup")}
    names |= {name: lambda *_, **__: None for name in ("package", "licenses", "exports_files")}
    names["glob"] = glob
    exec(compile((project_root / "BUILD").read_text(), "BUILD", "exec"), names)
    return types.SimpleNamespace(targets=targets, libraries=names["LIBRARIES"])


@pytest.fixture(scope="module")
def tree(tmp_path_factory, project_root):
    """A checkout in small: the real dispatcher, the trainers above, one submodule."""
    root = tmp_path_factory.mktemp("checkout")
    for folder in ("s2d_tf", "trainers"):
        (root / folder).mkdir()
    for name in DISPATCHER:
        shutil.copy(project_root / "s2d_tf" / f"{name}.py", root / "s2d_tf")
    shutil.copy(project_root / "s2d_tf" / "__init__.pyi", root / "s2d_tf")
    (root / "s2d_tf" / "layers.py").write_text("import s2d_tf._backend, keras")
    for name, text in TRAINERS.items():
        (root / "trainers" / f"{name}.py").write_text(textwrap.dedent(text))
    return root


@pytest.fixture
def s2d(tree, tmp_path, monkeypatch, capsys):
    """Runs the command in this process, and answers what a process of its own would."""
    monkeypatch.setattr(_paths, "trainers_directory", lambda: tree / "trainers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*args, **env):
        for key, value in {"S2D_DEBUG": "", **env}.items():
            monkeypatch.setenv(key, value)
        try:
            code, stderr = cli.main(args), ""
        except SystemExit as error:
            code, stderr = error.code, ""
        except Exception:
            code, stderr = 1, traceback.format_exc()
        printed = capsys.readouterr()
        return types.SimpleNamespace(
            returncode=code, stdout=printed.out, stderr=printed.err + stderr
        )

    return run


@pytest.fixture
def s2d_process(tree, tmp_path, run_s2d):
    """The same in a process of its own, where that is what is tested."""

    def run(*args, **env):
        ours = {"PYTHONPATH": str(tree), "COLUMNS": "80", "S2D_DEBUG": "", **env}
        return run_s2d(*args, env=ours, cwd=tmp_path)

    return run
