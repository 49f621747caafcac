"""Runs from directory to metrics, tables and page, on embedded data and untrained networks."""

import dataclasses
import html.parser
import json
import shutil

import numpy as np
import pytest

from s2d_tf import cli, evaluation, models, zoo
from s2d_tf.evaluation import cost, drawing, intervals, run_evaluation
from s2d_tf.models.contract import Contract, InputTensor
from s2d_tf.trainers import studies as paper
from s2d_tf.trainers.studies import report_pictures, result_tables
from s2d_tf.zoo import networks, recipes

ARCHITECTURE = "wrn_10_2_s2"


@pytest.fixture(scope="module")
def runs(evaluated):
    return evaluated


@pytest.fixture(scope="module")
def metrics(runs):
    return [json.loads((directory / "metrics.json").read_text()) for directory in runs[0]]


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


def test_an_ensembles_members_are_evaluated_with_it_from_the_same_passes(runs, metrics):
    (ensemble, _), lines = runs
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


def test_costs_are_stored(metrics):
    ensemble, s2d = metrics
    assert ensemble["cost/parameters"] == 3 * s2d["cost/parameters"]
    assert s2d["cost/inference_ms"] == 0.5
    assert s2d["cost/relative_inference_time"] == 1.25


def test_a_gaussian_student_is_measured_by_its_mean_too(untrained, evaluate, tmp_path):
    run = untrained(tmp_path / "run", "h2d_gauss", split="train_without_validation")
    found = evaluate(run)
    assert found["run/temperature_fitted_on"] == "validation"
    for key in ("digits/nll", "digits/scaled_nll", "digits_photos/auroc/knowledge"):
        dataset, name = key.split("/", 1)
        assert found[f"{dataset}/mean_{name}"] != found[key]
    performance, *_ = result_tables.overview(evaluation.collect([run]))
    titles = [row[0].text for row in performance.rows]
    assert titles == ["H2D-Gauss", "H2D-Gauss, by its mean"]


def test_times_are_measured(runs):
    model = zoo.Run.open(runs[0][1]).predictor()
    milliseconds, ratio = cost.inference_time(model, model, batch_size=4, max_seconds=0.0)
    assert milliseconds > 0
    assert ratio > 0


def test_intervals_hold_the_estimate(runs, metrics):
    found = json.loads((runs[0][1] / "intervals.json").read_text())
    assert {"digits/accuracy", "digits/nll", "digits/ece", "digits_photos/auroc/knowledge"} <= set(
        found
    )
    for key, value in found.items():
        assert value["estimate"] == pytest.approx(metrics[1][key], abs=1e-9)
        assert value["low"] <= value["high"]


@pytest.fixture(scope="module")
def gathered(runs):
    return [run_evaluation.gather_run(directory) for directory in runs[0]]


def test_two_runs_compared_in_pairs(gathered):
    ensemble, s2d = gathered
    found = intervals.of_gathered(s2d, ensemble, 20)
    same = intervals.of_gathered(s2d, s2d, 20)
    assert found["digits/nll"]["estimate"] == pytest.approx(
        s2d.metrics()["digits/nll"] - ensemble.metrics()["digits/nll"], abs=1e-9
    )
    assert all(v["low"] == v["estimate"] == v["high"] == 0 for v in same.values())
    table = intervals.difference_table(same, "same", 20)
    assert {row[-1].text for row in table.rows} == {"no clear difference"}
    lower_nll = {"digits/nll": {"estimate": -0.2, "low": -0.3, "high": -0.1}}
    (row,) = intervals.difference_table(lower_nll, "", 20).rows
    assert [cell.text for cell in row] == [
        "Digits 0 to 7", "NLL", "-0.200", "-0.300", "-0.100", "better"
    ]  # fmt: skip


def test_runs_on_other_images_are_not_compared(gathered):
    _, s2d = gathered
    facts = {"digits": {"images": 1283, "fingerprint": "0" * 64}}
    other = dataclasses.replace(s2d, facts=facts)
    with pytest.raises(ValueError, match="tested on the same images"):
        intervals.of_gathered(s2d, other, 5)


def test_the_scores_that_recipes_name_are_compared(runs, gathered, tmp_path):
    copies = []
    for directory, score in zip(runs[0], ("knowledge", "total"), strict=True):
        copies.append(shutil.copytree(directory, tmp_path / score))
        path = copies[-1] / "recipe.json"
        content = json.loads(path.read_text())
        content["recipe"]["detection_score"] = score
        path.write_text(json.dumps(content))
    table = evaluation.compare_runs(*copies, num_resamples=5)
    texts = [[cell.text for cell in row] for row in table.rows]
    found = {row[0]: float(row[2]) for row in texts if row[1] == "%AUROC named score"}
    first, second = (each.metrics() for each in gathered)
    expected = first["digits_photos/auroc/knowledge"] - second["digits_photos/auroc/total"]
    assert found["Photographs"] == pytest.approx(100 * expected, abs=0.006)
    assert "knowledge uncertainty of the first, total uncertainty of the second" in str(table)


@pytest.mark.usefixtures("no_times")
def test_the_commands(runs, metrics, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(report_pictures, "draw", lambda *_: [])  # Drawn in another test.
    ensemble, s2d = map(str, runs[0])
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
    assert cli.main(["report", s2d, f"--out={tmp_path / 'report'}"]) == 0
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "The paper&#x27;s claims" in page
    for command in (["evaluate"], ["table"], ["compare", s2d], ["report"]):
        capsys.readouterr()
        assert cli.main(command) == 1
        assert ": expected " in capsys.readouterr().err


@pytest.mark.usefixtures("no_times")
def test_an_entry_of_the_zoo(tmp_path, monkeypatch):
    name = f"{ARCHITECTURE}.s2d.digits"
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))
    found = evaluation.evaluate_entry(name, log=lambda _: None)
    assert found["run/name"] == name
    assert "digits_heldout/auroc/knowledge" in found
    assert len(list((tmp_path / "predictions" / name).iterdir())) == 3


@pytest.mark.parametrize("name", ["wrn_10_2_s2.s2d.digitz", "runs/nothing_here"])
def test_neither_run_nor_entry(name):
    with pytest.raises(ValueError, match=r"[Ee]xpected a") as caught:
        evaluation.evaluate_entry(name)
    assert "\n" not in str(caught.value)


def test_an_unfinished_run_says_how_to_go_on(tmp_path):
    recipe = recipes.resolve(f"{ARCHITECTURE}.s2d.digits")
    zoo.Run.create(tmp_path / "run", recipe, 0)
    with pytest.raises(ValueError, match="is not finished"):
        evaluation.evaluate_run(tmp_path / "run", log=lambda _: None)


def test_parameters_of_the_paper():
    """SWAG keeps mean and deviation, MC dropout nothing more."""
    recipe = recipes.resolve(f"{ARCHITECTURE}.individual.digits")
    model = networks.build_network(recipe.replace(model={"dropout": 0.2}))
    one = model.num_parameters
    assert one == sum(int(np.prod(w.shape)) for w in model.trainable_variables)
    assert models.Ensemble([model] * 5).num_parameters == 5 * one
    assert models.MonteCarloDropout(model).num_parameters == one
    assert models.SWAG(model).num_parameters == 2 * one


def test_times_take_turns(monkeypatch):
    """A machine that grows slower changes both alike, and so not their ratio."""
    now = [0.0]
    monkeypatch.setattr(cost.time, "perf_counter", lambda: now[0])

    class Model(models.Predictor):
        contract = Contract((InputTensor("images", (2, 2, 1), "float32"),))

        def __init__(self, seconds):
            super().__init__()
            self.seconds = seconds

    def seconds(function, images):
        now[0] += 0.1
        return function.seconds * (1 + now[0])

    monkeypatch.setattr(cost.tf, "function", lambda method: method.__self__)
    monkeypatch.setattr(cost, "_seconds", seconds)
    monkeypatch.setattr(Model, "__call__", lambda self, images: images)
    _, ratio = cost.inference_time(Model(0.3), Model(0.1))
    assert ratio == pytest.approx(3.0, rel=0.1)


def test_pictures_show_what_matters_most():
    variants = ["mc", "individual", "s2d_swag", "ensemble_20", "h2d_gauss", "en2d", "s2d"]
    ordered = sorted(variants, key=report_pictures._importance)
    assert ordered == ["individual", "s2d", "h2d_gauss", "mc", "s2d_swag", "en2d", "ensemble_20"]


class Page(html.parser.HTMLParser):
    """Every tag with its attributes, every anchor, and tags that were never closed."""

    VOID = {"meta", "link", "img", "br"}  # noqa: RUF012

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_fetches_nothing(runs, tmp_path, monkeypatch):
    made, _ = runs
    monkeypatch.setattr(drawing, "DPI", 40)  # Figures are looked at in report_test.py.
    monkeypatch.setattr(report_pictures, "NUM_EXAMPLES", 2)
    path = evaluation.write_report(
        made, tmp_path / "report", log=lambda _: None, sections=paper.report_sections
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert not [tag for tag, _ in page.tags if tag == "script"]
    addresses = [value for _, a in page.tags for key, value in a.items() if key in ("src", "href")]
    assert {address.split(":")[0].split(";")[0][:1] for address in addresses} <= {"#", "d"}
    assert all(a.startswith(("#", "data:")) for a in addresses)
    assert "http" not in "".join(page.text) + "".join(a[:30] for a in addresses)
    identifiers = {a["id"] for _, a in page.tags if "id" in a}
    assert {a[1:] for a in addresses if a.startswith("#")} <= identifiers
    images = [a for tag, a in page.tags if tag == "img"]
    # Histograms, reliability, risk, and for each OOD set two curves; examples of every set.
    assert len(images) == 3 + 2 * 2 + 3
    assert all(a["alt"] for a in images)
    text = " ".join(page.text)
    for word in ("S2D Individual", "Deep ensemble of 3", "Section 5.1", "not run", "AUGRC"):
        assert word in text
    assert run_evaluation.PREDICTIONS not in text


def test_a_report_without_the_paper(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(report_pictures, "draw", lambda *_: [])
    path = evaluation.write_report(runs[0], tmp_path, log=lambda _: None)
    page = path.read_text(encoding="utf-8")
    assert "wrn_10_2_s2 on digits: test performance" in page
    assert "OOD detection results (Photographs)" in page
    assert "claims" not in page[page.index("<body>") :]

    def own(results):
        return [evaluation.Section("What's new", [f"<p>{len(results)} results</p>"])]

    path = evaluation.write_report(runs[0], tmp_path, log=lambda _: None, sections=own)
    page = path.read_text(encoding="utf-8")
    assert '<a href="#whats-new">What&#x27;s new</a>' in page
    assert '<h2 id="whats-new">What&#x27;s new</h2>\n<p>5 results</p>' in page
