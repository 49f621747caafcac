"""The benchmark: rows and page from JSON, models that enter, and numbers of others."""

import csv
import io

import pytest

from s2d_tf import cli, evaluation, export, files, models
from s2d_tf.trainers.studies import benchmark, benchmark_page, benchmark_rows
from s2d_tf.trainers.studies.openood_results import read_openood

LEADERBOARD = """\
Training,Postprocessor,Near-OOD_AUROC,Far-OOD_AUROC,ID_Accuracy,Outlier_Data,Arch,Additional_Description
CrossEntropy,MSP,80.27 ± 0.11,77.76 ± 0.44,77.25 ± 0.10,No,ResNet18,100 epochs
CIDER,KNN,73.10,80.49 ± 0.68,/,No,ResNet18,
OE,MSP,88.30 ± 0.10,81.41 ± 1.49,76.84 ± 0.42,Yes,ResNet18,100 epochs
"""
EVALUATED = """\
,FPR@95,AUROC,AUPR_IN,AUPR_OUT,ACC
cifar10,58.90 ± 0.93,78.47 ± 0.07,79.9 ± 0.1,75.3 ± 0.1,77.25 ± 0.10
tin,50.70 ± 0.34,82.07 ± 0.17,1 ± 0,1 ± 0,77.25 ± 0.10
nearood,54.80 ± 0.33,80.27 ± 0.11,1 ± 0,1 ± 0,77.25 ± 0.10
"""


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


class TestTheirs:
    def test_a_leaderboard(self, tmp_path):
        path = tmp_path / "cifar100.csv"
        path.write_text(LEADERBOARD, encoding="utf-8")
        found = {(r.training, r.dataset): r for r in read_openood(path)}
        near = found["CrossEntropy", "openood_near"]
        assert (near.detector, near.metric, near.network) == (
            "MSP",
            "auroc",
            "ResNet18, 100 epochs",
        )
        assert near.mean == pytest.approx(0.8027)
        assert near.two_std == pytest.approx(0.0022)
        assert found["CrossEntropy", "cifar100"].metric == "accuracy"
        assert found["CIDER", "openood_near"].two_std is None
        assert found["CIDER", "openood_near"].network == "ResNet18"
        assert ("CIDER", "cifar100") not in found
        assert found["OE", "openood_far"].outliers
        assert not near.outliers

    @pytest.mark.parametrize("first", ["", "dataset"])
    def test_what_its_script_writes(self, tmp_path, first):
        path = tmp_path / "msp.csv"
        path.write_text(first + EVALUATED, encoding="utf-8")
        found = {(r.dataset, r.metric): r for r in read_openood(path)}
        assert set(found) == {
            (name, metric)
            for name in ("cifar10", "openood_tiny_imagenet", "openood_near")
            for metric in ("auroc", "fpr_at_95_recall")
        }
        assert found["cifar10", "fpr_at_95_recall"].mean == pytest.approx(0.589)
        assert found["cifar10", "auroc"].detector == "msp"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "expected the columns .*received none"),
            ("a,b\n1,2\n", "received a, b. Pass a result file"),
            (",FPR@95,AUROC\nimagenet,1,2\n", "expected one of the sets .*'imagenet'"),
            (",FPR@95,AUROC\ntin,1,high\n", "expected percent .*received 'high'"),
            (",FPR@95,AUROC\ntin,1,180\n", "expected percent .*received '180'"),
            (",FPR@95,AUROC\ntin,1,nan\n", "expected percent"),
        ],
    )
    def test_other_files(self, tmp_path, text, message):
        path = tmp_path / "x.csv"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=message) as error:
            read_openood(path)
        assert str(path) in str(error.value)

    def test_the_published_file(self, project_root):
        found = read_openood(project_root / "results" / "openood" / "cifar100.csv")
        near = {(r.training, r.detector): r.mean for r in found if r.dataset == "openood_near"}
        assert near["CrossEntropy", "KNN"] == pytest.approx(0.8018)
        assert len(near) == 46


@pytest.fixture
def results(tmp_path, make_run):
    """A folder with two seeds of each twin, one study of the first, and OpenOOD's numbers."""
    folder = tmp_path / "results"
    for method, better in (("individual", 0.0), ("s2d", 0.1)):
        name = f"wrn_10_2_s2.{method}.cifar100"
        for seed in (0, 1):
            value = 0.5 + better + 0.02 * seed
            found = {"cifar100/accuracy": value, "cifar100/nll": 2 - value, "cifar100/ece": 0.1}
            found |= {"cifar100/brier": 0.3, "svhn_cropped/auroc/total": value, "run/seed": seed}
            found |= {"cost/parameters": 1000, "cost/relative_inference_time": 1.5}
            found |= {"cifar100/mean_nll": 9.0, "data/cifar100/images": 10_000}
            make_run(name, seed, found, folder / "runs" / f"{method}_{seed}")
        other = {"openood_near/auroc/total": 0.6, "openood_near/sets": 1, "cifar100/accuracy": 0.4}
        make_run(name, 0, other | {"run/weights": "rounded"}, folder / "benchmark" / name)
        shift = {"c/shift_correlation/total": 0.9, "c/accuracy": 0.3, "c.fog_1/accuracy": 0.2}
        files.write_json(folder / "benchmark" / name / "shift.json", shift | {"shift/images": 9})
    (folder / "openood").mkdir()
    (folder / "openood" / "cifar100.csv").write_text(LEADERBOARD, encoding="utf-8")
    return folder


class TestPage:
    def test_rows_are_means_over_seeds_with_their_cost(self, results):
        benchmark_page.write(results)
        rows = rows_of((results / "benchmark.csv").read_text(encoding="utf-8"))
        assert list(rows[0]) == [
            *("network", "trained_on", "method", "detector", "set", "metric", "seeds", "mean"),
            *("spread", "parameters", "passes", "relative_time", "source"),
        ]
        found = {(r["method"], r["set"], r["metric"], r["detector"]): r for r in rows}
        own = found["S2D Individual", "svhn_cropped", "auroc", "total"]
        assert (own["network"], own["trained_on"]) == ("wrn_10_2_s2", "cifar100")
        # What the zoo's entry of seed 0 says is no third seed; runs count where they differ.
        assert (own["seeds"], own["mean"]) == ("2", "0.61")
        assert float(own["spread"]) == pytest.approx(0.0282843, rel=1e-4)
        assert (own["parameters"], own["passes"], own["relative_time"]) == ("1000", "1", "1.5")
        assert own["source"] == "ours"
        assert found["S2D Individual", "cifar100", "accuracy", ""]["mean"] == "0.61"
        assert found["Individual", "openood_near", "auroc", "total"]["seeds"] == "1"
        assert found["Individual", "c", "accuracy", ""]["mean"] == "0.3"
        # Neither facts, nor single conditions, nor another reading of a Gaussian student.
        assert not [r for r in rows if "." in r["set"] or r["metric"] in ("images", "mean_nll")]

    def test_theirs_are_marked(self, results):
        benchmark_page.write(results)
        rows = rows_of((results / "benchmark.csv").read_text(encoding="utf-8"))
        theirs = [r for r in rows if r["source"] == "OpenOOD"]
        assert len(theirs) == 8
        assert all(r["method"] not in ("Individual", "S2D Individual") for r in theirs)
        text = (results / "benchmark.md").read_text(encoding="utf-8")
        ours, published = text.split("## Published by OpenOOD")
        assert "CrossEntropy" not in ours
        assert "Theirs, not ours" in published
        assert "| OE, outlier data (ResNet18, 100 epochs) | MSP |" in published

    def test_the_page(self, results):
        benchmark_page.write(results)
        text = (results / "benchmark.md").read_text(encoding="utf-8")
        assert "| S2D Individual |  | 2 | **61.0 ± 2.8** |" in text
        assert "Near (OpenOOD): 1 of 2 sets." in text
        assert "+10.00 | +10.00 to +10.00 | 2 of 2 |" in text
        assert text.count("| Individual | Total uncertainty | 1 | **0.90** |") == 1
        assert "\n9 test images." in text

    def test_one_seed_claims_nothing(self, tmp_path, make_run):
        for method in ("individual", "s2d"):
            found = {"cifar100/accuracy": 0.5, "cifar100/brier": 0.5}
            make_run(f"wrn_10_2_s2.{method}.cifar100", 0, found, tmp_path / "r" / method)
        benchmark_page.write(tmp_path / "r")
        text = (tmp_path / "r" / "benchmark.md").read_text(encoding="utf-8")
        assert "against its plain twin" not in text

    def test_differences_over_examples_are_shown(self, results):
        interval = {"estimate": -0.1, "low": -0.2, "high": -0.05, "level": 0.95}
        facts = {"resamples": 77, "intervals": {"c/nll": interval}}
        files.write_json(results / "shift" / "differences.json", {"a minus b": facts})
        benchmark_page.write(results)
        text = (results / "benchmark.md").read_text(encoding="utf-8")
        assert "**a minus b**" in text
        assert "| c | NLL | -0.100 | -0.200 | -0.050 | better |" in text

    def test_the_committed_page_is_made_from_the_numbers_beside_it(self, project_root):
        folder = project_root / "results"
        made = benchmark_page.texts(folder)
        for name, text in zip(("benchmark.csv", "benchmark.md"), made, strict=True):
            stored = (folder / name).read_text(encoding="utf-8")
            assert stored == text, "run `s2d benchmark results`"

    def test_passes_are_forward_passes(self, tmp_path, make_run):
        for method, members in (("ensemble", 5), ("h2d_gauss", None), ("mc", None), ("mimo", None)):
            name = f"wrn_10_2_s2.{method}.cifar100"
            make_run(name, 0, {"cifar100/nll": 1.0}, tmp_path / "r" / method, members)
        rows = benchmark_rows.our_rows(benchmark_rows.read(tmp_path / "r")[0])
        passes = {row.method: row.passes for row in rows}
        assert passes == {"Deep ensemble": 5, "H2D-Gauss": 1, "MC ensemble": 5, "MIMO": 1}


class TestEntering:
    ood = ("digits_heldout", "digits_photos")

    def test_a_predictor_and_its_export_get_the_same_numbers(self, network, tmp_path):
        model = network(models.S2DClassifier)
        folder = export.save(model, tmp_path / "exported")
        lines = []
        options = {"dataset": "digits", "ood": self.ood, "log": lines.append}
        first = benchmark.enter(model, tmp_path / "r", "mine", **options)
        exported = evaluation.ExportedModel(folder)
        second = benchmark.enter(exported, tmp_path / "r", "theirs", **options)
        first, second = files.read_json(first), files.read_json(second)
        for key in ("digits/nll", "digits_photos/auroc/knowledge", "digits_heldout/scod_aurc/data"):
            assert second[key] == pytest.approx(first[key], abs=1e-3)
        assert first["cost/parameters"] == model.num_parameters
        assert second["data/digits/fingerprint"] == first["data/digits/fingerprint"]
        benchmark_page.write(tmp_path / "r")
        text = (tmp_path / "r" / "benchmark.md").read_text(encoding="utf-8")
        assert "## mine on digits" in text
        assert "## theirs on digits" in text
        rows = rows_of((tmp_path / "r" / "benchmark.csv").read_text(encoding="utf-8"))
        assert {r["source"] for r in rows} == {"entered"}

    @pytest.mark.usefixtures("no_times")
    def test_one_command_for_an_entry(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
        name, results = "wrn_10_2_s2.s2d.digits", tmp_path / "r"
        assert cli.main(["benchmark", str(results), name]) == 0
        assert f"Wrote {results / 'benchmark.md'}" in capsys.readouterr().out
        found = files.read_json(results / "benchmark" / name / "metrics.json")
        assert "digits_photos/scod_aurc/knowledge" in found
        assert "digits/error_auroc/total" in found
        text = (results / "benchmark.md").read_text(encoding="utf-8")
        assert "| S2D Individual |  | 1 |" in text

    def test_missing_sets_are_said_and_skipped(self, network, tmp_path):
        lines = []
        options = {"dataset": "digits", "data_dir": tmp_path, "log": lines.append}
        sets = ("digits_photos", "svhn_cropped")
        benchmark.enter(network(models.Classifier), tmp_path / "r", "mine", ood=sets, **options)
        found = files.read_json(tmp_path / "r" / "benchmark" / "mine" / "metrics.json")
        assert "digits_photos/auroc/total" in found
        assert not [key for key in found if key.startswith("svhn_cropped/")]
        assert found["data/svhn_cropped/missing"] == "not available"
        (line,) = [line for line in lines if line.startswith("skipped")]
        assert "s2d data svhn_cropped --download" in line

    def test_errors(self, network, tmp_path, capsys):
        model = network(models.Classifier)
        with pytest.raises(ValueError, match=r"model: expected 100 classes .* received 8"):
            benchmark.enter(model, tmp_path, "mine", log=print)
        with pytest.raises(ValueError, match="name: expected a text without '/'"):
            benchmark.enter(model, tmp_path, "a/b", dataset="digits")
        with pytest.raises(ValueError, match=r"name: expected a text .* received None"):
            benchmark.enter(model, tmp_path, dataset="digits")
        assert cli.main(["benchmark"]) == 1
        assert "RESULTS: expected a folder of results" in capsys.readouterr().err
        assert cli.main(["benchmark", str(tmp_path), "--name=x"]) == 1
        assert "--name: expected one model, received 0" in capsys.readouterr().err
