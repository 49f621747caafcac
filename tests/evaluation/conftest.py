"""Finished runs of tiny networks with untrained weights: what is tested here is not training.

Imports are inside the fixtures: this file is read before tests/conftest.py can give TensorFlow its
two devices.
"""

import pytest

ARCHITECTURE = "wrn_10_2_s2"
NO_TIMES = "s2d_tf.evaluation.runs_and_entries.inference_time", lambda *_: (0.5, 1.25)
TINY = {"depth": 10, "width": 1, "stem_stride": 2}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("predictions")


@pytest.fixture
def passes(monkeypatch):
    """Counts the examples of each call of a network."""
    from s2d_tf import models

    counted, original = [], models.Predictor.predict_raw

    def counting(self, x, *args):
        counted.append(len(x))
        return original(self, x, *args)

    monkeypatch.setattr(models.Predictor, "predict_raw", counting)
    return counted


@pytest.fixture(scope="session")
def network():
    """`network(cls, seed)` makes a small model of digits with random weights."""
    import keras

    from s2d_tf import layers

    def make(cls, seed=0, dropout=0.0, **options):
        images = keras.Input((8, 8, 1))
        initializer = keras.initializers.GlorotUniform(seed)
        features = keras.layers.Flatten()(images)
        features = keras.layers.Dense(12, "relu", kernel_initializer=initializer)(features)
        backbone = keras.Model(images, layers.Dropout(dropout, seed=seed)(features))
        return cls(backbone, 8, mean=(78.0,), stddev=(96.0,), seed=seed, **options)

    return make


@pytest.fixture(scope="session")
def untrained():
    """`untrained(directory, method, ...)` makes such a run on digits and returns its directory."""
    from s2d_tf import zoo
    from s2d_tf.zoo import networks, recipes, weights

    def make(directory, method, seed=0, split="train", members=None):
        recipe = recipes.resolve(f"{ARCHITECTURE}.{method}.digits").replace(arguments=TINY)
        recipe = recipe.replace(num_members=members) if members else recipe
        run = zoo.Run(directory, recipe, seed, split).write()
        if recipe.draws == "ensemble":
            for index in range(recipe.num_members):
                make(run.member_directory(index), recipe.member, seed + index)
        else:
            weights.save(networks.build_network(recipe, seed), run.weights())
        return directory

    return make


@pytest.fixture
def no_times(monkeypatch):
    """No times are measured, which is tested by itself."""
    monkeypatch.setattr(*NO_TIMES)


@pytest.fixture(scope="session")
def evaluate():
    """`evaluation.evaluate_run` without a log and without measuring times."""
    from s2d_tf import evaluation

    def run(*args, **kwargs):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(*NO_TIMES)
            return evaluation.evaluate_run(*args, **{"log": lambda _: None, **kwargs})

    return run


@pytest.fixture(scope="session")
def evaluated(untrained, evaluate, tmp_path_factory):
    """An evaluated ensemble of three plain networks, an S2D network, and the lines of the log."""
    folder, lines = tmp_path_factory.mktemp("runs"), []
    made = [
        untrained(folder / "ensemble", "ensemble", members=3),
        untrained(folder / "s2d", "s2d", split="train_without_validation"),
    ]
    for directory in made:
        evaluate(directory, bootstrap=20, log=lines.append)
    return made, lines
