"""From runs to entries: what is rejected, what is stored, what a failure leaves."""

import json
import re
import shutil

import numpy as np
import pytest

from s2d_tf import data, files, zoo
from s2d_tf.evaluation import runs_and_entries
from s2d_tf.trainers import publishing, training
from s2d_tf.trainers.publishing import card, hub, provenance, publication
from s2d_tf.zoo import entries, recipes
from s2d_tf.zoo.entries import CARD, ENTRY
from tests import contracts
from tests.trainers.publishing.conftest import (
    ENSEMBLE,
    MONTE_CARLO,
    SINGLE,
    make_run,
    quiet,
    without_times,
)


@pytest.fixture(autouse=True)
def _no_timing(monkeypatch):
    without_times(monkeypatch)


def test_half_precision_is_kept_only_where_no_metric_moves(runs, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(publication, "TOLERANCE", -1.0)
    folder = publishing.publish(runs / "member_0", SINGLE, tmp_path, log=said.append)
    record = entries.read((folder / ENTRY).read_bytes(), folder)
    assert [item.precision for item in record.weights] == ["float32"]
    assert any("float32 is kept" in line for line in said)
    # The very numbers of the run, since the very weights are published.
    assert record.metrics == files.read_json(runs / "member_0" / "metrics.json")
    assert record.weights[0].source == files.sha256(runs / "member_0" / "final.safetensors")
    predictor = zoo.load(folder)
    own = zoo.Run.open(runs / "member_0").predictor()
    contracts.assert_same(predictor.get_weights(), own.get_weights())


def test_published_metrics_are_those_of_the_rounded_weights(small_zoo, runs):
    record = entries.read((small_zoo / SINGLE / ENTRY).read_bytes(), "entry")
    own = files.read_json(runs / "member_0" / "metrics.json")
    assert record.weights[0].precision == "float16"
    assert record.metrics["run/weights"] != own["run/weights"]
    assert record.metrics["digits/nll"] != own["digits/nll"]
    assert record.metrics["digits/nll"] == pytest.approx(own["digits/nll"], abs=1e-2)


def test_no_folder_of_the_machine_is_published(small_zoo, tmp_path):
    written = [path for path in small_zoo.rglob("*") if path.suffix in (".json", ".md")]
    assert len(written) >= 6
    assert not [path for path in written if str(tmp_path.parent.parent) in path.read_text()]


def test_the_spread_is_that_of_all_seeds(small_zoo, runs):
    record = entries.read((small_zoo / SINGLE / ENTRY).read_bytes(), "entry")
    values = [
        files.read_json(runs / f"member_{i}" / "metrics.json")["digits/nll"] for i in range(2)
    ]
    assert record.spread["digits/nll"]["mean"] == pytest.approx(np.mean(values))
    assert record.spread["digits/nll"]["stddev"] == pytest.approx(np.std(values, ddof=1))
    assert record.spread["digits/nll"]["seeds"] == [0, 1]
    card = (small_zoo / SINGLE / CARD).read_text()
    found = entries.read((small_zoo / ENSEMBLE / ENTRY).read_bytes(), "entry").provenance
    assert found["seeds"] == [0, 1]
    assert found["commands"][0].endswith("s2d_ensemble.digits --workdir=RUN --members=2")
    assert found["changed_numbers"] == ["num_members=2"]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in card


def test_the_card_says_what_the_model_is_good_and_bad_at(small_zoo, runs):
    folder = small_zoo / SINGLE
    found = entries.read((folder / ENTRY).read_bytes(), "entry").provenance
    own = zoo.Run.open(runs / "member_0").predictor()
    images, labels = data.load_arrays("digits", "test")
    answers = own.predict_uncertainty(images)["probs"].argmax(axis=-1)
    share = {c: (answers[labels == c] == c).mean() for c in set(labels.tolist())}
    worst = min(share, key=lambda c: (share[c], c))
    assert found["worst_classes"][0] == f"{own.class_names[worst]} ({share[worst]:.0%})"
    assert len(found["best_classes"]) == 5
    assert f"]({found['picture']})" in (folder / CARD).read_text()
    assert (folder / found["picture"]).read_bytes().startswith(b"\x89PNG")


def test_the_command_of_changed_numbers_makes_them_again():
    recipe = recipes.resolve(SINGLE)
    changed = training.override(
        recipe, ["model.noise_stddev=[0.0, 0.3]", "model.proxy=mean_precision"], epochs=2
    )
    run = zoo.Run("somewhere", changed, 0)
    changes = provenance.differences(changed, recipe)
    command = provenance.commands(run, recipe, changes, summary={})[0]
    assert "--epochs=2" in command
    assignments = re.findall(r"--set '([^']*)'", command)
    assert training.override(recipe, assignments, epochs=2) == changed


def edit(path, **changes):
    files.write_json(path, files.read_json(path) | changes)


def remove(name):
    return lambda run: (run / name).unlink()


# Where the run is, the name, what happens to a copy before, and the message.
REJECTED = {
    "unfinished": ("member_0", SINGLE, remove("final.safetensors"), "that is not. Run `s2d train"),
    "several splits": (
        "",
        ENSEMBLE,
        lambda run: edit(run / "member_1" / "recipe.json", split="train_without_validation"),
        r"\['train', 'train_without_validation'\]",
    ),
    "another seed": ("member_1", SINGLE, None, r"expected seed 0, .*received \[1\]"),
    "another method": ("member_0", "wrn_10_2_s2.mc.digits", None, f"received one of {SINGLE}"),
    "other numbers": ("", ENSEMBLE, None, "received different ones .*num_members 5 -> 2"),
    "not evaluated": ("member_0", SINGLE, remove("metrics.json"), "no metrics. Run `s2d evaluate"),
    "other weights": (
        "member_0",
        SINGLE,
        lambda run: shutil.copy(run.parent / "runs" / "member_1" / "final.safetensors", run),
        "metrics of these weights, received those of other weights",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_what_cannot_be_published_is_rejected_in_one_line(runs, tmp_path, case):
    where, name, change, message = REJECTED[case]
    shutil.copytree(runs, tmp_path / "runs")
    run = shutil.copytree(runs / where, tmp_path / "run")
    if change:
        change(run)
    with pytest.raises(publishing.PublishError, match=message) as caught:
        publishing.publish(run, name, tmp_path / "zoo", log=quiet)
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "zoo").glob("*"))


def test_an_entry_says_its_split_and_how_it_was_trained(tmp_path):
    make_run(tmp_path / "run", recipes.resolve(SINGLE), split="train_without_validation")
    edit(tmp_path / "run" / "summary.json", precision="bfloat16")
    runs_and_entries.evaluate_run(tmp_path / "run", log=quiet)
    folder = publishing.publish(tmp_path / "run", SINGLE, tmp_path, precision="float32", log=quiet)
    opened = zoo.open_model(folder)
    assert opened.split == "train_without_validation"
    (train, *_) = opened.record.provenance["commands"]
    assert train.endswith("--split=train_without_validation --precision=bfloat16")
    assert "`train_without_validation` split" in (folder / CARD).read_text()


def test_a_failure_leaves_the_entry_that_was_there(runs, small_zoo, tmp_path, monkeypatch):
    folder = tmp_path / "zoo"
    shutil.copytree(small_zoo, folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.setattr(card, "text", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        publishing.publish(runs / "member_0", SINGLE, folder, precision="float32", log=quiet)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_weights_that_others_refer_to_are_not_taken_away(runs, small_zoo, tmp_path):
    folder = tmp_path / "zoo"
    shutil.copytree(small_zoo, folder)
    with pytest.raises(publishing.PublishError, match="refers to those that"):
        publishing.publish(runs / "member_0", SINGLE, folder, precision="float32", log=quiet)
    shutil.rmtree(folder / ENSEMBLE)
    shutil.rmtree(folder / MONTE_CARLO)
    publishing.publish(runs / "member_0", SINGLE, folder, precision="float32", log=quiet)
    record = json.loads((folder / SINGLE / ENTRY).read_text())
    assert record["weights"][0]["precision"] == "float32"
    assert sorted(path.name for path in folder.iterdir()) == [SINGLE]


@pytest.mark.parametrize(("method", "scores"), [("individual", 2), ("s2d", 4)])
def test_the_hub_reads_license_and_metrics(method, scores):
    """One softmax states no data and knowledge uncertainty."""
    cards = pytest.importorskip("huggingface_hub.repocard_data", reason="needs s2d_tf[hf]")
    yaml = pytest.importorskip("yaml")
    record = zoo.entry(f"wrn_10_2_s2.{method}.digits").record
    values = yaml.safe_load(hub.metadata(record).to_yaml())
    stated = [values[key] for key in ("license", "library_name", "pipeline_tag")]
    assert stated == ["apache-2.0", "s2d_tf", "image-classification"]
    name, found = cards.model_index_to_eval_results(values["model-index"])
    assert name == record.name
    assert len(found) == 4 + scores * len(record.recipe.out_of_distribution)
    assert found[0].metric_value == round(record.metrics["digits/accuracy"], 6)
    assert all(0 <= each.metric_value <= 1 for each in found if each.metric_type == "roc_auc")
