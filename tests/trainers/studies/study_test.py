"""`s2d study` from models to rows, tables, curves and the report."""

import json

import numpy as np
import pytest

from s2d_tf import cli, data, metrics, posthoc, zoo
from s2d_tf.trainers import studies
from s2d_tf.trainers.studies import report, shift
from s2d_tf.trainers.studies import results as results_lib
from s2d_tf.zoo import networks, recipes, weights

COUNT = 12
METHODS = ("individual", "s2d")
NAME = "cifar100_c_generated"


def rows_of(path):
    held = json.loads(path.read_text(encoding="utf-8"))
    return [dict(zip(held["columns"], row, strict=True)) for row in held["rows"]]


@pytest.mark.usefixtures("no_times")
def test_detectors_from_entries_to_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "out"
    names = [f"wrn_10_2_s2.{method}.digits" for method in METHODS]
    flags = [f"--out={out}", "--bootstrap=20"]
    command = ["study", "detectors", *names, *flags, "--detectors=knn,energy"]
    assert cli.main(command) == 0
    paths = [out / "detectors.json", out / "detectors.md"]
    assert capsys.readouterr().out.splitlines() == [f"Wrote {path}" for path in paths]
    text = paths[1].read_text(encoding="utf-8")
    place = {"model": names[1], "seed": 0, "dataset": "digits_photos", "metric": "auroc"}
    place["score"] = "knn"
    (row,) = [row for row in rows_of(paths[0]) if place.items() <= row.items()]
    lines = text.split("%AUPR")[0].splitlines()
    (line,) = [line for line in lines if line.startswith("| S2D") and "KNN" in line]
    assert f"{100 * row['value']:.1f} (±{50 * (row['high'] - row['low']):.1f})" in line
    assert row["low"] < row["value"] < row["high"]
    # Only one of the two is evaluated again; without models the page is made again.
    before = [row for row in rows_of(paths[0]) if row["model"] == names[1]]
    assert cli.main(["study", "detectors", names[0], *flags, "--detectors=gen"]) == 0
    rows = rows_of(paths[0])
    assert [row for row in rows if row["model"] == names[1]] == before
    assert {r["score"] for r in rows if r["model"] == names[0]} >= {"gen", "total"}
    text = paths[1].read_text(encoding="utf-8")
    paths[1].unlink()
    assert cli.main(["study", "detectors", f"--out={out}"]) == 0
    assert paths[1].read_text(encoding="utf-8") == text

    # Knowledge with the distance, on the half of each set that the step was not fitted on.
    assert cli.main(["study", "distance", names[1], *flags, "--half=first"]) == 0
    keys = ("dataset", "metric", "score")
    found = {tuple(map(r.get, keys)): r["value"] for r in rows_of(out / "distance.json")}
    model = zoo.load(names[1])
    images, labels = data.load_arrays("digits", "test")
    unknown, _ = data.load_arrays("digits_photos", "test")
    middle, unknown = len(images) // 2, unknown[: len(unknown) // 2]
    near = posthoc.KNN(1, 1000, name="knn_1000").fit(model, data.load_arrays("digits", "train"))
    aware = posthoc.DistanceAwareness("knn_1000").fit(near, (images[middle:], labels[middle:]))
    expected = metrics.auroc(
        *(aware.predict_uncertainty(x)["knowledge"] for x in (images[:middle], unknown))
    )
    assert found["digits_photos", "auroc", "knowledge_1000"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["study", "--out=x"], "QUESTION: expected one of detectors, distance, shift, received []"),
        (["study", "weather", "--out=x"], "received ['weather']"),
        (["study", "shift", "--out=nothing"], "MODEL: expected models"),
    ],
)
def test_a_command_that_asks_nothing(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_not_a_study(tmp_path):
    (tmp_path / "shift.json").write_text('{"accuracy": 1}')
    with pytest.raises(ValueError, match=r"expected the file of a study.*'accuracy'"):
        results_lib.Study(tmp_path / "shift.json")


class TestShift:
    @pytest.fixture
    def few_images(self, tmp_path, monkeypatch):
        """CIFAR-100 with a dozen test images."""
        coarse = np.random.default_rng(0).integers(0, 256, (COUNT, 8, 8, 3)).astype(np.uint8)
        images = coarse.repeat(4, axis=1).repeat(4, axis=2)
        labels, load = np.arange(COUNT, dtype=np.int64), data.load_arrays

        def load_arrays(name, *args):
            return (images, labels) if name == "cifar100" else load(name, *args)

        monkeypatch.setattr(data, "load_arrays", load_arrays)
        monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
        (tmp_path / "data").mkdir()
        return tmp_path / "data"

    @pytest.fixture
    def runs(self, tmp_path):
        """Untrained tiny networks of both twins on CIFAR-100."""
        made = []
        for method in METHODS:
            recipe = recipes.resolve(f"wrn_10_2_s2.{method}.cifar100")
            recipe = recipe.replace(arguments={"depth": 10, "width": 1, "stem_stride": 2})
            run = zoo.Run(tmp_path / "runs" / method, recipe, 0).write()
            weights.save(networks.build_network(recipe, 0), run.weights())
            made.append(run.directory)
        return made

    def test_from_runs_to_rows_page_and_report(
        self, few_images, runs, tmp_path, monkeypatch, passes
    ):
        out = tmp_path / "out"
        flags = [f"--out={out}", f"--data_dir={few_images}", "--bootstrap=20", "--images=8"]
        assert cli.main(["study", "shift", *map(str, runs), *flags]) == 0
        # A quick look generates nothing.
        assert not list(few_images.rglob("*.npy"))
        rows = rows_of(out / "shift.json")
        nll = {r["model"]: r for r in rows if (r["dataset"], r["metric"]) == (NAME, "nll")}
        difference = nll["s2d minus individual"]
        gap = nll["s2d"]["value"] - nll["individual"]["value"]
        assert difference["value"] == pytest.approx(gap)
        assert difference["low"] <= difference["value"] <= difference["high"]
        assert (nll["s2d"]["seed"], nll["s2d"]["low"]) == (0, None)
        assert any(r["dataset"] == f"{NAME}.jpeg_compression_5" for r in rows)
        found = {r.variant: r.metrics for r in results_lib.Study(out / "shift.json").results()}
        assert found["s2d"]["shift/images"] == 8
        assert found["s2d"]["shift/conditions"] == 91

        # The page comes from the file alone, and says what it says.
        text = (out / "shift.md").read_text(encoding="utf-8")
        assert results_lib.text(shift.QUESTION, results_lib.Study(out / "shift.json"), 20) == text
        assert f"{100 * found['s2d'][f'{NAME}.severity_3/accuracy']:.1f}" in text
        assert "| gaussian noise |" in text
        assert "s2d minus individual" in text
        assert len(list(out.rglob("*.png"))) == 2

        # A second call computes nothing.
        passes.clear()
        assert cli.main(["study", "shift", *map(str, runs), *flags]) == 0
        assert passes == []

        # The report draws the curves of the file.
        for directory in runs:
            metrics = json.dumps({"run/weights": directory.name})
            (directory / "metrics.json").write_text(metrics)
        monkeypatch.setattr(report, "draw_figures", lambda *_: [])
        inputs = [*runs, out / "shift.json"]
        page = studies.write_report(inputs, tmp_path / "report", log=lambda _: None)
        page = page.read_text(encoding="utf-8")
        assert "Under shift: wrn_10_2_s2 on cifar100</h2>" in page
        assert "Performance against severity" in page
