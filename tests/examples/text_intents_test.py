"""The study on CLINC150, on a small file and a tiny encoder, end to end."""

import hashlib
import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics as oracle

from s2d_tf import cli, data, export, models, zoo
from s2d_tf.evaluation import run_evaluation
from s2d_tf.trainers import publishing
from s2d_tf.trainers.datasets import clinc150
from s2d_tf.trainers.studies import report_pictures
from s2d_tf.zoo import encoders, entries

WORDS = {"alarm": "wake morning alarm", "translate": "say french word", "order": "buy send order"}


def sentences(random, intent, count):
    words = WORDS.get(intent, "moon poem sky wake").split()
    return [[" ".join(random.choice(words, 4)) + f" {i}", intent] for i in range(count)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    content = {
        **{f"oos_{part}": sentences(random, "oos", 6) for part in ("train", "val", "test")},
        **{
            part: [pair for intent in WORDS for pair in sentences(random, intent, count)]
            for part, count in (("train", 10), ("val", 4), ("test", 5))
        },
    }
    path = tmp_path / "clinc150" / "data_full.json"
    path.parent.mkdir()
    path.write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(clinc150, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return tmp_path


@pytest.fixture
def example(load_script, monkeypatch):
    """The script as a module, with a small sweep."""
    module = load_script("examples/text_intents.py")
    monkeypatch.setattr(module, "SEEDS", range(2))
    common = {"epochs": 2}
    s2d = {"student_weight": 1e-3, "noise_stddev": [0.0, 0.5], "student_loss": "balanced_kl"}
    monkeypatch.setattr(module, "START", {"plain": common, "s2d": {**common, **s2d}})
    sweeps = {"plain": {"epochs": [1, 2]}, "s2d": {"temperature": ["auto"]}}
    monkeypatch.setattr(module, "SWEEPS", sweeps)
    return module


def tiny_encoder(*_):
    """In place of MiniLM: vectors of the same size."""
    keras.utils.set_random_seed(0)
    words = " ".join([*WORDS.values(), "moon poem sky"]).split()
    texts = keras.Input([], dtype="string", name="texts")
    tokens = keras.layers.TextVectorization(vocabulary=words, output_sequence_length=5)(texts)
    vectors = keras.layers.Embedding(len(words) + 2, 384)(tokens)
    return keras.Model(texts, keras.layers.GlobalAveragePooling1D()(vectors))


def test_the_study_runs_from_sentences_to_results(example, folder, monkeypatch, capsys):
    monkeypatch.setattr(encoders, "check", lambda *_: None)
    monkeypatch.setattr(encoders, "sentence_encoder", tiny_encoder)
    opened, load = [], example.Study.load
    monkeypatch.setattr(
        example.Study, "load", lambda self, *where: opened.append(where) or load(self, *where)
    )
    flags = [f"--{name}={folder}" for name in ("encoder", "data_dir", "workdir", "out")]
    monkeypatch.setattr(sys, "argv", ["text_intents.py", *flags])
    example.main()
    record = json.loads((folder / "text_intents.json").read_text())
    assert [len(record["test"][method]) for method in ("plain", "s2d")] == [2, 2]
    assert record["chosen"]["s2d"]["temperature"] == "auto"
    tried = {t["settings"]["epochs"]: t["validation"] for t in record["sweep"]["plain"]}
    best = min(tried, key=lambda epochs: tried[epochs]["clinc150/nll"])
    assert record["chosen"]["plain"]["epochs"] == best
    assert "clinc150_oos/auroc/knowledge" in record["test"]["s2d"][0]
    assert "clinc150_oos/auroc/knowledge" not in record["test"]["plain"][0]
    page = (folder / "text_intents.md").read_text()
    assert "| %AUROC knowledge |  | " in page
    assert page.count("\n| plain |") == 2, "every setting that was tried"
    first_test = [split for _, split in opened].index("test")
    assert ("clinc150", "validation") in opened[:first_test]
    assert "how far away is the moon" in capsys.readouterr().out

    # What is kept is not computed again, and the metrics are those of independent code.
    study = example.Study(folder, folder, folder)
    monkeypatch.setattr(keras.Model, "fit", None)
    monkeypatch.setattr(encoders, "load", None)
    again = study.measure("s2d", record["chosen"]["s2d"], 0, "test")
    assert again == record["test"]["s2d"][0]
    run = study.run("s2d", record["chosen"]["s2d"], 0)
    model = run.predictor()
    (known, labels), (unknown, _) = (
        study.load(name, "test") for name in ("clinc150", "clinc150_oos")
    )
    answers = [model.predict_uncertainty(x) for x in (known, unknown)]
    assert again["clinc150/accuracy"] == np.mean(answers[0]["probs"].argmax(-1) == labels)
    nll = oracle.log_loss(labels, answers[0]["probs"], labels=range(150))
    assert again["clinc150/nll"] == pytest.approx(nll, rel=1e-4)
    is_unknown = np.repeat([0, 1], [len(known), len(unknown)])
    knowledge = np.concatenate([answer["knowledge"] for answer in answers])
    expected = oracle.roc_auc_score(is_unknown, knowledge)
    assert again["clinc150_oos/auroc/knowledge"] == pytest.approx(expected)


def test_a_run_of_the_study_is_evaluated_and_published_as_an_entry(
    example, folder, monkeypatch, capsys
):
    monkeypatch.setattr(encoders, "check", lambda *_: None)
    monkeypatch.setattr(encoders, "sentence_encoder", tiny_encoder)
    monkeypatch.setattr(run_evaluation.cost, "inference_time", lambda *_: (1.0, 1.0))
    study = example.Study(folder, folder, folder)
    settings = {**example.START["s2d"], "temperature": "auto", "epochs": 1}
    run = study.run("s2d", settings, 0)
    name = example.ENTRIES["s2d"]
    flags = [f"--encoder={folder}", f"--data_dir={folder}"]
    capsys.readouterr()  # what the study has printed
    assert cli.main(["evaluate", str(run.directory), *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    measured = study.measure("s2d", settings, 0, "test")
    for key in ("clinc150/nll", "clinc150/accuracy", "clinc150_oos/auroc/knowledge"):
        assert found[key] == pytest.approx(measured[key], rel=1e-4)
    both = [str(run.directory)] * 2
    assert cli.main(["compare", *both, f"--data_dir={folder}"]) == 1
    assert "Pass --encoder=FOLDER" in capsys.readouterr().err
    assert cli.main(["compare", *both, *flags, "--bootstrap=10"]) == 0
    drawn = []  # Drawing takes its time, and has tests of its own.
    monkeypatch.setattr(
        report_pictures, "draw_models", lambda models, *_: drawn.append(models) or ()
    )
    assert cli.main(["report", both[0], *flags, f"--out={folder / 'report'}"]) == 0
    (gathered,) = drawn[0].values()
    assert len(gathered.known.labels) == found["data/clinc150/images"]

    target = publishing.publish(
        run.directory, name, folder / "zoo", folder, precision="float32", other_numbers=True,
        log=lambda line: None, encoder=folder,
    )  # fmt: skip
    record = entries.read((target / "entry.json").read_bytes(), target)
    assert record.recipe.stands_on == example.ENCODER
    assert record.metrics["clinc150/nll"] == found["clinc150/nll"]
    assert record.provenance["commands"][0].startswith("python examples/text_intents.py")
    assert f"s2d evaluate RUN --encoder=FOLDER\ns2d publish RUN --name={name} --encoder=FOLDER" in (
        (target / "README.md").read_text()
    )
    texts, _ = data.load_arrays("clinc150", "test", folder)
    vectors, _ = study.load("clinc150", "test")
    head, whole = zoo.load(target), zoo.load(target, encoder=folder)
    assert head.contract.tensors[0].range == run.predictor().contract.tensors[0].range
    np.testing.assert_allclose(
        whole.predict_uncertainty(texts)["knowledge"],
        head.predict_uncertainty(vectors)["knowledge"],
        rtol=1e-4,
    )


@pytest.mark.slow
def test_a_bert_of_keras_hub_from_texts_to_an_export(tmp_path, monkeypatch):
    """With a small network of random weights in place of MiniLM, in KerasHub's own layout."""
    keras_hub = pytest.importorskip("keras_hub", reason="needs the extra `text`")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    encoder = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary), num_layers=1, num_heads=2, hidden_dim=8,
        intermediate_dim=16, max_sequence_length=32,
    )  # fmt: skip
    encoder.save_to_preset(str(tmp_path))
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=True), sequence_length=6
    )
    preprocessor.save_to_preset(str(tmp_path))
    whole = encoders.sentence_encoder(tmp_path, 6)
    texts = np.array(["a b c", "D", "e f g h a b c"])
    model = models.S2DClassifier(whole, 3, seed=0)
    found = model.predict_features(texts)
    tokens = preprocessor(texts)
    outputs = keras.ops.convert_to_numpy(encoder(tokens)["sequence_output"])
    mask = keras.ops.convert_to_numpy(tokens["padding_mask"])
    expected = [row[used].mean(axis=0) for row, used in zip(outputs, mask, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)

    model.save(tmp_path / "model.keras")
    twin = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(twin.predict_features(texts), expected, atol=1e-5)

    folder = export.save(model, tmp_path / "exported")
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    answer, expected = served(texts=tf.constant(texts)), model.predict_uncertainty(texts)
    np.testing.assert_allclose(answer["probabilities"], expected["probs"], atol=1e-5)
    np.testing.assert_allclose(answer["knowledge_uncertainty"], expected["knowledge"], atol=1e-5)
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)  # as if it were not installed
    with pytest.raises(export.OperationError, match=r"expected TensorFlow Text.*s2d_tf\[text\]"):
        export.check(folder)
