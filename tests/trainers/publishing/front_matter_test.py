"""The metadata at the top of cards, read as a hub reads it."""

import pytest

from s2d_tf import zoo
from s2d_tf.trainers.publishing import front_matter
from s2d_tf.zoo.layout import CARD

NAMES = sorted(zoo.names(pretrained=True))


def read(text):
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, of the extra s2d_tf[test]")
    start, block, body = text.split("---\n", 2)
    assert start == ""
    return yaml.safe_load(block), body


@pytest.mark.parametrize("name", NAMES)
def test_cards_state_the_metrics_of_their_record(name):
    entry = zoo.entry(name)
    values, body = read((entry.folder / CARD).read_text(encoding="utf-8"))
    assert body.startswith(f"\n# {name}\n")
    assert values["library_name"] == "s2d_tf"
    (model,) = values["model-index"]
    assert model["name"] == name
    first, *others = model["results"]
    assert first["task"]["type"] == values["pipeline_tag"]
    dataset = entry.recipe.source_dataset
    stated = {each["type"]: each["value"] for each in first["metrics"]}
    metrics = entry.record.metrics
    assert stated == {
        "accuracy": pytest.approx(metrics[f"{dataset}/accuracy"], abs=1e-6),
        "nll": pytest.approx(metrics[f"{dataset}/nll"], abs=1e-6),
        "expected_calibration_error": pytest.approx(metrics[f"{dataset}/ece"], abs=1e-6),
        "brier_score": pytest.approx(metrics[f"{dataset}/brier"], abs=1e-6),
    }
    measured = {key.split("/")[0] for key in metrics if key.endswith("/auroc/total")}
    assert {each["dataset"]["type"] for each in others} == {
        front_matter.HUB_DATASETS.get(other, other)
        for other in entry.recipe.out_of_distribution
        if other in measured
    }
    for each in others:
        assert all(0 <= metric["value"] <= 1 for metric in each["metrics"])
        assert each["task"]["type"] == "out-of-distribution-detection"


def test_one_softmax_states_no_knowledge():
    for method, count in (("individual", 2), ("s2d", 4)):
        record = zoo.entry(f"wrn_10_2_s2.{method}.digits").record
        values, _ = read(front_matter.text(record) + "\n")
        results = values["model-index"][0]["results"]
        assert [len(each["metrics"]) for each in results] == [4, count, count]


def test_the_hubs_own_reader_takes_it():
    cards = pytest.importorskip("huggingface_hub.repocard_data", reason="needs s2d_tf[hf]")
    entry = zoo.entry("wrn_10_2_s2.s2d.digits")
    values, _ = read((entry.folder / CARD).read_text(encoding="utf-8"))
    data = cards.ModelCardData(**{k: v for k, v in values.items() if k != "model-index"})
    assert data.library_name == "s2d_tf"
    name, results = cards.model_index_to_eval_results(values["model-index"])
    assert name == entry.name
    found = {each.metric_type: each.metric_value for each in results[:1]}
    assert found == {"accuracy": round(entry.record.metrics["digits/accuracy"], 6)}


def test_texts_with_marks_of_yaml_stay_texts():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, of the extra s2d_tf[test]")
    hard = {"a": ["x: y", "- z", "#", 'say "no"', "ä"], "b": {"c": [{"d": 1, "e": [{"f": None}]}]}}
    assert yaml.safe_load("\n".join(front_matter._lines(hard))) == hard
