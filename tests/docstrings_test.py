"""Every public class and function has an example in its docstring that runs.

The laboratory may leave out examples.

The examples share a set-up: all packages by name, a tiny model, its backbone, images and labels.
They run in an empty folder, apart from `pictures/`, a folder of images with two classes, and
`run/`, a finished and evaluated run directory.
"""

import contextlib
import doctest
import importlib
import importlib.util
import inspect
import io
import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import s2d_tf
from s2d_tf import files, models, posthoc, zoo
from s2d_tf.zoo import networks, recipes, runs, weights

LABORATORY = ("trainers.publishing", "trainers.studies", "trainers.training")
PACKAGES = [name for name in s2d_tf.__all__ if name[0] != "_"] + ["zoo.recipes", *LABORATORY]

# Examples that need an extra: they are left out where it is not installed.
NEEDS = {"export.save_onnx": "tf2onnx"}


@pytest.fixture(scope="module")
def scope():
    return set_up()


def set_up() -> dict:
    """The names that examples may use."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input([4, 4, 1])
    features = keras.layers.Dense(8, "relu")(keras.layers.Flatten()(inputs))
    backbone = keras.Model(inputs, features)
    model = models.S2DClassifier(backbone, 3, seed=0)
    random = np.random.default_rng(0)
    images = random.integers(0, 256, [40, 4, 4, 1], dtype=np.uint8)
    # Labels that an untrained network gets right more often than not.
    labels = posthoc.collect(model, images).member_logits[0].argmax(axis=-1)
    labels[:3] = range(3)
    head = model.head.kernel
    head.assign(head + 0.01 * random.normal(size=head.shape))
    packages = {name.split(".")[-1]: importlib.import_module(f"s2d_tf.{name}") for name in PACKAGES}
    libraries = {"keras": keras, "np": np, "pathlib": pathlib, "tf": tf}
    own = {"backbone": backbone, "model": model, "images": images, "labels": labels}
    return {**packages, **libraries, **own}


def write_run(folder: pathlib.Path) -> None:
    name = "wrn_10_2_s2.s2d.digits"
    run = zoo.Run(folder, recipes.resolve(name), seed=0).write()
    weights.save(networks.build_network(run.recipe), run.weights())
    facts = {"finished": "2022-08-01T00:00:00+00:00", "training_seconds": 1.0, "parameters": 1}
    facts["last_epoch"] = {"loss": 0.1}
    files.write_json(folder / runs.SUMMARY, {"name": name, "seed": 0, **facts})
    metrics = {"run/weights": "run", **zoo.entry(name).record.metrics}
    files.write_json(folder / runs.METRICS, metrics)


def public(package: str) -> dict:
    """The classes and functions that a package offers; neither errors nor constants."""
    module = importlib.import_module(f"s2d_tf.{package}")
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", own)
    offered = {f"{package}.{name}": getattr(module, name) for name in names if name[0] != "_"}
    return {
        name: value
        for name, value in offered.items()
        if (inspect.isclass(value) or inspect.isroutine(value))
        and value.__module__.startswith("s2d_tf")
        and not (inspect.isclass(value) and issubclass(value, BaseException))
    }


def failure(name: str, value, scope: dict) -> str | None:
    """What is wrong with the example of a class or function, or with those of its methods."""
    examples = {each.name: each for each in doctest.DocTestFinder().find(value, name, globs=scope)}
    if not (name in examples and examples[name].examples) and not name.startswith("trainers."):
        return f"{name}: expected an example in the docstring, received none."
    told, runner = io.StringIO(), doctest.DocTestRunner(verbose=False)
    with contextlib.redirect_stderr(io.StringIO()):
        for each in examples.values():
            runner.run(each, out=told.write)
    return told.getvalue()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        for i in range(4):
            image = tf.io.encode_png(random.integers(0, 256, [8, 8, 1], dtype=np.uint8))
            (folder / "pictures" / name / f"{i}.png").write_bytes(image.numpy())
    write_run(folder / "run")
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_run(scope, inputs, package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    weights = scope["model"].get_weights(), scope["backbone"].get_weights()
    failures = []
    for name, value in public(package).items():
        if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
            continue
        failures.append(failure(name, value, scope))
        scope["model"].set_weights(weights[0])
        scope["backbone"].set_weights(weights[1])
    assert not any(failures), "\n".join(filter(None, failures))
