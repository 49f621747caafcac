"""Run directories to tables: the paper's, of made-up numbers, and those that are committed."""

import dataclasses
import json
import shutil

import pytest

from s2d_tf import files, zoo
from s2d_tf.trainers import studies
from s2d_tf.trainers.studies import claims, detectors, paper_tables, result_tables, results, shift
from s2d_tf.zoo import recipes

ARCHITECTURE, SMALL = "densenet_bc_100_12", "wrn_10_2_s2"
TOLERANCE = 0.002  # Entries are in half precision and measured again.


def filled(number, directories, architecture=ARCHITECTURE):
    table = paper_tables.paper_table(number, results.collect(directories), architecture)
    names = [" ".join(cell.text for cell in row[: table.stub]) for row in table.rows]
    cells = {
        (name, title): cell
        for name, row in zip(names, table.rows, strict=True)
        for title, cell in zip(table.titles, row, strict=True)
    }
    return table, cells


def test_every_table_has_the_papers_shape_before_anything_is_run(make_run):
    run = make_run(f"{ARCHITECTURE}.en2d.cifar100")
    found = results.collect([run])
    for shape in paper_tables.published_tables():
        table = paper_tables.paper_table(shape.number, found, ARCHITECTURE)
        assert len(table.rows) == len(shape.rows)
        for row, printed in zip(table.rows, shape.rows, strict=True):
            for cell, expected in zip(row[table.stub :], printed.cells, strict=True):
                if shape.kind == "datasets" or expected.value is None:
                    assert cell.text == expected.text
                else:
                    assert cell.text == "not run"
                    assert cell.note == expected.text.replace("*", "")


def test_mean_and_two_standard_deviations_over_seeds(make_run):
    runs = [
        make_run(f"{ARCHITECTURE}.individual.cifar100", seed, {"cifar100/accuracy": value})
        for seed, value in enumerate([0.74, 0.75, 0.76])
    ]
    runs.append(make_run(f"{ARCHITECTURE}.individual.cifar100_plus", 0, {"cifar100/accuracy": 0.8}))
    _, cells = filled(1, runs)
    assert cells["Individual", "C100 Acc"].text == "75.0 ± 2.0"
    assert cells["Individual", "C100 Acc"].note == "74.6 ± 0.5"
    assert cells["Individual", "C100+ Acc"].text == "80.0"
    assert cells["Individual", "C100 NLL"].text == "not run"


def test_an_ensembles_members_are_seeds_of_the_single_model(make_run, tmp_path):
    name = f"{ARCHITECTURE}.ensemble.cifar100"
    ensemble = make_run(name, 0, {"cifar100/accuracy": 0.8}, members=2)
    for index, value in enumerate([0.70, 0.72]):
        make_run(
            f"{ARCHITECTURE}.individual.cifar100",
            index,
            {"cifar100/accuracy": value, "run/weights": f"weights {index}"},
            folder=ensemble / f"member_{index}",
        )
    found = results.collect([ensemble])
    assert {name: len(part) for name, part in results.by_variant(found).items()} == {
        "individual": 2,
        "ensemble_2": 1,
    }
    # The same weights in another directory are not a third seed.
    copy = make_run(f"{ARCHITECTURE}.individual.cifar100", 0, {"run/weights": "weights 0"})
    assert len(results.collect([ensemble, copy, ensemble])) == 3


def test_all_tables_are_those_with_figures(make_run):
    run = make_run(f"{ARCHITECTURE}.s2d.cifar100", 0, {"svhn_cropped/auroc/confidence": 0.8})
    made = studies.tables_of(results.collect([run]))
    assert [table.caption.split(".")[0] for table in made] == ["Table 3"]
    small = make_run("wrn_10_2_s2.s2d.cifar100", 0, {"cifar100/accuracy": 0.5})
    (table,) = studies.tables_of(results.collect([small]))
    assert table.caption.startswith("Table 1.")
    assert "wrn_10_2_s2, trained for up to 20 epochs" in table.footnotes[0]
    with pytest.raises(ValueError, match="a table of the paper, 1 to"):
        studies.tables_of(results.collect([run]), 99)


def test_distillation_counts_by_its_temperature_too(make_run):
    runs = []
    for seed, (temperature, accuracy) in enumerate([(1.0, 0.6), (4.0, 0.7)]):
        run = make_run(f"{ARCHITECTURE}.end.cifar100", seed, {"cifar100/accuracy": accuracy})
        (result,) = results.collect([run])
        recipe = result.recipe.replace(model={"temperature": temperature})
        runs.append(dataclasses.replace(result, recipe=recipe))
    texts = [verdict.evidence for verdict in claims.check_runs(runs)]
    assert [t for t in texts if "70.0% for EnD at T = 4, 60.0% for EnD at T = 1" in t]


def test_ensembles_of_another_size_stand_for_the_usual_one(make_run):
    three = make_run(f"{ARCHITECTURE}.ensemble.cifar100", 0, {"cifar100/accuracy": 0.7}, members=3)
    table, cells = filled(1, [three])
    assert cells["Deep ensemble", "C100 Acc"].text == "70.0"
    assert "Deep ensembles have 3 members, the paper's 5." in table.footnotes
    five = make_run(f"{ARCHITECTURE}.ensemble.cifar100", 0, {"cifar100/accuracy": 0.8})
    assert filled(1, [three, five])[1]["Deep ensemble", "C100 Acc"].text == "80.0"
    plain = make_run(f"{ARCHITECTURE}.s2d_ensemble.cifar100", 0, {"cifar100/ece": 0.3})
    files.write_json(three / "metrics.json", {"cifar100/ece": 0.2})
    texts = [verdict.evidence for verdict in claims.check_runs(results.collect([three, plain]))]
    assert [t for t in texts if "30.00% for S2D Deep ensemble, 20.00% for Deep ensemble" in t]


def test_tables_need_no_tensorflow(make_run, run_python):
    run = make_run(f"{ARCHITECTURE}.s2d.cifar100", 0, {"cifar100/accuracy": 0.7123})
    code = (
        "import sys; from s2d_tf import cli; code = cli.main(sys.argv[1:]); "
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules; sys.exit(code)"
    )
    arguments = ["table", str(run), "--table=1", "--format=csv"]
    done = run_python("-c", code, *arguments)
    assert done.returncode == 0, done.stderr
    assert "\nS2D Individual,71.2,not run," in done.stdout


@pytest.fixture
def ensemble(make_run):
    metrics = {"cifar100/accuracy": 0.8, "data/x/missing": "not in /home/me/data"}
    metrics["data/y/folder"] = "/home/me/y"
    made = make_run(f"{SMALL}.ensemble.cifar100", 0, metrics)
    for index, value in enumerate([0.69, 0.70, 0.71, 0.72, 0.73]):
        folder = made / f"member_{index}"
        own = {"cifar100/accuracy": value, "run/weights": f"weights {index}"}
        make_run(f"{SMALL}.individual.cifar100", index, own, folder=folder)
    (made / "member_0" / "final.safetensors").write_bytes(b"many megabytes")
    return made


def test_tables_come_from_the_copies_alone(ensemble, tmp_path):
    path = studies.archive([ensemble], tmp_path / "results")
    (ensemble / "metrics.json").unlink()
    with pytest.raises(FileNotFoundError, match="s2d evaluate"):
        studies.archive([ensemble], tmp_path / "others")
    assert not (tmp_path / "others").exists()
    shutil.rmtree(ensemble)
    text = path.read_text(encoding="utf-8")
    assert "71.0 ± 3.2" in text  # The mean and spread of the members.
    assert "80.0" in text
    assert "not run" in text
    assert result_tables.text(tmp_path / "results") == text
    kept = sorted((tmp_path / "results" / "runs").iterdir())
    assert studies.archive(kept, tmp_path / "results").read_text(encoding="utf-8") == text
    names = {file.name for file in (tmp_path / "results").rglob("*") if file.is_file()}
    assert names == {"tables.md", "recipe.json", "metrics.json"}
    kept = json.loads(next((tmp_path / "results" / "runs").glob("*/metrics.json")).read_text())
    assert kept["data/x/missing"] == "not available"
    assert "/home/me" not in json.dumps(kept)  # No folder of this machine.


def test_sweeps_are_kept_with_their_tables(ensemble, tmp_path):
    recipe = recipes.resolve(f"{SMALL}.s2d.cifar100").to_dict()
    rows = [{"value": value, "accuracy": 0.5, "nll": 1.75, "ece": 0.04} for value in ("5", "2")]
    record = {"name": "a.b.c", "seed": 3, "key": "model.num_passes", "rows": rows, "recipe": recipe}
    sweep = tmp_path / "passes"
    files.write_json(sweep / "tuning.json", record)
    text = studies.archive([ensemble, sweep], tmp_path / "results").read_text(encoding="utf-8")
    assert "a.b.c, 20 epochs, seed 3**" in text
    assert "| 2 | 50.0 | 1.750 | 4.00 |" in text
    shutil.rmtree(sweep)
    studies.archive([ensemble], tmp_path / "results")
    assert result_tables.text(tmp_path / "results") == text


@pytest.fixture(scope="module")
def committed(project_root):
    return project_root / "results"


@pytest.mark.parametrize("folder", [".", "compact"])
def test_tables_are_made_from_the_numbers_beside_them(committed, folder):
    kept = committed / folder
    assert (kept / "tables.md").read_text(encoding="utf-8") == result_tables.text(kept)


@pytest.mark.parametrize("question", [detectors.QUESTION, shift.QUESTION], ids=lambda q: q.name)
def test_pages_of_studies_are_made_from_their_rows(question, committed, tmp_path):
    path = committed / question.name / f"{question.name}.json"
    copied = tmp_path / path.name  # Figures go into the folder of the page.
    copied.write_bytes(path.read_bytes())
    expected = path.with_suffix(".md").read_text(encoding="utf-8")
    assert results.text(question, results.Study(copied)) == expected


def test_what_is_compared_was_trained_on_the_same_images(committed):
    kept = results.collect(sorted(committed.glob("**/runs/*")))
    assert all(result.metrics["run/name"] == result.recipe.name for result in kept)
    for name, group in results.groups(kept).items():
        splits = {result.split for result in group}
        assert splits in ({"train"}, {"train_without_validation"}), name


@pytest.mark.parametrize("name", [n for n in zoo.names(pretrained=True) if ".cifar100" in n])
def test_an_entry_has_its_run_here(name, committed):
    published = zoo.entry(name).record.metrics
    same = [
        result.metrics
        for result in results.collect(sorted(committed.glob("**/runs/*")))
        if (result.recipe.name, result.seed) == (name, published["run/seed"])
        and result.metrics["run/num_members"] == published["run/num_members"]
    ]
    assert same, f"run `s2d table RUN --keep=results` with the run of {name}"
    for key in ("cifar100/accuracy", "cifar100/nll", "cifar100/ece"):
        assert any(abs(run[key] - published[key]) < TOLERANCE for run in same), key
