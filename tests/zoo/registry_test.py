"""Walks the entries with weights, so that an entry is tested by existing."""

import json

import pytest

from s2d_tf import data, files, metrics, zoo
from s2d_tf.evaluation import runs_and_entries
from s2d_tf.trainers import publishing
from s2d_tf.trainers.publishing import provenance
from s2d_tf.zoo import entries
from s2d_tf.zoo.entries import CARD, ENTRY

PRETRAINED = zoo.names(pretrained=True)
LIGHT = [name for name in PRETRAINED if zoo.entry(name).recipe.draws != "ensemble"]
MEASURED_BY_DEFAULT = "wrn_10_2_s2.s2d.digits"


@pytest.mark.parametrize("name", PRETRAINED)
def test_the_files_of_an_entry(name):
    """All that can be said without building the network."""
    folder = zoo.directory() / name
    record = entries.read((folder / ENTRY).read_bytes(), folder)
    assert record.name == record.recipe.name == name
    for item in record.weights:
        path = folder.parent / (item.entry or name) / item.file
        assert files.sha256(path) == item.sha256, path
    listed = {item.file for item in record.weights if item.entry is None}
    listed |= {ENTRY, CARD, record.golden.file}
    listed |= {name for key, name in record.provenance.items() if key == "picture"}
    assert {path.name for path in folder.iterdir()} == listed
    assert files.sha256(folder / record.golden.file) == record.golden.sha256
    card, terms = (folder / CARD).read_text("utf-8"), data.info(record.recipe.source_dataset).terms
    assert card == publishing.card.text(record)
    assert terms
    assert f"The weights are licensed under Apache-2.0. {terms}\n" in card
    assert record.metrics["run/name"] == name
    assert record.metrics["cost/parameters"] == record.parameters


@pytest.mark.parametrize(
    "name", [n if n in LIGHT else pytest.param(n, marks=pytest.mark.slow) for n in PRETRAINED]
)
def test_an_entry_answers_as_when_it_was_published(name):
    folder, record, predictor = zoo.directory() / name, zoo.entry(name).record, zoo.load(name)
    assert predictor.num_parameters == record.parameters
    assert predictor.class_names == data.info(record.recipe.source_dataset).class_names
    stored = json.loads((folder / record.golden.file).read_text())
    assert provenance.golden_difference(predictor, stored) < provenance.GOLDEN_TOLERANCE


def test_the_stated_accuracy_of_one_entry_is_measured_again():
    record = zoo.entry(MEASURED_BY_DEFAULT).record
    images, labels = data.load_arrays("digits", "test")
    assert data.fingerprint(images, labels) == record.metrics["data/digits/fingerprint"]
    probs = zoo.load(record.name).predict_uncertainty(images)["probs"]
    # Another order of sums may turn the few images that lie on a border.
    stated = record.metrics["digits/accuracy"]
    assert metrics.accuracy(probs, labels) == pytest.approx(stated, abs=5 / len(labels))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PRETRAINED) - {MEASURED_BY_DEFAULT}))
def test_the_stated_metrics_of_every_entry_are_measured_again(name, real_data_dir, tmp_path):
    stated = zoo.entry(name).record.metrics
    opened = zoo.open_model(name)
    found, _ = runs_and_entries.evaluate_opened(opened, real_data_dir, tmp_path, log=print)
    sets = [key.split("/")[1] for key in stated if key.endswith("/fingerprint")]
    others = [s for s in sets if stated[f"data/{s}/fingerprint"] != found[f"data/{s}/fingerprint"]]
    if others:
        pytest.skip(f"{others} in {real_data_dir} are not the copies that {name} was measured on")
    keys = [key for key in stated if key.split("/")[0] in sets]
    assert {f"{opened.recipe.source_dataset}/{key}" for key in ("accuracy", "nll", "ece")} < {*keys}
    wrong = {key: (stated[key], found[key]) for key in keys if abs(stated[key] - found[key]) > 2e-3}
    assert not wrong
