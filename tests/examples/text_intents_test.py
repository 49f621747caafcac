"""The study on CLINC150, on a small file and a tiny encoder, end to end."""

import hashlib
import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, models
from s2d_tf.trainers.datasets import clinc150

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


def tiny_encoder(*_):
    """In place of MiniLM."""
    keras.utils.set_random_seed(0)
    words = " ".join([*WORDS.values(), "moon poem sky"]).split()
    texts = keras.Input([], dtype="string", name="texts")
    tokens = keras.layers.TextVectorization(vocabulary=words, output_sequence_length=5)(texts)
    vectors = keras.layers.Embedding(len(words) + 2, 24)(tokens)
    return models.Classifier(
        keras.Model(texts, keras.layers.GlobalAveragePooling1D()(vectors)), 2, seed=0
    )


def test_the_study_runs_from_sentences_to_results(load_script, folder, monkeypatch, capsys):
    example = load_script("examples/text_intents.py")
    monkeypatch.setattr(example, "SEEDS", range(2))
    monkeypatch.setattr(example, "SWEEPS", {"plain": {"epochs": [1, 2]}, "s2d": {"epochs": [2]}})
    monkeypatch.setattr(example, "load_encoder", tiny_encoder)
    opened, load = [], example.Study.load
    monkeypatch.setattr(
        example.Study, "load", lambda self, *where: opened.append(where) or load(self, *where)
    )
    flags = [f"--{name}={folder}" for name in ("encoder", "data_dir", "workdir", "out")]
    monkeypatch.setattr(sys, "argv", ["text_intents.py", *flags])
    example.main()
    record = json.loads((folder / "text_intents.json").read_text())
    tried = {t["settings"]["epochs"]: t["validation"] for t in record["sweep"]["plain"]}
    best = min(tried, key=lambda epochs: tried[epochs]["clinc150/nll"])
    assert record["chosen"]["plain"]["epochs"] == best
    assert "clinc150_oos/auroc/knowledge" in record["test"]["s2d"][0]
    assert "clinc150_oos/auroc/knowledge" not in record["test"]["plain"][0]
    page = (folder / "text_intents.md").read_text()
    assert "| clinc150_oos/auroc/knowledge |  | " in page
    assert page.count("\n| plain |") == 2, "every setting that was tried"
    first_test = [split for _, split in opened].index("test")
    assert ("clinc150", "validation") in opened[:first_test]
    assert "Answers for 2 inputs" in capsys.readouterr().out

    # Vectors are not computed again.
    monkeypatch.setattr(example, "load_encoder", None)
    study = example.Study(folder, folder, folder)
    again = study.measure(study.fit("s2d", record["chosen"]["s2d"], 0), "test")
    assert again["clinc150/nll"] == pytest.approx(record["test"]["s2d"][0]["clinc150/nll"])


@pytest.mark.slow
def test_a_bert_of_keras_hub_from_texts_to_an_export(load_script, tmp_path, monkeypatch):
    """With a small network of random weights in place of MiniLM, in KerasHub's own layout."""
    keras_hub = pytest.importorskip("keras_hub", reason="needs the extra `text`")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
    encoder = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary), num_layers=1, num_heads=2, hidden_dim=8,
        intermediate_dim=16, max_sequence_length=32,
    )  # fmt: skip
    encoder.save_to_preset(str(tmp_path))
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.tokenizers.BertTokenizer(vocabulary, lowercase=True), sequence_length=32
    )
    preprocessor.save_to_preset(str(tmp_path))
    model = load_script("examples/text_intents.py").load_encoder(tmp_path)
    texts = np.array(["a b c", "D", "e f g h a b c"])
    found = model.predict_features(texts)
    tokens = preprocessor(texts)
    outputs = keras.ops.convert_to_numpy(encoder(tokens)["sequence_output"])
    mask = keras.ops.convert_to_numpy(tokens["padding_mask"])
    expected = [row[used].mean(axis=0) for row, used in zip(outputs, mask, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-5)

    folder = export.save(model, tmp_path / "exported")
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    answer, expected = served(texts=tf.constant(texts)), model.predict_uncertainty(texts)
    np.testing.assert_allclose(answer["probabilities"], expected["probs"], atol=1e-5)
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)  # as if it were not installed
    with pytest.raises(export.OperationError, match=r"expected TensorFlow Text.*s2d_tf\[text\]"):
        export.check(folder)
