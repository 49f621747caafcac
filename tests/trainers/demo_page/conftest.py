"""A tiny model of texts beside that of images, and the demo page in a thread."""

import pytest

from tests import servers
from tests.trainers.scoring.conftest import tiny_model  # noqa: F401


@pytest.fixture(scope="session")
def sentences():
    """A model of texts."""
    import keras

    from s2d_tf import models

    x = keras.Input([], dtype="string", name="texts")
    split = keras.layers.TextVectorization(output_sequence_length=4, vocabulary=["red", "one"])
    start = keras.initializers.RandomNormal(stddev=2.0, seed=2)
    ids = keras.layers.Embedding(4, 4, start)(split(x))
    backbone = keras.Model(x, keras.layers.GlobalAveragePooling1D()(ids))
    model = models.S2DClassifier(backbone, 3, seed=0)
    model.class_names = ["colors", "numbers", "others"]
    return model


@pytest.fixture(scope="session")
def showing():
    """`with showing(demo) as url`: the demo page on a free port."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the extra s2d_tf[serve]")
    pytest.importorskip("starlette", reason="needs the extra s2d_tf[serve]")
    from s2d_tf.trainers.demo_page import app

    def run(demo):
        config = uvicorn.Config(app.create_app(demo), port=0, log_level="warning")
        return servers.running(uvicorn.Server(config))

    return run
