"""A network whose features are its pixels, so that golden features are its inputs."""

import json
import pathlib
import types

import keras
import numpy as np
import pytest

from s2d_tf import models, posthoc

FOLDER = pathlib.Path(__file__).parent / "golden"
IMAGE = (2, 2, 3)


@pytest.fixture(scope="session")
def golden():
    """Arrays by name, options by method."""
    with np.load(FOLDER / "golden.npz") as file:
        arrays = {name: file[name] for name in file.files}
    facts = json.loads((FOLDER / "golden.json").read_text(encoding="utf-8"))
    return types.SimpleNamespace(**arrays, options=facts["options"], arrays=arrays)


def network(kind, kernel, bias):
    inputs = keras.Input(IMAGE)
    backbone = keras.Model(inputs, keras.layers.Flatten()(inputs))
    model = {"categorical": models.Classifier, "dirichlet": models.S2DClassifier}[kind](
        backbone, kernel.shape[1], seed=0
    )
    model.head.kernel.assign(kernel[None])
    model.head.bias.assign(bias[None])
    return model


@pytest.fixture(scope="session")
def model(golden):
    """A categorical network with the golden head."""
    return network("categorical", golden.kernel, golden.bias)


@pytest.fixture(scope="session")
def dirichlet_model(golden):
    """The same as a Dirichlet network."""
    return network("dirichlet", golden.kernel, golden.bias)


def images(features):
    return np.reshape(features, [-1, *IMAGE])


@pytest.fixture(scope="session")
def data(golden):
    """`(inputs, labels)` by name: train, calibration, test."""
    return {
        name: (images(golden.arrays[f"{name}_features"]), golden.arrays[f"{name}_labels"])
        for name in ("train", "calibration", "test")
    }


@pytest.fixture(scope="session")
def cached(model, data):
    """`Outputs` of the categorical network by name."""
    return {name: posthoc.collect(model, data[name]) for name in data}
