"""Tiny models of every method, exported once for all tests of this folder."""

import types

import numpy as np
import pytest


@pytest.fixture(scope="session")
def build_model():
    """Builds the predictor of a method on the digits, with random weights and statistics."""
    from s2d_tf import recipes
    from s2d_tf.recipes import build

    def make(method):
        recipe = recipes.resolve(f"wrn_10_2_s2.{method}.digits")
        small = {"depth": 10, "width": 1, "stem_stride": 2}
        draws = recipe.num_members if recipe.draws == "point" else 2
        recipe = recipe.replace(arguments=small, num_members=draws, model={"num_draws": 7})
        names = [recipe.member] * 2 if recipe.draws == "ensemble" else [method]
        networks = [
            build.build_network(recipe.sibling(name).replace(arguments=small), seed)
            if recipe.draws == "ensemble"
            else build.build_network(recipe, seed)
            for seed, name in enumerate(names)
        ]
        predictor = build.build_predictor(recipe, networks)
        _shake(predictor)
        return predictor

    return make


def _shake(model):
    """Moves every weight, so that no two are equal and no statistic is at its start."""
    random = np.random.RandomState(1)
    for weight in model.weights:
        if "seed" in weight.path:
            continue
        noise = random.normal(size=weight.shape)
        if any(part in weight.path for part in ("variance", "statistics", "stddev")):
            weight.assign(0.1 * np.abs(noise) + (0.0 if "stddev" in weight.path else 0.5))
        else:
            # The Gaussian's log-scales are exponents of exponents.
            scale = 0.003 if "scale_head" in weight.path else 0.1
            weight.assign(np.asarray(weight) + scale * noise)


@pytest.fixture(scope="session")
def exports(build_model, tmp_path_factory):
    """`exports(method)`: its model, its version folder and the loaded signatures; made once."""
    import tensorflow as tf

    from s2d_tf import export

    made = {}

    def get(method):
        if method not in made:
            model = build_model(method)
            folder = tmp_path_factory.mktemp("exports") / method
            path = export.save(model, folder, class_names="01234567", metadata={"name": method})
            loaded = tf.saved_model.load(str(path))
            made[method] = types.SimpleNamespace(
                model=model, path=path, loaded=loaded, signatures=loaded.signatures
            )
        return made[method]

    return get


@pytest.fixture(scope="session")
def images():
    """Seven random images."""
    return np.random.RandomState(3).randint(0, 256, [7, 8, 8, 1]).astype(np.uint8)
