"""A small zoo, published from runs whose weights were never trained."""

import types

import pytest

from s2d_tf import files, zoo
from s2d_tf.evaluation import runs_and_entries
from s2d_tf.trainers import publishing, training
from s2d_tf.zoo import networks, recipes, weights

ENSEMBLE = "wrn_10_2_s2.s2d_ensemble.digits"
SINGLE, MONTE_CARLO = "wrn_10_2_s2.s2d.digits", "wrn_10_2_s2.s2d_mc.digits"


def quiet(line):
    pass


def make_run(directory, recipe, seed=0, split="train"):
    """A run directory as training leaves it, with fresh weights."""
    run = zoo.Run(directory, recipe, seed, split).write()
    network = networks.build_network(recipe, seed)
    predictor = networks.build_predictor(recipe, [network])
    weights.save(predictor if recipe.draws == "swag" else network, run.weights())
    summary = {"name": recipe.name, "seed": seed, "finished": "2026-01-01T00:00:00+00:00"}
    files.write_json(run.directory / "summary.json", summary | {"training_seconds": 1.0})
    return run


def without_times(patch):
    """The speed of a network has no place in an entry's test; the one to compare is not built."""
    patch.setattr(runs_and_entries, "inference_time", lambda *_: (1.0, 1.0))
    patch.setattr(runs_and_entries, "networks", types.SimpleNamespace(build_network=lambda _: None))


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """An evaluated ensemble of two."""
    folder = tmp_path_factory.mktemp("runs") / "ensemble"
    recipe = training.override(recipes.resolve(ENSEMBLE), members=2)
    zoo.Run(folder, recipe, 0).write()
    for seed in range(2):
        make_run(folder / f"member_{seed}", recipe.member_recipe, seed)
    with pytest.MonkeyPatch.context() as patch:
        without_times(patch)
        runs_and_entries.evaluate_run(folder, log=quiet)
    return folder


@pytest.fixture(scope="session")
def small_zoo(tmp_path_factory, runs):
    """A single model in half precision, an ensemble and a Monte Carlo entry that refer to it."""
    folder, evaluate = tmp_path_factory.mktemp("zoo"), publishing.publication.evaluate
    evaluated = {ENSEMBLE: files.read_json(runs / "metrics.json")}

    def evaluate_once(opened, *args):
        """What half precision moves has a test of its own."""
        if opened.name not in evaluated:
            evaluated[opened.name] = evaluate(opened, *args)
        return evaluated[opened.name]

    with pytest.MonkeyPatch.context() as patch:
        without_times(patch)
        patch.setattr(publishing.publication, "evaluate", evaluate_once)
        # Untrained weights answer by small margins; the rule itself has a test of its own.
        patch.setattr(publishing.publication, "TOLERANCE", 1.0)
        for run, name in (
            (runs / "member_0", SINGLE),
            (runs, ENSEMBLE),
            (runs / "member_0", MONTE_CARLO),
        ):
            publishing.publish(run, name, folder, other_numbers=True, log=quiet)
    return folder
