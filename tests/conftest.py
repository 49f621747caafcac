"""Fixtures and settings that all tests share."""

import functools
import importlib.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import pytest

# Before TensorFlow and matplotlib are imported by any test.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MPLBACKEND", "Agg")

# So that a failed assertion there shows its values.
pytest.register_assert_rewrite("tests.contracts")

ROOT = pathlib.Path(__file__).resolve().parent.parent

try:
    import hypothesis
except ImportError:  # pytest reports it for the files that need it.
    pass
else:
    # The same examples on every machine and every run; no deadline, since the first call traces a
    # graph.
    hypothesis.settings.register_profile("s2d", derandomize=True, deadline=None, database=None)
    hypothesis.settings.load_profile("s2d")


def pytest_collectstart(collector):
    """Gives TensorFlow two logical CPU devices before the first test file that may use it.

    Devices cannot be added once TensorFlow has run an operation, so a fixture would come too late
    for a file with tensors at its top level. Everything that does not ask for the second device
    runs on the first as before. The packaging tests do not use TensorFlow and are spared its
    import.
    """
    if not isinstance(collector, pytest.Module) or collector.path.parent.name == "packaging":
        return
    if "tensorflow" not in sys.modules:
        from s2d_tf import cli

        cli.quiet_tensorflow()
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    if tf.config.get_logical_device_configuration(cpu) is None:
        logical = [tf.config.LogicalDeviceConfiguration() for _ in range(2)]
        tf.config.set_logical_device_configuration(cpu, logical)


@pytest.fixture(autouse=True)
def _same_start():
    """Every test starts from the same seeds and the default precision, whatever ran before it."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    keras = sys.modules.get("keras")
    if keras is None:
        yield
        return
    keras.utils.set_random_seed(0)
    policy = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(policy)


@pytest.fixture
def leave_no_flags():
    """For tests of commands in this process: others parse flags of their own."""
    yield
    sys.modules["absl.flags"].FLAGS.unparse_flags()


@pytest.fixture(scope="session")
def two_replicas():
    """The process's MirroredStrategy, over two logical CPU devices."""
    import tensorflow as tf

    from s2d_tf.trainers.training import strategies

    if len(tf.config.list_logical_devices("CPU")) < 2:
        pytest.fail("TensorFlow was used before tests/conftest.py could give it two CPU devices")
    return strategies.make("mirrored")


@pytest.fixture(scope="session")
def project_root():
    """The checkout's top folder."""
    return ROOT


@pytest.fixture(scope="session")
def real_data_dir():
    """A TFDS data_dir with the real CIFAR-100, SVHN and Tiny ImageNet, or a skip."""
    named = os.environ.get("S2D_TEST_DATA_DIR")
    folder = pathlib.Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs real data, but {folder} does not exist: set S2D_TEST_DATA_DIR")
    return str(folder)


@pytest.fixture(scope="session")
def run_python():
    """Runs Python in a process of its own; returns the CompletedProcess.

    `run_python("-c", program, timeout=60, env={"S2D_DEBUG": "1"})`; stdout and stderr are text.
    """

    def run(*args, timeout=300, env=None, cwd=None):
        # The checkout comes first on the path, so that a test from another folder sees the same
        # code.
        path = os.pathsep.join(p for p in (str(ROOT), os.environ.get("PYTHONPATH")) if p)
        return subprocess.run(
            [sys.executable, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            check=False,
        )

    return run


@pytest.fixture
def run_s2d(run_python):
    """Runs `s2d` as a person would: `run_s2d("list")`; options as of `run_python`."""
    return functools.partial(run_python, "-m", "s2d_tf")


@pytest.fixture(scope="session")
def load_script(project_root):
    """`load_script("examples/text_intents.py")`: a script of the project as a module."""

    def load(path):
        path = project_root / path
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def mutate():
    """`mutate(data, rng)` damages a copy of a file's bytes, for readers of files from outside."""
    words = [0, 1, 0xFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 4096]

    def mutate(data, rng):
        """A damaged copy: bits, bytes, words, cuts, insertions and moved blocks."""
        data = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
            at, how = rng.randrange(len(data)), rng.randrange(7)
            if how == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif how == 1:
                data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            elif how == 2:
                data[at : at + 8] = rng.choice(words).to_bytes(8, "little")
            elif how == 3:
                data[at : at + 4] = rng.randbytes(4)
            elif how == 4:
                other, size = rng.randrange(len(data)), rng.randrange(1, 64)
                data[at : at + size] = data[other : other + size]
            elif how == 5:
                data[at:at] = rng.randbytes(rng.randrange(1, 32))
            else:
                del data[at : at + rng.randrange(1, 32)]
            data = data or bytearray(1)
        return bytes(data)

    return mutate


@pytest.fixture(scope="session")
def browser():
    """Chromium, or a skip."""
    api = pytest.importorskip("playwright.sync_api", reason="needs the extra s2d_tf[browser]")
    path = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if path is None:
        pytest.skip("needs chromium or google-chrome on the PATH")
    with api.sync_playwright() as play:
        # No sandbox: containers run tests as root. The page is our own.
        opened = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 16 MB of its own, or a skip."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
        subprocess.run(mount, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def make_run(tmp_path):
    """Writes an evaluated run of a method without training it; returns its directory."""
    from s2d_tf import zoo
    from s2d_tf.zoo import recipes

    def make(name, seed=0, metrics=None, folder=None, members=None):
        recipe = recipes.resolve(name)
        if members:
            recipe = recipe.replace(num_members=members)
        directory = folder or tmp_path / f"{name}_{seed}_{members}"
        zoo.Run(directory, recipe, seed).write()
        values = {"run/weights": str(directory), **(metrics or {})}
        (directory / "metrics.json").write_text(json.dumps(values))
        return directory

    return make
