"""Runs from directory to metrics and tables, on embedded data and untrained networks."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from s2d_tf import cli, evaluation, zoo
from s2d_tf.evaluation import Scored, runs_and_entries, tables


@pytest.fixture(scope="module")
def metrics(evaluated):
    return [json.loads((directory / "metrics.json").read_text()) for directory in evaluated[0]]


def test_what_is_written_is_flat_and_complete(metrics):
    ensemble, s2d = metrics
    for found in metrics:
        assert all(isinstance(value, (int, float, str)) for value in found.values())
        assert len(found["data/digits_photos/fingerprint"]) == 64
        assert found["data/digits/images"] == 1283
        assert found["versions/tensorflow"]
        assert found["run/seed"] == 0
        assert found["digits/scaled_nll"] <= found["digits/nll"] + 1e-3
    assert ensemble["run/name"] == "wrn_10_2_s2.ensemble.digits"
    assert ensemble["run/num_members"] == 3
    assert "digits_heldout/auroc/knowledge" in s2d
    assert ensemble["cost/parameters"] == 3 * s2d["cost/parameters"]
    assert (s2d["cost/inference_ms"], s2d["cost/relative_inference_time"]) == (0.5, 1.25)
    # Fitted on what was not trained on.
    assert ensemble["run/temperature_fitted_on"] == "other half of test"
    assert s2d["run/temperature_fitted_on"] == "validation"


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


@pytest.fixture(scope="module")
def scored(evaluated):
    return [evaluation.score_run(directory) for directory in evaluated[0]]


def test_intervals_of_a_run_and_of_two_in_pairs(evaluated, scored):
    ensemble, s2d = scored
    stored = json.loads((evaluated[0][1] / "intervals.json").read_text())
    assert {"digits/nll", "digits/ece", "digits_photos/auroc/knowledge"} <= stored.keys()
    for key, value in stored.items():
        assert value["estimate"] == pytest.approx(s2d.metrics()[key], abs=1e-9)
        assert value["low"] <= value["high"]
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
    for directory, score in zip(evaluated[0], ("knowledge", "total"), strict=True):
        path = shutil.copytree(directory, tmp_path / score) / "recipe.json"
        content = json.loads(path.read_text())
        content["recipe"]["detection_score"] = score
        path.write_text(json.dumps(content))
    pair = tmp_path / "knowledge", tmp_path / "total"
    table = evaluation.compare_runs(*pair, num_resamples=5)
    texts = [[cell.text for cell in row] for row in table.rows]
    found = {row[0]: float(row[2]) for row in texts if row[1] == "%AUROC named score"}
    first, second = (each.metrics() for each in scored)
    expected = first["digits_photos/auroc/knowledge"] - second["digits_photos/auroc/total"]
    assert found["Photographs"] == pytest.approx(100 * expected, abs=0.006)
    assert "knowledge uncertainty of the first, total uncertainty of the second" in str(table)


def test_an_unfinished_run_says_how_to_go_on(evaluated, tmp_path):
    dataclasses.replace(zoo.Run.open(evaluated[0][1]), directory=tmp_path).write()
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
    name = "wrn_10_2_s2.s2d.digits"
    for place in (name, zoo.directory() / name):
        assert cli.main(["table", str(place), "--format=markdown"]) == 0
        assert "95.1" in capsys.readouterr().out
    assert cli.main(["table", "wrn_10_2_s2.swag.digits"]) == 1
    assert "expected an entry with weights, received one without" in capsys.readouterr().err
    assert cli.main(["compare", s2d, ensemble, "--bootstrap=10"]) == 0
    assert "Digits 0 to 7" in capsys.readouterr().out
    for command in (["evaluate"], ["table"], ["compare", s2d], ["report"]):
        assert cli.main(command) == 1
        assert ": expected " in capsys.readouterr().err


@pytest.mark.usefixtures("no_times")
def test_runs_and_entries_are_opened_alike(evaluated, metrics, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))
    found, _ = evaluation.evaluate_opened(zoo.open_model(evaluated[0][1]), log=lambda _: None)
    assert found["digits/nll"] == metrics[1]["digits/nll"]
    assert "run/test_readings" not in found
    name = "wrn_10_2_s2.s2d.digits"
    opened = zoo.open_model(name)
    older = opened.recipe.replace(out_of_distribution=())  # than what the zoo's record names
    opened = dataclasses.replace(opened, recipe=older)
    found, _ = evaluation.evaluate_opened(opened, log=lambda _: None)
    assert found["run/name"] == name
    assert "digits_heldout/auroc/knowledge" in found
    assert len(list((tmp_path / "predictions" / name).iterdir())) == 3
    table = evaluation.compare_runs(name, evaluated[0][1], num_resamples=5)
    assert table.caption == f"{name} minus {evaluated[0][1]}"
    for chosen in ("", "digits_photos"):
        assert cli.main(["evaluate", name, f"--ood={chosen}", "--limit=40"]) == 0
        out, err = capsys.readouterr()
        counts = {k: v for k, v in json.loads(out).items() if re.fullmatch("data/.*/images", k)}
        assert counts == {f"data/{each}/images": 40 for each in ("digits", chosen) if each}
        assert f"{chosen or 'digits'}: 100%" in err


def overconfident(num, seed, factor=2.5):
    """Labels drawn from a softmax, and logits that are `factor` times too large."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num, 5)) * 2
    probs = scipy.special.softmax(logits, axis=-1)
    labels = np.array([rng.choice(5, p=p) for p in probs])
    return Scored(scipy.special.log_softmax(factor * logits, axis=-1), {}, labels)


def nll(log_probs, labels, temperature):
    scaled = scipy.special.log_softmax(log_probs / temperature, axis=-1)
    return -scaled[np.arange(len(labels)), labels].mean()


def best_temperature(scored):
    def loss(temperature):
        return nll(scored.log_probs, scored.labels, temperature)

    options = {"bounds": (0.1, 20), "method": "bounded", "options": {"xatol": 1e-9}}
    return scipy.optimize.minimize_scalar(loss, **options).x


def test_the_temperature_is_that_of_the_held_out_examples():
    test, held_out = overconfident(800, 0), overconfident(500, 1)
    found = runs_and_entries.scaled_metrics("digits", test, held_out)
    expected = best_temperature(held_out)
    assert found["digits/temperature"] == pytest.approx(expected, rel=1e-5)
    scaled = nll(test.log_probs, test.labels, expected)
    assert found["digits/scaled_nll"] == pytest.approx(scaled, abs=1e-7)
    assert found["digits/scaled_nll"] < nll(test.log_probs, test.labels, 1.0)


def test_without_them_each_half_is_scaled_by_the_other():
    test = overconfident(801, 0)
    found = runs_and_entries.scaled_metrics("digits", test)
    order = np.random.default_rng(runs_and_entries.HALVES_SEED).permutation(801)
    total, temperatures = 0.0, []
    for own, other in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        part = Scored(test.log_probs[other], {}, test.labels[other])
        temperatures.append(best_temperature(part))
        total += nll(test.log_probs[own], test.labels[own], temperatures[-1]) * len(own)
    assert found["digits/scaled_nll"] == pytest.approx(total / 801, abs=1e-7)
    assert found["digits/temperature"] == pytest.approx(np.sqrt(np.prod(temperatures)), rel=1e-5)
    assert temperatures[0] != pytest.approx(temperatures[1], rel=1e-3)
