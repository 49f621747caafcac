"""The one-way import order, read from the sources."""

import ast
import functools
import graphlib
import sys

import pytest

# `data` and `backbones` stay useful by themselves.
NARROW = {"files", "numerics", "layers"}
# Loaded by their full names.
NOT_OFFERED = {"publishing", "quickstart", "serving"}


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported_modules(path):
    """Yields the full dotted names that a file imports, wherever in it the import stands."""
    for node in ast.walk(parsed(path)):
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


def test_every_submodule_has_its_place_in_the_order(library_imports, build):
    assert {name for name in library_imports if name[0] != "_"} == {*build.libraries, "cli"} - {
        name for name in build.libraries if not build.targets[name]["srcs"]
    }


def test_imports_go_one_way(library_imports, build):
    wrong = [
        f"{owner} imports {used}"
        for i, owner in enumerate(build.libraries)
        for used in library_imports.get(owner, ())
        if used[0] != "_" and used not in build.libraries[:i]
    ]
    assert not wrong, "against the order of ROWS in BUILD"


@pytest.mark.parametrize("name", ["backbones", "data"])
def test_data_and_backbones_import_little(library_imports, name):
    assert {used for used in library_imports[name] if used[0] != "_"} <= NARROW


def test_the_command_and_the_private_modules_import_no_library(library_imports):
    """All may use the private modules, which are there before TensorFlow is."""
    for name, used in library_imports.items():
        if name == "cli" or name[0] == "_":
            assert {each for each in used if each[0] != "_"} <= {"cli"}, name


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
    tree = parsed(path)
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def test_the_backend_is_checked_before_keras_is_imported(project_root):
    """`import s2d_tf._backend` comes first, in the file or in the `__init__` of its package."""
    unchecked = []
    for path in (project_root / "s2d_tf").rglob("*.py"):
        names = list(_toplevel_imports(path))
        roots = [name.split(".")[0] for name in names]
        if "keras" in roots:
            before = [*_toplevel_imports(path.with_name("__init__.py"))][:1]
            before += names[: roots.index("keras")]
            if "s2d_tf._backend" not in before:
                unchecked.append(str(path.relative_to(project_root)))
    assert not unchecked, "import s2d_tf._backend before Keras"


def test_errors_of_the_library_are_of_kinds_that_the_command_shows_in_one_line(project_root):
    bases = {}
    for path in (project_root / "s2d_tf").rglob("*.py"):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef) and node.bases:
                bases[node.name] = ast.unparse(node.bases[0]).split(".")[-1]
    known = {"ValueError", "RuntimeError", "ImportError", "OSError", "FileNotFoundError"}
    raised = {name for name in bases if name.endswith("Error") or name == "Preempted"}
    # The command's own, the server's (an answer to a client), and a metric.
    raised -= {"UsageError", "RequestError", "ExpectedCalibrationError"}
    assert {"Preempted", "NonFiniteLossError", "WorkerLostError", "RunError"} <= raised
    for name in raised:
        base = bases[name]
        while base in bases:
            base = bases[base]
        assert base in known, name


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
        tree = parsed(path)
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


@pytest.mark.parametrize("name", ["s2d_tf", "s2d_tf.cli"])
def test_light_modules_import_nothing_heavy(run_python, name):
    program = (
        f"import sys, {name}; print(sorted({{'tensorflow', 'keras', 'numpy'}} & set(sys.modules)))"
    )
    assert run_python("-c", program).stdout == "[]\n"


def test_submodules_load_lazily_and_unknown_names_are_rejected(build):
    import s2d_tf

    public = {"__version__", *build.libraries} - NOT_OFFERED
    assert set(s2d_tf.__all__) == set(dir(s2d_tf)) == public
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = s2d_tf.nothing
