"""What a wheel holds, and that what it holds works where nothing else of the project is."""

import configparser
import fnmatch
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

from tests.packaging.imports_test import imports

CODE_FOLDERS = {"s2d_tf": "s2d_tf", "trainers": "s2d_tf/trainers"}


@pytest.fixture(scope="module")
def configuration(project_root):
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(project_root / "setup.cfg", encoding="utf-8")
    return parser


@pytest.fixture(scope="module")
def wheel(project_root, tmp_path_factory):
    """The wheel, with empty files for weights: to pack them takes seconds."""
    return build(project_root, tmp_path_factory, with_weights=False)


def build(project_root, tmp_path_factory, with_weights):
    """Builds the wheel without a network, from a copy, so that the checkout stays as it is."""
    try:
        import setuptools  # noqa: F401
    except ImportError:
        pytest.skip("needs setuptools to build a wheel")
    source = tmp_path_factory.mktemp("source")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "BUILD"):
        if (project_root / name).is_file():
            (source / name).write_bytes((project_root / name).read_bytes())
    for folder in ("s2d_tf", "trainers", "zoo"):
        for path in files_in(project_root, folder):
            target = source / path.relative_to(project_root)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix in (".h5", ".safetensors") and not with_weights:
                target.touch()
            else:
                os.symlink(path, target)
    target = tmp_path_factory.mktemp("wheel")
    # As `python -m build` does it: a source archive, and from that the wheel.
    run_backend("build_sdist", source, target)
    (archive,) = target.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(target, filter="data")
    run_backend("build_wheel", target / archive.name.removesuffix(".tar.gz"), target)
    (path,) = target.glob("*.whl")
    return path


def run_backend(hook, folder, target):
    program = f"import sys; from setuptools import build_meta; build_meta.{hook}(sys.argv[1])"
    result = subprocess.run(
        [sys.executable, "-c", program, str(target)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]


@pytest.fixture(scope="module")
def contents(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files_in(project_root, folder):
    return sorted(
        path
        for path in (project_root / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


@pytest.fixture(scope="module")
def in_the_wheel(configuration):
    """Whether a path in the zoo is in the wheel; some entries are in the repository only."""
    left_out = configuration["options.exclude_package_data"]["s2d_tf.zoo_data"].split()
    return lambda path: not any(fnmatch.fnmatch(path, pattern) for pattern in left_out)


def test_the_wheel_holds_the_code_the_programs_and_the_zoo(project_root, contents, in_the_wheel):
    expected = set()
    for folder, inside in {**CODE_FOLDERS, "zoo": "s2d_tf/zoo_data"}.items():
        paths = [p.relative_to(project_root / folder) for p in files_in(project_root, folder)]
        paths = [path.as_posix() for path in paths]
        expected |= {f"{inside}/{p}" for p in paths if folder != "zoo" or in_the_wheel(p)}
    assert len(expected) > 20
    assert {name for name in contents if ".dist-info/" not in name} == expected


def install(wheel, folder, *options):
    """Installs the wheel into a new virtual environment; returns its `bin` and pip's result."""
    venv.create(folder)
    bin_folder = folder / "bin"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    result = subprocess.run(
        [*pip, "--python", bin_folder / "python", "install", *options, wheel],
        capture_output=True,
        text=True,
        check=False,
    )
    return bin_folder, result


def check_installed(bin_folder, project_root, cwd, in_the_wheel):
    """The command, the package and the zoo work, and come from the environment alone."""

    def run(*command):
        return subprocess.run(
            [bin_folder / command[0], *command[1:]],
            cwd=cwd,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    program = (
        "import s2d_tf, s2d_tf.trainers\n"
        "from s2d_tf import _paths, cli\n"
        "print(s2d_tf.__file__, s2d_tf.trainers.__file__, _paths.zoo_directory(), sep='\\n')\n"
        "print(*cli.commands())\n"
    )
    *paths, commands = run("python", "-c", program).splitlines()
    assert all(path.startswith(str(bin_folder.parent)) for path in paths), paths
    modules = (path.stem for path in (project_root / "trainers").glob("*.py"))
    assert commands.split() == sorted(name for name in modules if not name.startswith("_"))
    assert run("s2d", "--help").startswith("usage: s2d COMMAND")
    assert "Flags:" in run("s2d", "train", "--help")
    listed = run("s2d", "list").split()
    for path in (project_root / "zoo" / "pretrained").glob("*/entry.json"):
        inside = in_the_wheel(path.relative_to(project_root / "zoo").as_posix())
        assert (path.parent.name in listed) == inside


def test_the_wheel_works_in_an_empty_environment(wheel, tmp_path, project_root, in_the_wheel):
    bin_folder, result = install(wheel, tmp_path / "env", "--no-deps", "--no-index")
    assert result.returncode == 0, result.stderr
    # The dependencies are those of this environment. Their folder alone, not the links to
    # checkouts in it.
    (site_packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    check_installed(bin_folder, project_root, tmp_path, in_the_wheel)


@pytest.mark.slow
def test_the_wheel_brings_its_dependencies(tmp_path_factory, tmp_path, project_root, in_the_wheel):
    wheel = build(project_root, tmp_path_factory, with_weights=True)
    assert wheel.stat().st_size < 40e6
    bin_folder, result = install(wheel, tmp_path / "env")
    if result.returncode and "No matching distribution found" in result.stderr:
        pytest.skip("needs a package index that can be reached")
    assert result.returncode == 0, result.stderr
    check_installed(bin_folder, project_root, tmp_path, in_the_wheel)
    program = "from s2d_tf import zoo; zoo.load('wrn_10_2_s2.s2d.digits')"
    subprocess.run([bin_folder / "python", "-c", program], cwd=tmp_path, check=True)


def test_every_dependency_of_the_library_is_declared(project_root, configuration):
    """Whatever s2d_tf imports comes with it, or with an extra that its owner names."""
    distributions = {
        "absl": "absl-py",
        "apache_beam": "apache-beam",
        "keras_hub": "keras-hub",
        "sklearn": "scikit-learn",
        "tensorflow_datasets": "tensorflow-datasets",
        "tensorflow_probability": "tensorflow-probability",
        "ai_edge_litert": "ai-edge-litert",
        # These come with others, which cannot do without them.
        "h5py": "keras",
        "onnx": "tf2onnx",
        "PIL": "matplotlib",
        "google": "tensorflow",
        "scipy": "scikit-learn",
        "tqdm": "tensorflow-datasets",
        "pyarrow": "tensorflow-datasets",
        "h11": "uvicorn",
    }
    declared = configuration["options"]["install_requires"]
    for extra, text in configuration["options.extras_require"].items():
        declared += text if extra not in ("test", "dev") else ""
    names = {
        line.split("#")[0].strip().split(">=")[0].split("[")[0] for line in declared.splitlines()
    }
    for path in (p for folder in CODE_FOLDERS for p in (project_root / folder).rglob("*.py")):
        for top in {name.split(".")[0] for name, _ in imports(path)} - {"s2d_tf", "trainers"}:
            if top not in sys.stdlib_module_names:
                assert distributions.get(top, top) in names, f"{path.name} imports {top}"
