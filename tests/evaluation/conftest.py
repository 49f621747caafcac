"""Evaluated runs that nobody trained."""

import json

import pytest

from s2d_tf import training


@pytest.fixture
def make_run(tmp_path):
    """Writes an evaluated run of a method without training it; returns its directory."""

    def make(name, seed=0, metrics=None, folder=None, members=None):
        recipe = training.recipes.resolve(name)
        if members:
            recipe = recipe.replace(num_members=members)
        directory = folder or tmp_path / f"{name}_{seed}_{members}"
        training.Run.create(directory, recipe, seed)
        values = {"run/weights": str(directory), **(metrics or {})}
        (directory / "metrics.json").write_text(json.dumps(values))
        return directory

    return make
