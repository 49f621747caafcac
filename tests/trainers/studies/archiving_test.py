"""Numbers that stay when the runs are gone."""

import json
import shutil

import pytest

from s2d_tf import files
from s2d_tf.trainers import studies as paper
from s2d_tf.trainers.studies import archiving
from s2d_tf.zoo import recipes

ARCHITECTURE = "wrn_10_2_s2"


@pytest.fixture
def ensemble(make_run):
    metrics = {"cifar100/accuracy": 0.8, "data/x/missing": "not in /home/me/data"}
    made = make_run(f"{ARCHITECTURE}.ensemble.cifar100", 0, metrics)
    for index, value in enumerate([0.69, 0.70, 0.71, 0.72, 0.73]):
        folder = made / f"member_{index}"
        own = {"cifar100/accuracy": value, "run/weights": f"weights {index}"}
        make_run(f"{ARCHITECTURE}.individual.cifar100", index, own, folder=folder)
    (made / "member_0" / "final.safetensors").write_bytes(b"many megabytes")
    return made


def test_tables_come_from_the_copies_alone(ensemble, tmp_path):
    path = paper.archive([ensemble], tmp_path / "results")
    shutil.rmtree(ensemble)
    text = path.read_text(encoding="utf-8")
    assert "71.0 ± 3.2" in text  # The mean and spread of the members.
    assert "80.0" in text
    assert "not run" in text
    assert archiving.text(tmp_path / "results") == text
    names = {file.name for file in (tmp_path / "results").rglob("*") if file.is_file()}
    assert names == {"tables.md", "recipe.json", "metrics.json"}
    kept = json.loads(next((tmp_path / "results" / "runs").glob("*/metrics.json")).read_text())
    assert kept["data/x/missing"] == "not available"  # No folder of this machine.


def test_what_was_kept_before_stays(ensemble, make_run, tmp_path):
    out = tmp_path / "results"
    paper.archive([ensemble], out)
    s2d = make_run(f"{ARCHITECTURE}.s2d.cifar100", 0, {"cifar100/accuracy": 0.75})
    paper.archive([s2d], out)
    assert len(list((out / "runs").iterdir())) == 2
    # A newer evaluation of the same run takes the place of the older one.
    (s2d / "metrics.json").write_text(json.dumps({"cifar100/accuracy": 0.76}), encoding="utf-8")
    text = paper.archive([s2d], out).read_text(encoding="utf-8")
    assert "76.0" in text
    assert "75.0" not in text


def test_a_run_without_metrics_copies_nothing(ensemble, tmp_path):
    (ensemble / "metrics.json").unlink()
    with pytest.raises(FileNotFoundError, match="s2d evaluate"):
        paper.archive([ensemble], tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_the_archive_can_be_made_again_from_itself(ensemble, tmp_path):
    first = paper.archive([ensemble], tmp_path / "results").read_bytes()
    kept = sorted((tmp_path / "results" / "runs").iterdir())
    assert paper.archive(kept, tmp_path / "results").read_bytes() == first


def test_sweeps_are_kept_with_their_tables(ensemble, tmp_path):
    recipe = recipes.resolve(f"{ARCHITECTURE}.s2d.cifar100").to_dict()
    rows = [{"value": value, "accuracy": 0.5, "nll": 1.75, "ece": 0.04} for value in ("5", "2")]
    record = {"name": "a.b.c", "seed": 3, "key": "model.num_passes", "rows": rows, "recipe": recipe}
    sweep = tmp_path / "passes"
    files.write_json(sweep / "tuning.json", record)
    text = paper.archive([ensemble, sweep], tmp_path / "results").read_text(encoding="utf-8")
    assert "a.b.c, 20 epochs, seed 3**" in text
    assert "| 2 | 50.0 | 1.750 | 4.00 |" in text
    shutil.rmtree(sweep)
    # What was kept is there for the next table, too.
    paper.archive([ensemble], tmp_path / "results")
    assert archiving.text(tmp_path / "results") == text
