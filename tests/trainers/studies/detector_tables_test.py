"""Tables of detectors: from metrics, in the report, and by one command from entries."""

import pytest

from s2d_tf import cli, evaluation, files
from s2d_tf.trainers import studies as paper
from s2d_tf.trainers.studies import detector_study, detector_tables, report_pictures

OOD = ("svhn_cropped", "tiny_imagenet_resize")
SCORES = ("confidence", "total", "knn", "vim")


@pytest.fixture
def results(make_run):
    """Two seeds of each twin: S2D's total is best on SVHN, KNN of the plain one elsewhere."""
    made = []
    for method, shift in (("individual", 0.0), ("s2d", 0.1)):
        for seed in range(2):
            metrics = {"cifar100/aurc/knn": 0.3, "cifar100/rank_correlation": 0.25}
            for i, name in enumerate(OOD):
                for j, score in enumerate(SCORES):
                    value = 0.499 + 0.01 * j + 0.002 * seed + (shift if i == 0 and j < 2 else 0)
                    metrics |= {
                        f"{name}/{ranking}/{score}": value for ranking in detector_tables.RANKINGS
                    }
            name = f"wrn_10_2_s2.{method}.cifar100"
            made.append(make_run(name, seed, metrics | {"run/weights": f"{method} {seed}"}))
    return evaluation.collect(made)


def texts(table):
    return [[cell.text for cell in row] for row in table.rows]


def test_every_score_has_a_row_and_the_best_is_marked(results):
    made = {table.caption.split(": ")[1]: table for table in detector_tables.of_group(results)}
    auroc, fpr = made["%AUROC of each score"], made["%FPR at 95% recall of each score"]
    assert auroc.names == ["Model", "Score", "SVHN", "Tiny ImageNet (resize)", "Mean"]
    rows = {(row[0].text, row[1].text): row for row in auroc.rows}
    assert len(rows) == 8
    assert rows["S2D Individual", "Total uncertainty"][2].text == "61.0 ± 0.3"
    assert rows["Individual", "KNN"][4].text == "52.0 ± 0.3"
    assert [key for key, row in rows.items() if row[2].best] == [
        ("S2D Individual", "Total uncertainty")
    ]
    smallest = [row[1].text for row in fpr.rows if row[3].best]
    assert smallest == ["Confidence", "Confidence"]  # of both networks, as printed
    assert "%AUPR of each score" in made
    assert len(auroc.blocks) == 2


def test_it_says_plainly_where_posthoc_beats_s2d(results):
    (table,) = [t for t in detector_tables.of_group(results) if "against post-hoc" in t.caption]
    assert texts(table) == [
        ["SVHN", "51.0 Total uncertainty", "61.0 Total uncertainty", "53.0 ViM", "53.0 ViM",
         "+8.00", "S2D's own"],
        ["Tiny ImageNet (resize)", "51.0 Total uncertainty", "51.0 Total uncertainty", "53.0 ViM",
         "53.0 ViM", "-2.00", "post-hoc on the plain network"],
    ]  # fmt: skip


def test_rank_correlations(results):
    table = detector_tables.of_group(results)[-1]
    assert "rank correlation" in table.caption
    assert texts(table)[0] == ["Individual", "0.25 ± 0.00", "", ""]


def test_runs_without_detectors_have_no_such_table(make_run):
    run = make_run("wrn_10_2_s2.s2d.cifar100", metrics={"svhn_cropped/auroc/total": 0.5})
    assert detector_tables.of_group(evaluation.collect([run])) == []


def test_tables_and_report_show_them(results, tmp_path, monkeypatch):
    monkeypatch.setattr(report_pictures, "draw", lambda *_: [])
    captions = [table.caption for table in paper.tables_of(results)]
    assert "wrn_10_2_s2 on cifar100: %AUROC of each score" in captions
    directories = [result.directory for result in results]
    path = evaluation.write_report(directories, tmp_path, log=lambda _: None)
    page = path.read_text(encoding="utf-8")
    assert '<h2 id="detectors">Detectors</h2>' in page
    assert "Relative Mahalanobis" not in page
    assert ">KNN</th>" in page


@pytest.mark.usefixtures("no_times")
def test_one_command_from_entries_to_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    out = tmp_path / "out"
    names = [f"wrn_10_2_s2.{method}.digits" for method in ("individual", "s2d")]
    assert cli.main(["detectors", *names, f"--out={out}", "--detectors=knn,energy"]) == 0
    assert capsys.readouterr().out.strip() == f"Wrote {out / 'detectors.md'}"
    text = (out / "detectors.md").read_text(encoding="utf-8")
    assert text == detector_study.text(out)
    stored = {name: files.read_json(out / name / "metrics.json") for name in names}
    value = 100 * stored[names[1]]["digits_photos/auroc/knn"]
    (row,) = [
        line
        for line in text.split("%AUPR")[0].splitlines()
        if line.startswith("| S2D") and "KNN" in line
    ]
    assert f"{value:.1f}" in row
    assert "S2D Individual against post-hoc scores" in text
    assert "rank correlation of data and knowledge" in text
    for method in ("individual", "s2d"):  # only one of the two is evaluated again
        assert f"wrn_10_2_s2.{method}.digits" in stored
    assert cli.main(["detectors", names[0], f"--out={out}", "--detectors=gen"]) == 0
    assert files.read_json(out / names[1] / "metrics.json") == stored[names[1]]
    assert "digits_photos/auroc/gen" in files.read_json(out / names[0] / "metrics.json")
    assert cli.main(["detectors", f"--out={out}"]) == 1
    assert "RUN_OR_NAME: expected run directories or names" in capsys.readouterr().err


def test_the_stored_tables_are_made_from_the_stored_metrics(project_root):
    folder = project_root / "results" / "detectors"
    assert (folder / "detectors.md").read_text(encoding="utf-8") == detector_study.text(folder)
