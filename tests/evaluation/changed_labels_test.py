"""Finding changed training labels, from the recipe to the metrics of a run."""

import json

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from s2d_tf import data, evaluation, paper, recipes, storage, training
from s2d_tf.evaluation import result_tables
from s2d_tf.evaluation.changed_labels import ChangedLabels
from s2d_tf.recipes import own_data

NAME = "wrn_10_2_s2.s2d.digits"
NOISE = "data.label_noise=symmetric@0.25"


class TestRecipe:
    def test_recipes_without_it_are_as_before(self):
        """Hashes of runs and checkpoints are of this dict."""
        for name in recipes.names():
            assert "label_noise" not in recipes.resolve(name).to_dict()["data"]

    def test_it_is_part_of_what_defines_a_run(self, tmp_path):
        noisy = recipes.override(recipes.resolve(NAME), [NOISE])
        assert recipes.Recipe.from_dict(noisy.to_dict()) == noisy
        assert recipes.overrides(noisy) == ["--set data.label_noise=symmetric@0.25"]
        storage.Run.create(tmp_path / "run", noisy, 0)
        with pytest.raises(storage.RunError, match="received another run"):
            storage.Run.create(tmp_path / "run", recipes.resolve(NAME), 0)

    def test_members_of_an_ensemble_share_it(self):
        ensemble = recipes.resolve("wrn_10_2_s2.s2d_ensemble.digits")
        noisy = recipes.override(ensemble, [NOISE])
        assert noisy.member_recipe.data.label_noise == "symmetric@0.25"

    @pytest.mark.parametrize("value", ["symmetric", "symmetric@0", "pair@0.2", "symmetric@1.5"])
    def test_bad_values(self, value):
        with pytest.raises(recipes.RecipeError, match=r"data\.label_noise: expected symmetric@RA"):
            recipes.override(recipes.resolve(NAME), [f"data.label_noise={value}"])

    def test_labels_that_are_trained_on(self):
        noisy = recipes.override(recipes.resolve(NAME), [NOISE])
        _, labels = own_data.load_arrays(noisy, "train")
        given = own_data.training_labels(noisy, labels)
        assert np.mean(given != labels) == pytest.approx(0.25)
        np.testing.assert_array_equal(given, data.noisy_labels(labels, 0.25, num_classes=8))
        assert own_data.training_labels(recipes.resolve(NAME), labels) is labels

    def test_runs_with_it_are_no_seeds_of_runs_without(self, make_run, tmp_path):
        run = make_run(NAME)
        noisy = tmp_path / "noisy"
        storage.Run.create(noisy, recipes.override(recipes.resolve(NAME), [NOISE]), 0)
        (noisy / "metrics.json").write_text(json.dumps({"run/weights": "noisy"}))
        from s2d_tf.evaluation import results

        grouped = results.groups(evaluation.collect([run, noisy]))
        assert [dataset for _, dataset in grouped] == [
            "digits",
            "digits with symmetric@0.25 label noise",
        ]


class TestScores:
    rng = np.random.default_rng(0)
    changed = rng.random(400) < 0.2
    found = ChangedLabels(
        "mine",
        changed,
        {"total": rng.normal(size=400) + changed, "data": rng.normal(size=400) + 2 * changed},
    )

    def test_changed_labels_are_the_positives(self):
        metrics = self.found.metrics()
        for name, values in self.found.scores.items():
            expected = sklearn_metrics.roc_auc_score(self.changed, values)
            assert metrics[f"mine/changed_auroc/{name}"] == pytest.approx(expected)
            expected = sklearn_metrics.average_precision_score(self.changed, values)
            assert metrics[f"mine/changed_aupr/{name}"] == pytest.approx(expected)
        assert metrics["mine/changed_labels"] == self.changed.mean()

    def test_the_comparison_with_other_scores_has_an_interval(self):
        metrics, found = self.found.metrics(), self.found.intervals(200)
        assert set(found) == {
            f"mine/changed_auroc/{name}" for name in ("total", "data", "data_minus_total")
        }
        gap = metrics["mine/changed_auroc/data"] - metrics["mine/changed_auroc/total"]
        interval = found["mine/changed_auroc/data_minus_total"]
        assert interval["estimate"] == pytest.approx(gap)
        assert 0 < interval["low"] < gap < interval["high"]


@pytest.fixture(scope="module")
def noisy_run(tmp_path_factory):
    recipe = recipes.override(recipes.resolve(NAME), [NOISE], epochs=3)
    recipe = recipe.replace(arguments={"depth": 10, "width": 1, "stem_stride": 2})
    settings = training.Settings(strategy="one_device", verbose=0)
    return training.train(recipe, tmp_path_factory.mktemp("noisy") / "run", 0, settings)


def test_training_sees_the_changed_labels(noisy_run, monkeypatch, tmp_path):
    """The same recipe, given the changed labels by hand, ends in the same weights."""
    clean = recipes.Recipe.from_dict(noisy_run.recipe.replace(data={"label_noise": None}).to_dict())
    images, labels = own_data.load_arrays(clean, "train")
    given = own_data.training_labels(noisy_run.recipe, labels)
    monkeypatch.setattr(own_data, "load_arrays", lambda *_: (images, given))
    settings = training.Settings(strategy="one_device", verbose=0)
    other = training.train(clean, tmp_path / "run", 0, settings)
    assert other.weights().read_bytes() == noisy_run.weights().read_bytes()


def test_evaluate_adds_them(noisy_run, evaluate):
    found = evaluate(noisy_run.directory, bootstrap=10)
    assert found["digits/changed_labels"] == pytest.approx(0.25)
    for name in ("confidence", "total", "data", "knowledge", "loss"):
        assert 0 <= found[f"digits/changed_auroc/{name}"] <= 1
    # What training has not fitted to, it tells apart: the loss of a changed label is larger.
    assert found["digits/changed_auroc/loss"] > 0.6
    intervals = json.loads((noisy_run.directory / "intervals.json").read_text())
    assert "digits/changed_auroc/data_minus_loss" in intervals
    assert "digits/nll" in intervals
    # The test labels are the official ones.
    _, labels = data.load_arrays("digits", "test")
    assert found["data/digits/images"] == len(labels)
    assert found["data/digits/fingerprint"] == data.fingerprint(*data.load_arrays("digits", "test"))


def test_other_runs_are_not_slowed(evaluated):
    (_, s2d), _ = evaluated
    metrics = json.loads((s2d / "metrics.json").read_text())
    assert not [key for key in metrics if "changed" in key or "scod" in key or "shift" in key]


def test_tables_show_them_and_keep_such_runs_apart(make_run, tmp_path):
    noisy = tmp_path / "noisy"
    name = "wrn_10_2_s2.s2d.cifar100"
    storage.Run.create(noisy, recipes.override(recipes.resolve(name), [NOISE]), 0)
    found = {"cifar100/accuracy": 0.111, "cifar100/changed_auroc/data": 0.876, "run/weights": "n"}
    (noisy / "metrics.json").write_text(json.dumps(found))
    clean = make_run(name, 0, {"cifar100/accuracy": 0.555})
    results = evaluation.collect([clean, noisy])
    made = {table.caption: table for table in paper.tables_of(results)}
    own = str([table for caption, table in made.items() if caption.startswith("Table")])
    assert "11.1" not in own
    assert "55.5" in own
    overview = made["wrn_10_2_s2 on cifar100 with symmetric@0.25 label noise: test performance"]
    assert "11.1" in str(overview)
    table = result_tables.changed_labels_table({"S2D": [found]}, "cifar100")
    assert [cell.text for cell in table.rows[0]] == ["S2D", "", "", "87.6", "", ""]
    assert result_tables.changed_labels_table({"S2D": [{}]}, "cifar100") is None
    claimed = [section.title for section in paper.report_sections(results)]
    assert claimed == ["Tables", "The paper's claims: wrn_10_2_s2 on cifar100"]


class TestHuman:
    def test_the_file_is_named(self, tmp_path):
        with pytest.raises(data.MissingDataError, match=r"CIFAR-100N\.npz, received no such file"):
            data.change_labels(np.arange(100), "human", "cifar100", 100, tmp_path)

    def test_it_is_read_from_the_data_folder(self, tmp_path):
        labels = np.random.default_rng(0).integers(0, 100, 300)
        noisy = data.noisy_labels(labels, 0.4, num_classes=100)
        (tmp_path / "cifar100n").mkdir()
        path = tmp_path / "cifar100n" / "CIFAR-100N.npz"
        np.savez(path, noisy_label=noisy, clean_label=labels)
        received = data.change_labels(labels, "human", "cifar100", 100, tmp_path)
        np.testing.assert_array_equal(received, noisy)

    def test_other_datasets_have_none(self):
        with pytest.raises(ValueError, match="expected the dataset cifar100 for 'human'"):
            data.change_labels(np.arange(8), "human", "digits", 8)


def test_class_dependent_noise_of_cifar100_stays_in_the_superclass():
    labels = np.arange(100).repeat(5)
    received = data.change_labels(labels, "class_dependent@0.4", "cifar100", 100)
    changed = received != labels
    assert changed.mean() == pytest.approx(0.4)
    np.testing.assert_array_equal(
        received[changed], np.array(data.cifar100_partners())[labels[changed]]
    )
