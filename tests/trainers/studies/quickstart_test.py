"""The first thing that a new user runs, from outside."""

import contextlib
import csv

import pytest
from PIL import Image

from s2d_tf import files, metrics, zoo
from s2d_tf.trainers import training
from s2d_tf.trainers.studies import quickstart
from s2d_tf.zoo import networks, recipes, weights


@contextlib.contextmanager
def short_recipes():
    """The quickstart's recipes cut to tiny networks, of which one is trained, for an epoch."""
    with pytest.MonkeyPatch.context() as patch:
        resolve_full, train_full = recipes.resolve, training.train

        def resolve(name):
            return resolve_full(name).replace(
                training={"epochs": 1}, arguments={"depth": 10, "width": 1, "stem_stride": 2}
            )

        def train(recipe, directory, seed, settings):
            if seed == 0 and recipe.method == "s2d":
                return train_full(recipe, directory, seed, settings)
            run = zoo.Run(directory, recipe, seed).write()
            weights.save(networks.build_network(recipe, seed), run.weights())
            return run

        patch.setattr(recipes, "resolve", resolve)
        patch.setattr(training, "train", train)
        yield


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    out = tmp_path_factory.mktemp("quickstart")
    with short_recipes():
        return out, quickstart.run(out, seeds=2, verbose=0)


def test_writes_the_table_and_the_figures(outcome):
    out, _ = outcome
    for name in ("reliability.png", "uncertainty.png"):
        assert Image.open(out / name).size > (500, 200)
    rows = list(csv.reader((out / "table.csv").read_text(encoding="utf-8").splitlines()))
    assert sum(row[0].startswith("S2D") for row in rows if row) == 2  # a near and a far set
    assert "| S2D Individual |" in (out / "table.md").read_text(encoding="utf-8")


def test_explains_in_sentences_that_hold_the_measured_numbers(outcome):
    out, text = outcome
    values = [
        files.read_json(out / f"s2d_{seed}" / "metrics.json")["digits_photos/auroc/knowledge"]
        for seed in range(2)
    ]
    assert f"{50 * sum(values):.1f}%" in text.replace("\n", " ")
    assert "of 2 seeds" in text


@pytest.mark.slow
def test_s2d_beats_its_twin_over_ten_seeds(tmp_path):
    """NLL and ECE on embedded data, paired: the interval of the difference excludes zero."""
    quickstart.run(tmp_path, seeds=10, verbose=0)
    runs = {
        method: [
            files.read_json(tmp_path / f"{method}_{seed}" / "metrics.json") for seed in range(10)
        ]
        for method in quickstart.METHODS
    }
    for key in ("digits/nll", "digits/ece"):
        pairs = zip(*(runs[method] for method in quickstart.METHODS), strict=True)
        _, low, _ = metrics.mean_interval([plain[key] - s2d[key] for plain, s2d in pairs])
        assert low > 0, key
