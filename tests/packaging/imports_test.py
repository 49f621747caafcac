"""The one-way import order, read from the sources."""

import ast
import graphlib
import os
import subprocess
import sys

import pytest

# A submodule may import those of the rows above its own. Within a row, what BUILD says (see
# build_file_test.py), as long as it stays free of cycles.
ROWS = (
    {"files", "numerics"},
    {"layers", "losses", "optimizers", "metrics", "uncertainty", "backbones", "data"},
    {"models"},
    {"posthoc", "recipes"},
    {"storage"},
    {"zoo", "export", "training"},
    {"evaluation"},
    {"paper", "publishing", "serving"},
    # What a program does, where that is too much for a trainer.
    {"quickstart"},
)
RANK = {name: rank for rank, row in enumerate(ROWS) for name in row}
PUBLIC = set(RANK) - {"quickstart", "publishing", "serving"}
# `data` and `backbones` stay useful by themselves.
NARROW = {"data": {"numerics", "layers"}, "backbones": {"numerics", "layers"}}
# The parts without TensorFlow that all may use and that load the others only lazily.
FOUNDATION = {"_bootstrap", "_lazy", "_paths"}
DISPATCHER = {"__init__", "__main__", "cli", "_help", "_quiet"} | FOUNDATION


def imported_modules(path):
    """Yields the full dotted names that a file imports, wherever in it the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: expected absolute imports, received a relative one"
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def submodule(name):
    """The submodule of s2d_tf that a dotted name lies in; None for anything outside."""
    parts = name.split(".")
    return parts[1] if parts[0] == "s2d_tf" and len(parts) > 1 else None


@pytest.fixture(scope="module")
def library_imports(project_root):
    """For each submodule of s2d_tf, the submodules it imports."""
    package = project_root / "s2d_tf"
    imports = {}
    for path in package.rglob("*.py"):
        owner = path.relative_to(package).with_suffix("").parts[0]
        found = {submodule(name) for name in imported_modules(path)} - {None, owner, "__version__"}
        imports.setdefault(owner, set()).update(found)
    return imports


def test_every_submodule_has_its_place_in_the_order(library_imports):
    assert set(library_imports) - DISPATCHER <= set(RANK)


def test_imports_go_one_way(library_imports):
    wrong = [
        f"{owner} imports {used}"
        for owner in set(library_imports) - DISPATCHER
        for used in library_imports[owner] - FOUNDATION
        if RANK.get(used, 99) > RANK[owner]
    ]
    assert not wrong


@pytest.mark.parametrize("name", sorted(NARROW))
def test_data_and_backbones_import_little(library_imports, name):
    assert library_imports.get(name, set()) - FOUNDATION <= NARROW[name]


def test_the_import_graph_has_no_cycle(library_imports):
    graphlib.TopologicalSorter(library_imports).prepare()


def test_the_dispatcher_imports_no_submodule(library_imports):
    for name in DISPATCHER:
        assert library_imports.get(name, set()) <= DISPATCHER, name


def test_modules_within_a_package_have_no_cycle(project_root):
    package = project_root / "s2d_tf"
    names = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(project_root).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for name, path in names.items():
        # `from s2d_tf.numerics import x` may mean the module s2d_tf.numerics.x or a name in it.
        found = {
            target if target in names else target.rpartition(".")[0]
            for target in _toplevel_imports(path)
        }
        graph[name] = {target for target in found if target in names and target != name}
    graphlib.TopologicalSorter(graph).prepare()


def _toplevel_imports(path):
    """What is imported when the file is: not what its functions import when they are called."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def test_the_backend_is_checked_wherever_keras_is_imported(project_root):
    from s2d_tf import _bootstrap

    package = project_root / "s2d_tf"
    unchecked = set()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        checked = {parts[0], ".".join(parts[:2])} & _bootstrap.NEEDS_KERAS
        if not checked and any(name.split(".")[0] == "keras" for name in _toplevel_imports(path)):
            unchecked.add(".".join(parts))
    assert not unchecked, "not in NEEDS_KERAS of s2d_tf/_bootstrap.py"


def trainers(project_root):
    return sorted((project_root / "trainers").glob("*.py"))


def test_trainers_import_only_the_library(project_root):
    allowed = {"absl", "s2d_tf"} | set(sys.stdlib_module_names)
    for path in trainers(project_root):
        names = set(imported_modules(path))
        assert {name.split(".")[0] for name in names} <= allowed, path.name
        assert not [name for name in names if submodule(name) in ("trainers", "cli")], path.name


def test_no_file_from_outside_is_trusted(project_root):
    """Weights are arrays: neither Keras' deserialiser nor pickle appears anywhere."""
    banned = {"load_model", "pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    paths = [*trainers(project_root), *(project_root / "s2d_tf").rglob("*.py")]
    assert len(paths) > 10
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = {part for name in imported_modules(path) for part in name.split(".")}
        words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        words |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not words & banned, path
        # np.load(..., allow_pickle=True) is pickle by another name.
        keywords = [node for node in ast.walk(tree) if isinstance(node, ast.keyword)]
        for node in keywords:
            if node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path


@pytest.mark.parametrize("name", ["s2d_tf", "s2d_tf.trainers", "s2d_tf.cli"])
def test_light_modules_import_nothing_heavy(project_root, name):
    program = (
        f"import sys, {name}; print(sorted({{'tensorflow', 'keras', 'numpy'}} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(project_root)},
        check=True,
    )
    assert result.stdout == "[]\n"


def test_submodules_load_lazily_and_unknown_names_are_refused():
    import s2d_tf

    assert set(dir(s2d_tf)) >= PUBLIC
    assert set(s2d_tf.__all__) == PUBLIC | {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = s2d_tf.nothing
