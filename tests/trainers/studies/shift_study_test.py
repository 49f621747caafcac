"""`s2d shift` from models to JSON, tables, curves and the report, on a dozen images."""

import numpy as np
import pytest

from s2d_tf import cli, evaluation, files, zoo
from s2d_tf.evaluation import answers
from s2d_tf.trainers.datasets import corrupted
from s2d_tf.trainers.studies import report_pictures, shift_report, shift_study
from s2d_tf.zoo import networks, weights

COUNT = 12
METHODS = ("individual", "s2d")
NAME = "cifar100_c_generated"


@pytest.fixture
def few_images(tmp_path, monkeypatch):
    """CIFAR-100 with a dozen test images."""
    coarse = np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 3)).astype(np.uint8)
    images = coarse.repeat(4, axis=1).repeat(4, axis=2)
    labels = np.arange(COUNT, dtype=np.int64)
    monkeypatch.setattr(corrupted, "_source", lambda data_dir: (images, labels, "digest"))
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def runs(tmp_path):
    """Untrained tiny networks of both twins on CIFAR-100."""
    from s2d_tf.zoo import recipes

    made = []
    for method in METHODS:
        recipe = recipes.resolve(f"wrn_10_2_s2.{method}.cifar100")
        recipe = recipe.replace(arguments={"depth": 10, "width": 1, "stem_stride": 2})
        run = zoo.Run.create(tmp_path / "runs" / method, recipe, 0)
        weights.save(networks.build_network(recipe, 0), run.weights())
        made.append(run.directory)
    return made


def test_from_runs_to_json_page_and_report(few_images, runs, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    flags = [f"--out={out}", f"--data_dir={few_images}", "--bootstrap=20", "--images=8"]
    assert cli.main(["shift", *map(str, runs), *flags]) == 0
    assert f"Wrote {out / 'shift.md'}" in capsys.readouterr().out
    # A quick look generates nothing.
    assert not list(few_images.rglob("*.npy"))
    kept = {method: files.read_json(out / method / "shift.json") for method in METHODS}
    for method, directory in zip(METHODS, runs, strict=True):
        assert files.read_json(directory / "shift.json") == kept[method]
        assert kept[method]["shift/images"] == 8
        assert kept[method]["shift/conditions"] == 91
        assert f"{NAME}.jpeg_compression_5/ece" in kept[method]
    differences = files.read_json(out / "differences.json")["s2d minus individual"]
    gap = [kept[method][f"{NAME}/nll"] for method in METHODS]
    assert differences["intervals"][f"{NAME}/nll"]["estimate"] == pytest.approx(gap[1] - gap[0])
    assert differences["resamples"] == 20

    # The page comes from the files alone, and says what they say.
    text = (out / "shift.md").read_text(encoding="utf-8")
    assert shift_study.write_page(out).read_text(encoding="utf-8") == text
    accuracy = 100 * kept["s2d"][f"{NAME}.severity_3/accuracy"]
    assert f"{accuracy:.1f}" in text
    assert "| gaussian noise |" in text
    assert "s2d minus individual" in text
    assert len(list(out.rglob("*.png"))) == 2

    # A second call computes nothing.
    monkeypatch.setattr(answers, "score_model", None)
    assert cli.main(["shift", *map(str, runs), *flags[1:]]) == 0

    # The report of the runs draws the curves.
    for directory in runs:
        files.write_json(directory / "metrics.json", {"run/weights": directory.name})
    monkeypatch.setattr(report_pictures, "draw", lambda *_: [])
    page = evaluation.write_report(runs, tmp_path / "report", log=lambda _: None)
    page = page.read_text(encoding="utf-8")
    assert '<h2 id="under-shift">Under shift</h2>' in page
    assert "Performance against severity" in page


def test_the_full_size_generates_each_condition_once(few_images, runs, tmp_path):
    evaluation.shift_study.study([runs[1]], None, data_dir=few_images, log=lambda _: None)
    assert len(list(few_images.rglob("*.npy"))) == 90
    assert files.read_json(runs[1] / "shift.json")["shift/images"] == COUNT


def test_names_need_a_folder(capsys):
    assert cli.main(["shift", "wrn_10_2_s2.s2d.cifar100"]) == 1
    assert "--out: expected a folder" in capsys.readouterr().err


def test_by_default_the_published_pair():
    names = [name.split(".") for name in shift_study.PAIR]
    assert [parts[1] for parts in names] == ["individual", "s2d"]
    assert all(zoo.open_model(".".join(parts)).recipe.method in METHODS for parts in names)


class TestTables:
    @pytest.fixture
    def results(self, make_run):
        """Two seeds of each twin; S2D is better by a fifth at every severity."""
        made = []
        for method, better in (("individual", 0.0), ("s2d", 0.2)):
            for seed in (0, 1):
                run = make_run(f"wrn_10_2_s2.{method}.cifar100", seed)
                found = {"shift/images": 100, "c/shift_correlation/total": 0.5}
                for level in (1, 2):
                    for stem in ("fog", "snow", "severity"):
                        value = 0.5 - 0.1 * level + better + 0.01 * seed
                        found[f"c.{stem}_{level}/accuracy"] = value
                found |= {"c.clean/accuracy": 0.7, "c/accuracy": 0.35 + better + 0.01 * seed}
                files.write_json(run / "shift.json", found)
                made.append(run)
        return evaluation.collect(made)

    def test_severities_and_corruptions(self, results, tmp_path):
        figures, made = shift_report.of_group(results, tmp_path)
        assert [path.is_file() for path, _, _ in figures] == [True, True]
        by_caption = {table.caption: table for table in made}
        severity = by_caption["c: Acc against severity"]
        assert severity.names == ["Model", "0", "1", "2"]
        rows = [[cell.text for cell in row] for row in severity.rows]
        assert rows[1] == ["S2D Individual", "70.0 ± 0.0", "60.5 ± 1.4", "50.5 ± 1.4"]
        corruption = by_caption["c: accuracy by corruption, mean over severities and seeds"]
        assert [cell.text for cell in corruption.rows[0]] == ["fog", "35.5", "55.5"]

    def test_twins_are_paired_by_seed(self, results, tmp_path):
        table = shift_report.of_group(results, tmp_path)[1][-1]
        row = [cell.text for cell in table.rows[0]]
        assert row == ["S2D Individual", "c Acc", "+20.00", "+20.00 to +20.00", "2 of 2"]

    def test_runs_that_were_not_evaluated_under_shift(self, make_run, tmp_path):
        results = evaluation.collect([make_run("wrn_10_2_s2.s2d.cifar100")])
        assert shift_report.of_group(results, tmp_path) == ([], [])
