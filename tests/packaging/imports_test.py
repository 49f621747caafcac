"""The border between library and laboratory and the one-way import order, read from the sources."""

import ast
import functools

import pytest


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path, toplevel=False):
    """Yields the full dotted names that a file imports, and the names that it gives them.

    Args:
        path: the file; what its relative imports mean is seen from its place.
        toplevel: only what is imported when the file is, not when its functions are called.
    """
    for node in parsed(path).body if toplevel else ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            home = [node.module] if node.module else []
            if node.level:
                home = [*path.parts[: -node.level][-3:], *home]
                home = home[home.index("trainers") :] if "trainers" in home else home
            for alias in node.names:
                yield ".".join([*home, alias.name]), alias.asname or alias.name


def room(name):
    """The room of s2d_tf that a dotted name lies in; `None` for anything outside."""
    parts = name.split(".")
    return parts[1] if parts[0] == "s2d_tf" and len(parts) > 1 else None


def sources(project_root, folder):
    return sorted((project_root / folder).rglob("*.py"))


@pytest.fixture(scope="module")
def library_imports(project_root):
    """For each room of s2d_tf, the rooms that it imports."""
    found = {}
    for path in sources(project_root, "s2d_tf"):
        owner = path.relative_to(project_root / "s2d_tf").with_suffix("").parts[0]
        used = {room(name) for name, _ in imports(path)} - {None, owner, "__version__"}
        found.setdefault(owner, set()).update(used)
    return found


def test_every_room_has_its_place_in_the_order(library_imports, build):
    assert {name for name in library_imports if name[0] != "_"} == {*build.libraries, "cli"}


def test_imports_go_one_way(library_imports, build):
    wrong = [
        f"{owner} imports {used}"
        for i, owner in enumerate(build.libraries)
        for used in library_imports[owner]
        if used[0] != "_" and used not in build.libraries[:i]
    ]
    assert not wrong, "against the order of ROWS in BUILD"


def test_the_command_and_the_private_modules_import_no_room(library_imports):
    """All may use the private modules, which are there before TensorFlow is."""
    for name, used in library_imports.items():
        if name == "cli" or name[0] == "_":
            assert {each for each in used if each[0] != "_"} <= {"cli", "errors"}, name


def test_the_library_does_not_import_the_laboratory(project_root):
    for path in sources(project_root, "s2d_tf"):
        for name, _ in imports(path):
            assert not name.startswith(("trainers", "s2d_tf.trainers")), path


def private_names(path, own):
    """Yields the private names that a file takes from elsewhere in s2d_tf.

    Args:
        path: the file.
        own: the dotted name of its own room, whose private names it may use.
    """
    others = {}
    for name, alias in imports(path):
        if name.startswith("s2d_tf.") and not f"{name}.".startswith(f"{own}."):
            others[alias] = name
            if any(part[0] == "_" for part in name.split(".")[2:] if part != "__version__"):
                yield name
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            private = node.attr[0] == "_" and not node.attr.startswith("__")
            if private and node.value.id in others:
                yield f"{others[node.value.id]}.{node.attr}"


def test_no_private_name_crosses_a_border(project_root):
    found = {}
    for path in sources(project_root, "s2d_tf"):
        parts = path.relative_to(project_root).with_suffix("").parts
        found[path] = list(private_names(path, ".".join(parts[:2])))
    for path in sources(project_root, "trainers"):
        found[path] = list(private_names(path, "s2d_tf.trainers"))
        # Types and the check of the backend say nothing of how the library works.
        allowed = ("s2d_tf._types", "s2d_tf._backend", "s2d_tf._lazy")
        names = [n for n, _ in imports(path) if n.startswith("s2d_tf._") and "__" not in n]
        found[path] += [name for name in names if not name.startswith(allowed)]
    wrong = [f"{path.relative_to(project_root)}: {name}" for path in found for name in found[path]]
    assert not wrong, "\n".join(wrong)


def test_imports_within_the_laboratory_are_relative(project_root):
    for path in sources(project_root, "trainers"):
        names = [node.module for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
        assert not [n for n in names if n and n.startswith(("trainers", "s2d_tf.trainers"))], path


def test_the_backend_is_checked_before_keras_is_imported(project_root):
    """`import s2d_tf._backend` comes first, in the file or in the `__init__` of its package."""
    unchecked = []
    for path in (project_root / "s2d_tf").rglob("*.py"):
        names = [name for name, _ in imports(path, toplevel=True)]
        roots = [name.split(".")[0] for name in names]
        if "keras" in roots:
            before = [name for name, _ in imports(path.with_name("__init__.py"), True)][:1]
            before += names[: roots.index("keras")]
            if "s2d_tf._backend" not in before:
                unchecked.append(str(path.relative_to(project_root)))
    assert not unchecked, "import s2d_tf._backend before Keras"


def test_no_file_from_outside_is_trusted(project_root):
    """Weights are arrays: neither Keras' deserialiser nor pickle appears anywhere."""
    banned = {"load_model", "pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    paths = [path for folder in ("s2d_tf", "trainers") for path in sources(project_root, folder)]
    assert len(paths) > 10
    for path in paths:
        tree = parsed(path)
        words = {part for name, _ in imports(path) for part in name.split(".")}
        words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        words |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not words & banned, path
        # np.load(..., allow_pickle=True) is pickle by another name.
        keywords = [node for node in ast.walk(tree) if isinstance(node, ast.keyword)]
        for node in keywords:
            if node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path


LIGHT = """
import sys

HEAVY = {"tensorflow_probability", "tf_keras", "tensorflow_datasets", "scipy", "matplotlib",
         "tensorboard", "sklearn"}


class Blocker:
    def find_spec(self, name, path=None, target=None):
        # Keras itself tries matplotlib and scikit-learn and goes on without them.
        if name.partition(".")[0] in HEAVY or name.startswith("s2d_tf.trainers."):
            raise ImportError(f"{name} is blocked")


sys.meta_path.insert(0, Blocker())
import numpy as np

from s2d_tf import backbones, export, losses, models, zoo

images = np.zeros([2, 8, 8, 1], np.uint8)
backbone = backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1)
student = models.Student(backbone, 3, losses.NormalKLDivergence(), num_draws=2)
for model in (student, zoo.load("wrn_10_2_s2.s2d.digits")):
    assert np.isfinite(model.predict_uncertainty(images)["knowledge"]).all()
print(export.save(model, sys.argv[1]))
"""


def test_loading_predicting_and_exporting_need_nothing_heavy(run_python, tmp_path):
    done = run_python("-c", LIGHT, tmp_path / "model")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().endswith(str(tmp_path / "model" / "1"))


def test_rooms_load_lazily_and_unknown_names_are_rejected(build):
    import s2d_tf

    assert set(s2d_tf.__all__) == set(dir(s2d_tf)) == {"__version__", "trainers", *build.libraries}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = s2d_tf.nothing
