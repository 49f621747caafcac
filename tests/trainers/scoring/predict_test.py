"""Files in, a table of answers out: the model's own, each input once."""

import csv
import json
import signal

import numpy as np
import pytest
from pyarrow import parquet

from s2d_tf import cli, export, metrics, posthoc
from s2d_tf.trainers import scoring
from s2d_tf.trainers.scoring import predict
from s2d_tf.trainers.scoring.scorer import of_model
from tests.trainers.scoring.conftest import constant_answers

KINDS = ("folder", "lines", "tfrecord", "parquet", "parquet_struct")


def score(scorer, inputs, out, **options):
    options = {"batch_size": 4, "part_rows": 10, "progress": False} | options
    return scoring.predict_files(scorer, inputs, out, **options)


def read(path):
    return parquet.read_table(path).to_pydict()


def check(table, model, pictures):
    found = model.predict_uncertainty(pictures)
    order = np.argsort(-found["probs"], axis=-1)
    assert table["label"] == order[:, 0].tolist()
    assert table["class"] == [model.class_names[label] for label in order[:, 0]]
    for column, name in (
        ("confidence", "confidence"),
        ("total_uncertainty", "total"),
        ("data_uncertainty", "data"),
        ("knowledge_uncertainty", "knowledge"),
    ):
        np.testing.assert_allclose(table[column], found[name], atol=1e-5)
    for rank in range(2):
        assert table[f"top_{rank + 1}_label"] == order[:, rank].tolist()
        expected = np.take_along_axis(found["probs"], order[:, [rank]], axis=-1)[:, 0]
        np.testing.assert_allclose(table[f"top_{rank + 1}_probability"], expected, atol=1e-5)
    assert "top_3_label" not in table


@pytest.mark.parametrize("kind", [*KINDS, "pixels"])
def test_every_kind_of_input_gives_the_models_answers_and_damaged_ones_are_listed(
    kind, scorer, tiny_model, pictures, encoded, truth, write, tmp_path
):
    raw = kind == "pixels"
    contents = [picture.tobytes() for picture in pictures] if raw else list(encoded)
    bad = [3, 11, 22]
    contents[3], contents[11], contents[22] = b"no picture", encoded[11][:60], b""
    inputs = write("tfrecord" if raw else kind, contents)
    summary = score(scorer, inputs, tmp_path / "out.parquet", top_k=2)
    assert summary[:2] == (len(pictures) - 3, 3)
    table = read(summary.out)
    check(table, tiny_model, np.delete(pictures, bad, axis=0))
    kept = np.delete(truth, bad).tolist()
    assert table["target"] == ([None] * len(kept) if kind in ("folder", "lines") else kept)
    with open(summary.skipped_list, newline="") as file:
        listed = list(csv.DictReader(file))
    places = sorted(int(row["input"].split(":")[-1].split(".")[0]) for row in listed)
    assert places == ([7, 23, 45] if kind == "lines" else bad)
    assert all(row["reason"] for row in listed)
    assert not summary.out.with_name("out.parquet.parts").exists()
    facts = json.loads(summary.out.with_name("out.parquet.json").read_text())
    assert (facts["name"], facts["rows"], facts["skipped"]) == ("model", len(kept), 3)


def test_a_cut_file_of_records_gives_what_is_before_the_cut(scorer, encoded, write, tmp_path):
    with pytest.raises(ValueError, match=r"received 3 that cannot, listed in .*skipped\.csv"):
        score(scorer, write("tfrecord", [b"x"] * 3), tmp_path / "none.parquet")
    path = write("tfrecord", encoded)
    path.write_bytes(path.read_bytes()[:-30])
    summary = score(scorer, path, tmp_path / "out.parquet")
    assert summary[:2] == (len(encoded) - 1, 1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    summary = score(scorer, path, tmp_path / "other.parquet")
    assert summary.rows + summary.skipped == len(encoded)
    assert 5 < summary.rows < 15


def counting(scorer, asked, stop_at=None):
    """The same scorer; it keeps the sizes of its batches, and is interrupted at one of them."""

    def function(batch):
        asked.append(len(batch))
        if len(asked) == stop_at:
            raise KeyboardInterrupt
        return scorer.function(batch)

    return scoring.Scorer(
        function, scorer.image_shape, scorer.class_names, scorer.sha256, scorer.name
    )


@pytest.mark.parametrize("kind", ["folder", "tfrecord", "parquet"])
@pytest.mark.parametrize("joining", [False, True])
def test_it_goes_on_after_a_stop(kind, joining, scorer, encoded, write, tmp_path, monkeypatch):
    inputs = write(kind, [*encoded[:5], b"damaged", *encoded[6:]])
    whole = score(scorer, inputs, tmp_path / "whole.parquet")
    out = tmp_path / "stopped.parquet"
    # Three batches make a part of ten inputs, so one is written when the fifth batch stops.
    with monkeypatch.context() as patched:
        if joining:
            # A background shell ignores the signal, and its children with it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            patched.setattr(predict.Job, "join", lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            score(counting(scorer, [], None if joining else 5), inputs, out)
    assert not out.exists()
    asked = []
    again = score(counting(scorer, asked), inputs, out)
    assert again[:2] == whole[:2] == (len(encoded) - 1, 1)
    # Only what was not written is computed again: two parts of ten, or nothing.
    assert sum(asked) == (0 if joining else len(encoded) - 10)
    assert read(out) == read(whole.out)
    asked.clear()
    assert score(counting(scorer, asked), inputs, out) == again
    assert asked == []


def test_another_result_is_not_overwritten_or_mixed(scorer, encoded, write, tmp_path):
    inputs, out = write("folder", encoded), tmp_path / "out.parquet"

    with pytest.raises(KeyboardInterrupt):
        score(counting(scorer, [], 5), inputs, out)
    (inputs / "zzz.png").write_bytes(encoded[0])
    with pytest.raises(ValueError, match=r"out\.parquet\.parts is of another model, other inputs"):
        score(scorer, inputs, out)
    (inputs / "zzz.png").unlink()
    score(scorer, inputs, out)
    with pytest.raises(ValueError, match=r"expected a new file.*choose another --out"):
        score(scorer, inputs, out, top_k=1)


def test_what_fitted_steps_add(tiny_model, pictures, truth, encoded, write, tmp_path):
    sets = posthoc.ConformalSets(coverage=0.8).fit(tiny_model, (pictures, truth))
    knn = posthoc.KNN(k=3).fit(sets, (pictures, truth))
    paths = [posthoc.save(each, tmp_path / each.step.name) for each in (sets, knn)]
    scorer = of_model(tiny_model, paths)
    table = read(score(scorer, write("folder", encoded), tmp_path / "out.parquet").out)
    expected = sets.predict_sets(pictures)
    assert table["prediction_set"] == [" ".join(map(str, np.flatnonzero(r))) for r in expected]
    np.testing.assert_allclose(table["ood_score"], knn.score(pictures), rtol=1e-4)


def test_an_answer_that_is_not_a_number_is_skipped(write, tmp_path):
    def function(batch):
        answers = constant_answers(batch)
        answers["probabilities"][batch[:, 0, 0, 0] == 77] = np.nan
        return answers

    scorer = scoring.Scorer(function, (8, 6, 3), None, "0", "fake")
    pixels = [bytes([value]) * 144 for value in (1, 77, 3)]
    summary = score(scorer, write("tfrecord", pixels), tmp_path / "out.parquet")
    assert summary[:2] == (2, 1)
    assert "the prediction is not finite" in summary.skipped_list.read_text()
    assert "class" not in read(summary.out)


def small_model(inputs, features, **options):
    import keras

    from s2d_tf import models

    return models.S2DClassifier(keras.Model(inputs, features), 3, seed=0, **options)


def test_texts_go_through_a_model_and_its_export(tmp_path):
    import keras

    texts = keras.Input([], dtype="string", name="texts")
    words = ["red", "green", "blue"]
    tokens = keras.layers.TextVectorization(vocabulary=words, output_sequence_length=2)(texts)
    vectors = keras.layers.Embedding(5, 4)(tokens)
    model = small_model(texts, keras.layers.GlobalAveragePooling1D()(vectors))
    lines = ["red green", "blue", "niños"]
    path = tmp_path / "lines.txt"
    path.write_bytes("\n\n".join(lines).encode() + b"\n\xff\xfe\n")
    folder = export.save(model, tmp_path / "exported").parent
    expected = model.predict_uncertainty(lines)
    for i, scorer in enumerate((of_model(model), scoring.open_scorer(folder))):
        summary = score(scorer, path, tmp_path / f"{i}.parquet")
        assert "lines.txt:6,'utf-8' codec can't decode" in summary.skipped_list.read_text()
        table = read(summary.out)
        assert table["input"] == ["lines.txt:1", "lines.txt:3", "lines.txt:5"]
        np.testing.assert_allclose(table["confidence"], expected["confidence"], atol=1e-5)
        np.testing.assert_allclose(table["knowledge_uncertainty"], expected["knowledge"], atol=1e-5)
    with pytest.raises(ValueError, match="step: expected none for an exported model, received"):
        scoring.open_scorer(folder, ["knn"])


@pytest.mark.parametrize("kind", ["unit_range", "table"])
def test_models_of_other_inputs_are_rejected(kind, tmp_path):
    import keras

    inputs = keras.Input([4] if kind == "table" else [4, 4, 1])
    options = {} if kind == "table" else {"input_range": (0, 1)}
    model = small_model(inputs, keras.layers.Flatten()(inputs), **options)
    with pytest.raises(ValueError, match="model: expected one of texts or of gray or RGB images"):
        of_model(model)
    folder = export.save(model, tmp_path / "exported")
    with pytest.raises(ValueError, match="expected a model of texts or of raw pixels, received"):
        scoring.open_scorer(folder)


def test_folders_of_classes_are_labels(scorer, encoded, tmp_path):
    for i, content in enumerate(encoded[:8]):
        path = tmp_path / "images" / ["bee", "dog"][i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    table = read(score(scorer, tmp_path / "images", tmp_path / "out.parquet").out)
    assert table["target"] == [1] * 4 + [3] * 4
    assert table["input"][:2] == ["bee/0.png", "bee/2.png"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, r"expected a folder of images, a \.tfrecord, \.parquet or \.txt"),
        ("x.parquet", b"1", "expected a Parquet file"),
        ("x.txt", b"\n\n", "expected at least one input, received none"),
        ("x.tfrecord", b"", "expected at least one input"),
    ],
)
def test_other_inputs_are_rejected(name, content, message, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        scoring.open_source(tmp_path / name)


def test_metrics_of_a_table_are_those_of_the_model(
    scorer, tiny_model, pictures, encoded, truth, write, tmp_path, capsys
):
    out = score(scorer, write("tfrecord", encoded), tmp_path / "known.csv").out
    raw = [(255 - picture).tobytes() for picture in pictures[:9]]
    other = score(scorer, write("tfrecord", raw), tmp_path / "other.parquet").out
    assert cli.main(["evaluate", str(out), str(other)]) == 0
    found = json.loads(capsys.readouterr().out)
    answers = tiny_model.predict_uncertainty(pictures)
    others = tiny_model.predict_uncertainty(255 - pictures[:9])
    probs, wrong = answers["probs"].astype(np.float64), answers["probs"].argmax(axis=-1) != truth
    expected = {
        "known/accuracy": metrics.accuracy(probs, truth),
        "known/nll": metrics.negative_log_likelihood(probs, truth),
        "known/ece": metrics.expected_calibration_error(probs, truth),
        "known/aurc/confidence": metrics.area_under_risk_coverage(-answers["confidence"], wrong),
        "known/aurc/knowledge": metrics.area_under_risk_coverage(answers["knowledge"], wrong),
        # Other images of the same model: equal scores in both would be ties to the last bit.
        "other/auroc/total": metrics.auroc(answers["total"], others["total"]),
        "other/aupr/data": metrics.aupr(answers["data"], others["data"]),
    }
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-5), key
    with pytest.raises(ValueError, match="expected targets, received none"):
        scoring.evaluate_table(score(scorer, write("folder", encoded), tmp_path / "x.csv").out)


def test_other_tables_are_not_evaluated(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    assert cli.main(["evaluate", str(path)]) == 1
    message = f"s2d evaluate: error: {path}: expected a table that `s2d predict` wrote, received"
    assert capsys.readouterr().err.startswith(message)


def test_the_command(encoded, write, tmp_path, capsys):
    inputs, out = write("folder", [*encoded[:5], b"x"]), str(tmp_path / "out.csv")
    arguments = ["predict", "wrn_10_2_s2.s2d.digits", str(inputs), f"--out={out}"]
    assert cli.main(arguments) == 0
    printed = capsys.readouterr().out
    assert printed == f"Wrote 5 rows to {out}\nSkipped 1 inputs, listed in {out}.skipped.csv\n"
    assert cli.main([*arguments[:3], "--out=x.docx"]) == 1
    assert "expected a file that ends in .parquet or .csv" in capsys.readouterr().err
