"""Steps fitted on runs and entries by the command, and published with them."""

import json
import shutil

import numpy as np
import pytest

from s2d_tf import cli, data, files, posthoc, zoo
from s2d_tf.evaluation import runs_and_entries
from s2d_tf.posthoc import chain
from s2d_tf.trainers import publishing, studies
from s2d_tf.zoo import recipes, weights
from s2d_tf.zoo.entries import ENTRY
from tests.trainers.publishing.conftest import SINGLE, quiet, without_times
from tests.trainers.publishing.conftest import make_run as make_any_run


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    without_times(monkeypatch)
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))


def make_run(directory, split="train"):
    """A run with the weights of a published entry, so that its answers are not all wrong."""
    run = make_any_run(directory, recipes.resolve(SINGLE), split=split)
    weights.save(zoo.load(SINGLE), run.weights())
    return directory


@pytest.fixture(scope="module")
def stepped(tmp_path_factory):
    """A run whose network has four steps, fitted by the command."""
    directory = make_run(tmp_path_factory.mktemp("runs") / "s2d", "train_without_validation")
    for arguments in (
        ["temperature_scaling"],
        ["knn", "--set", "k=7"],
        ["ConformalSets", "--set", "coverage=0.8", "--set", "method=aps"],
        ["selective_classifier", "--set", "score=knn", "--set", "max_risk=0.4"],
    ):
        assert cli.main(["fit-step", str(directory), *arguments]) == 0
    return directory


@pytest.fixture(scope="module")
def images():
    return data.load_arrays("digits", "test")[0][:16]


@pytest.fixture
def entry(tmp_path):
    return shutil.copytree(zoo.directory() / SINGLE, tmp_path / SINGLE)


def fitted_by_hand(directory):
    """The same steps, fitted without files or caches."""
    model = zoo.open_run(zoo.Run.open(directory), with_steps=False).predictor
    train, held_out = (
        data.load_arrays("digits", split) for split in ("train_without_validation", "validation")
    )
    model = posthoc.TemperatureScaling().fit(model, held_out)
    model = posthoc.KNN(k=7).fit(model, train)
    model = posthoc.ConformalSets(0.8, "aps").fit(model, held_out)
    return posthoc.SelectiveClassifier(0.4, score="knn").fit(model, held_out)


def test_a_run_has_the_steps_that_the_command_fitted(stepped, images):
    assert [path.name for path in sorted((stepped / "steps").iterdir())] == [
        "0_TemperatureScaling.safetensors",
        "1_knn.safetensors",
        "2_prediction_set.safetensors",
        "3_abstain.safetensors",
    ]
    model = zoo.load(stepped)
    expected = fitted_by_hand(stepped)
    assert [repr(own.step) for own in chain(model)] == [repr(own.step) for own in chain(expected)]
    found, wanted = (each.predict_uncertainty(images) for each in (model, expected))
    assert set(found) == set(wanted)
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=1e-4, atol=1e-5, err_msg=key)
    bare = zoo.open_run(zoo.Run.open(stepped), with_steps=False).predictor
    assert not chain(bare)
    held_out = data.load_arrays("digits", "validation")
    temperature, knn, *_ = model.metadata["steps"]
    assert temperature["fitted_on"] == "digits/validation"
    assert temperature["fingerprint"] == data.fingerprint(*held_out)
    assert temperature["examples"] == len(held_out[0])
    assert knn["fitted_on"] == "digits/train_without_validation"
    assert knn["fitted_with"].startswith("s2d_tf ")
    json.dumps(model.metadata)


def test_a_step_twice_and_bad_options_are_errors(stepped, capsys):
    before = sorted((stepped / "steps").iterdir())
    for arguments, message in (
        (["knn"], "a key that the model does not have"),
        (["knnn"], "step: expected one such as KNN"),
        (["gen", "--set", "k=3"], "--set: expected options of GEN"),
        (["gen", "--set", "gamma=-3"], "gamma: expected a number above 0"),
        (["vector_scaling", "--split=none"], "received 'none'"),
        ([], "RUN_OR_NAME STEP: expected two arguments"),
    ):
        assert cli.main(["fit-step", str(stepped), *arguments]) == 1
        assert message in capsys.readouterr().err
    assert sorted((stepped / "steps").iterdir()) == before


def test_a_run_with_steps_is_evaluated_and_seen_as_another_method_without(stepped, tmp_path):
    run = shutil.copytree(stepped, tmp_path / "run")
    found = runs_and_entries.evaluate_run(run, log=quiet)
    assert found["run/step_0"] == "TemperatureScaling() fitted on digits/validation"
    assert found["run/step_1"].startswith("KNN(k=7")
    assert {"digits_photos/auroc/knn", "digits/set_coverage/prediction_set"} <= set(found)
    view = studies.views.view(zoo.Run.open(run), "s2d_mc", members=2).write()
    seen = runs_and_entries.evaluate_run(view.directory, log=quiet)
    assert not [key for key in seen if key.startswith("run/step")]


def test_publish_includes_the_steps_of_a_run(tmp_path, images):
    run = make_run(tmp_path / "run")
    publishing.fit_step(run, posthoc.TemperatureScaling(), split="test", log=quiet)
    publishing.fit_step(run, posthoc.KNN(k=5), log=quiet)
    metrics = runs_and_entries.evaluate_run(run, log=quiet)
    older = {key: value for key, value in metrics.items() if key != "run/step_1"}
    files.write_json(run / "metrics.json", older)
    with pytest.raises(publishing.PublishError, match="received those of other steps"):
        publishing.publish(run, SINGLE, tmp_path / "zoo", log=quiet)
    files.write_json(run / "metrics.json", metrics)
    folder = publishing.publish(run, SINGLE, tmp_path / "zoo", log=quiet)
    record = json.loads((folder / ENTRY).read_text())
    assert [(item["file"], item["fitted_on"]) for item in record["steps"]] == [
        ("0_TemperatureScaling.safetensors", "digits/test"),
        ("1_knn.safetensors", "digits/train"),
    ]
    assert record["num_members"] == 1
    assert "digits_photos/auroc/knn" in record["metrics"]
    assert "`KNN(k=5, " in (folder / "README.md").read_text()
    found, expected = (zoo.load(each).predict_uncertainty(images) for each in (folder, run))
    for key in ("probs", "knn", "knowledge"):
        np.testing.assert_array_equal(found[key], expected[key])
    for name in ("0_TemperatureScaling.safetensors", "1_knn.safetensors"):
        assert (folder / name).read_bytes() == (run / "steps" / name).read_bytes()


def test_a_step_is_fitted_on_an_entry(entry, images, capsys):
    before = zoo.load(entry)
    assert cli.main(["fit-step", str(entry), "knn", "--set", "k=5"]) == 0
    path = entry / "0_knn.safetensors"
    assert capsys.readouterr().out == f"Wrote {path}\n"
    model = zoo.load(entry)
    by_hand = posthoc.KNN(k=5).fit(before, data.load_arrays("digits", "train"))
    np.testing.assert_allclose(model.score(images), by_hand.score(images), atol=1e-4)
    record = zoo.entries.read((entry / ENTRY).read_text(), "entry")
    assert record.steps[0].sha256 == files.sha256(path)
    assert "digits_photos/auroc/knn" in record.metrics
    assert record.golden.sha256 == files.sha256(entry / "golden.json")
    assert cli.main(["fit-step", str(entry), "temperature_scaling"]) == 1
    assert "Pass --split=test" in capsys.readouterr().err
    assert cli.main(["fit-step", str(entry), "temperature_scaling", "--split=test"]) == 0
    assert [type(own.step).__name__ for own in chain(zoo.load(entry))] == [
        "KNN",
        "TemperatureScaling",
    ]
    text = (entry / ENTRY).read_text()
    assert zoo.entries.read(text, "entry").to_json() == text
