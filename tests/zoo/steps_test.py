"""Runs and entries that carry fitted steps: loaded, or rejected by name."""

import dataclasses
import json
import shutil

import pytest

from s2d_tf import data, files, posthoc, zoo
from s2d_tf.posthoc import chain
from s2d_tf.zoo import entries, loading, recipes, runs, weights
from s2d_tf.zoo.entries import ENTRY
from tests.trainers.publishing.conftest import SINGLE, make_run

FACTS = {"data": "digits", "split": "train"}


@pytest.fixture(scope="module")
def fitted():
    """A published model with a temperature and a detector."""
    examples = data.load_arrays("digits", "train")
    scaled = posthoc.TemperatureScaling().fit(zoo.load(SINGLE), examples)
    return posthoc.KNN(k=5).fit(scaled, examples)


def save_steps(folder, predictor):
    """Writes the steps as `s2d fit-step` does."""
    folder.mkdir(exist_ok=True)
    return [
        posthoc.save(own, folder / runs.step_file(index, own.step), FACTS)
        for index, own in enumerate(chain(predictor))
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory, fitted):
    directory = tmp_path_factory.mktemp("runs") / "run"
    made = zoo.Run(directory, recipes.resolve(SINGLE), 0).write()
    weights.save(zoo.load(SINGLE), made.weights())
    save_steps(directory / "steps", fitted)
    return directory


@pytest.fixture
def entry(tmp_path, fitted):
    folder = shutil.copytree(zoo.directory() / SINGLE, tmp_path / SINGLE)
    record = entries.read((folder / ENTRY).read_bytes(), folder)
    listed = tuple(
        entries.StepFile(path.name, files.sha256(path), repr(own.step), "digits/train")
        for path, own in zip(save_steps(folder, fitted), chain(fitted), strict=True)
    )
    files.write_text(folder / ENTRY, dataclasses.replace(record, steps=listed).to_json())
    return folder


def test_steps_of_another_model_are_rejected(run, tmp_path):
    make_run(tmp_path / "other", recipes.resolve(SINGLE), seed=1)
    shutil.copytree(run / "steps", tmp_path / "other" / "steps")
    with pytest.raises(posthoc.StepError, match="received one with other weights or steps"):
        zoo.load(tmp_path / "other")


def test_a_missing_or_foreign_file_is_an_error_and_an_unfinished_one_is_not(run, tmp_path):
    run = shutil.copytree(run, tmp_path / "run")
    (run / "steps" / ".partial_1234_2_gen.safetensors").write_bytes(b"")
    assert len(chain(zoo.load(run))) == 2
    (run / "steps" / "0_TemperatureScaling.safetensors").unlink()
    with pytest.raises(zoo.RunError, match="steps: expected files 0_NAME"):
        zoo.load(run)
    (run / "steps" / "0_TemperatureScaling.safetensors").write_bytes(b"damaged")
    with pytest.raises(posthoc.StepError, match="expected a fitted post-hoc step"):
        zoo.load(run)


BAD_STEPS = {
    "a path": {"file": "../0_knn.safetensors"},
    "another hash": {"sha256": "0" * 64},
    "no hash": {"sha256": "abc"},
    "a missing file": {"file": "1_gen.safetensors"},
    "another step": {"step": "KNN(k=6)"},
    "other data": {"fitted_on": "digits/test"},
    "an unknown key": {"code": "import os"},
    "a number for text": {"step": 3},
}


def test_a_bad_record_of_a_step_is_rejected(entry):
    good = json.loads((entry / ENTRY).read_text())
    first, second = good["steps"]
    listed = [{"steps": [first, second | change]} for change in BAD_STEPS.values()]
    listed += [{"steps": good["steps"] * 21}, {"steps": "knn"}, {"steps": [3]}]
    for change in listed:
        (entry / ENTRY).write_text(json.dumps(good | change))
        with pytest.raises(zoo.ZooError) as caught:
            zoo.load(entry)
        assert "\n" not in str(caught.value)
    (entry / ENTRY).write_text(json.dumps(good | {"steps": [second]}))
    with pytest.raises(posthoc.StepError, match="other weights or steps"):
        zoo.load(entry)


def test_no_more_is_read_than_all_steps_may_have(run, entry, monkeypatch):
    monkeypatch.setattr(loading, "MAX_STEP_BYTES", 500)
    for where in (run, entry):
        with pytest.raises(zoo.ZooError, match=r"expected at most .* bytes, received more"):
            zoo.load(where)
