"""Runs from directory to metrics, tables and page, on embedded data and untrained networks."""

import dataclasses
import json
import shutil

import pytest

from s2d_tf import cli, evaluation, zoo
from s2d_tf.evaluation import tables


@pytest.fixture(scope="module")
def metrics(evaluated):
    return [json.loads((directory / "metrics.json").read_text()) for directory in evaluated[0]]


def test_what_is_written_is_flat_and_complete(metrics):
    for found in metrics:
        assert all(isinstance(value, (int, float, str)) for value in found.values())
        assert 0 <= found["digits/accuracy"] <= 1
        assert len(found["data/digits_photos/fingerprint"]) == 64
        assert found["data/digits/images"] == 1283
        assert found["versions/tensorflow"]
        assert found["time/forward_seconds"] >= 0
        assert found["run/seed"] == 0
    assert metrics[0]["run/name"] == "wrn_10_2_s2.ensemble.digits"
    assert metrics[0]["run/num_members"] == 3
    assert "digits_heldout/auroc/knowledge" in metrics[1]
    assert metrics[0]["cost/parameters"] == 3 * metrics[1]["cost/parameters"]
    assert metrics[1]["cost/inference_ms"] == 0.5
    assert metrics[1]["cost/relative_inference_time"] == 1.25


def test_an_ensembles_members_are_evaluated_with_it_from_the_same_passes(evaluated, metrics):
    (ensemble, _), lines = evaluated
    paths = [ensemble / f"member_{i}" / "metrics.json" for i in range(3)]
    members = [json.loads(path.read_text()) for path in paths]
    assert [m["run/seed"] for m in members] == [0, 1, 2]
    assert members[0]["digits/nll"] != members[1]["digits/nll"]
    assert metrics[0]["time/forward_seconds"] == 0  # All of it was in the members' cache.
    assert sorted(p.name.split(".")[0] for p in (ensemble / "predictions").iterdir()) == sorted(
        3 * ["digits", "digits_heldout", "digits_photos"]
    )
    assert not (ensemble / "member_0" / "predictions").exists()
    assert len([line for line in lines if line.startswith("evaluating")]) == 5


def test_the_temperature_is_fitted_on_what_was_not_trained_on(metrics):
    ensemble, s2d = metrics
    assert ensemble["run/temperature_fitted_on"] == "other half of test"
    assert s2d["run/temperature_fitted_on"] == "validation"
    for found in metrics:
        assert found["digits/scaled_nll"] <= found["digits/nll"] + 1e-3


def test_intervals_hold_the_estimate(evaluated, metrics):
    found = json.loads((evaluated[0][1] / "intervals.json").read_text())
    assert {"digits/nll", "digits/ece", "digits_photos/auroc/knowledge"} <= found.keys()
    for key, value in found.items():
        assert value["estimate"] == pytest.approx(metrics[1][key], abs=1e-9)
        assert value["low"] <= value["high"]


@pytest.fixture(scope="module")
def scored(evaluated):
    return [evaluation.score_run(directory) for directory in evaluated[0]]


def test_two_runs_compared_in_pairs(scored):
    ensemble, s2d = scored
    found, same = s2d.intervals(ensemble, 20), s2d.intervals(s2d, 20)
    difference = s2d.metrics()["digits/nll"] - ensemble.metrics()["digits/nll"]
    assert found["digits/nll"]["estimate"] == pytest.approx(difference, abs=1e-9)
    assert all(v["low"] == v["estimate"] == v["high"] == 0 for v in same.values())
    lower_nll = {"digits/nll": {"estimate": -0.2, "low": -0.3, "high": -0.1}}
    (row,) = tables.difference_table(lower_nll, "", 20).rows
    texts = [cell.text for cell in row]
    assert texts == ["Digits 0 to 7", "NLL", "-0.200", "-0.300", "-0.100", "better"]
    facts = {"digits": {"images": 1283, "fingerprint": "0" * 64}}
    with pytest.raises(ValueError, match="digits: expected the same examples"):
        s2d.intervals(dataclasses.replace(s2d, facts=facts), 5)


def test_the_scores_that_recipes_name_are_compared(evaluated, scored, tmp_path):
    copies = []
    for directory, score in zip(evaluated[0], ("knowledge", "total"), strict=True):
        copies.append(shutil.copytree(directory, tmp_path / score))
        path = copies[-1] / "recipe.json"
        content = json.loads(path.read_text())
        content["recipe"]["detection_score"] = score
        path.write_text(json.dumps(content))
    table = evaluation.compare_runs(*copies, num_resamples=5)
    texts = [[cell.text for cell in row] for row in table.rows]
    found = {row[0]: float(row[2]) for row in texts if row[1] == "%AUROC named score"}
    first, second = (each.metrics() for each in scored)
    expected = first["digits_photos/auroc/knowledge"] - second["digits_photos/auroc/total"]
    assert found["Photographs"] == pytest.approx(100 * expected, abs=0.006)
    assert "knowledge uncertainty of the first, total uncertainty of the second" in str(table)


def test_an_unfinished_run_says_how_to_go_on(evaluated, tmp_path):
    run = zoo.Run.open(evaluated[0][1])
    dataclasses.replace(run, directory=tmp_path).write()
    with pytest.raises(ValueError, match=r"is not finished.*continues it"):
        evaluation.evaluate_run(tmp_path, log=lambda _: None)


@pytest.mark.usefixtures("no_times")
def test_the_commands(evaluated, metrics, capsys):
    ensemble, s2d = map(str, evaluated[0])
    assert cli.main(["evaluate", s2d]) == 0
    out, err = capsys.readouterr()
    again = json.loads(out)
    for key, value in metrics[1].items():
        if not key.startswith(("time/", "cost/", "run/test_readings")):
            assert again[key] == value, key
    assert again["run/test_readings"] == 2
    assert again["time/forward_seconds"] == 0
    assert f"evaluating {s2d}" in err
    assert cli.main(["table", ensemble, s2d, "--format=markdown"]) == 0
    out, _ = capsys.readouterr()
    assert "| S2D Individual |" in out
    assert "| Deep ensemble of 3 |" in out
    assert cli.main(["compare", s2d, ensemble, "--bootstrap=10"]) == 0
    assert "Digits 0 to 7" in capsys.readouterr().out
    for command in (["evaluate"], ["table"], ["compare", s2d], ["report"]):
        assert cli.main(command) == 1
        assert ": expected " in capsys.readouterr().err


@pytest.mark.usefixtures("no_times")
def test_runs_and_entries_are_opened_alike(evaluated, metrics, tmp_path, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))
    found, _ = evaluation.evaluate_opened(zoo.open_model(evaluated[0][1]), log=lambda _: None)
    assert found["digits/nll"] == metrics[1]["digits/nll"]
    assert "run/test_readings" not in found
    name = "wrn_10_2_s2.s2d.digits"
    found, _ = evaluation.evaluate_opened(zoo.open_model(name), log=lambda _: None)
    assert found["run/name"] == name
    assert "digits_heldout/auroc/knowledge" in found
    assert len(list((tmp_path / "predictions" / name).iterdir())) == 3
    table = evaluation.compare_runs(name, evaluated[0][1], num_resamples=5)
    assert table.caption == f"{name} minus {evaluated[0][1]}"
