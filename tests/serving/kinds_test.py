"""Models of other inputs than raw pixels, over HTTP: texts, token ids, tables, several at once."""

import base64
import contextlib
import functools

import keras
import numpy as np
import pytest

from s2d_tf import export, models, serving
from tests.export.conftest import NAMES as ANSWERS
from tests.export.kinds_test import embedded, strings, tokens, words


def table(random):
    x = keras.Input([5])
    start = keras.initializers.RandomNormal(stddev=3.0, seed=3)
    values = random.normal(size=[3, 5]).astype(np.float32)
    return keras.Model(x, keras.layers.Dense(4, kernel_initializer=start)(x)), values


def several(_):
    inputs = {
        "Column_1": keras.Input([2], name="Column_1"),
        "ids": keras.Input([3], dtype="int32", name="ids"),
        "pair": keras.Input([2], dtype="string", name="pair"),
        "known": keras.Input([2], dtype="bool", name="known"),
    }
    parts = [
        keras.layers.Rescaling(1.0)(inputs["Column_1"]),
        embedded(inputs["ids"], 9),
        words(inputs["pair"][:, 0]),
        keras.ops.cast(inputs["known"], "float32"),
    ]
    values = {
        "Column_1": np.array([[0.5, -1], [0.25, 1]], np.float32),
        "ids": np.array([[0, 1, 8], [3, 3, 3]]),
        "pair": np.array([["red", "blue"], ["one two", ""]], object),
        "known": np.array([[True, False], [True, True]]),
    }
    return keras.Model(inputs, keras.layers.Concatenate()(parts)), values


KINDS = {"strings": strings, "tokens": tokens, "table": table, "several": several}
RANGES = {"several": {"Column_1": (-1.0, 1.0)}}


@pytest.fixture(scope="module")
def served(running, tmp_path_factory):
    """`served(kind)`: the address to ask, the model, its inputs and its folder."""

    @functools.cache
    def run(kind):
        backbone, inputs = KINDS[kind](np.random.default_rng(0))
        model = models.S2DClassifier(backbone, 3, input_range=RANGES.get(kind), seed=0)
        folder = tmp_path_factory.mktemp(kind) / "tiny"
        export.save(model, folder)
        server = running(serving.Servables(folder), serving.Limits(batch_size=12))
        return f"{stack.enter_context(server)}/v1/models/tiny:predict", model, inputs, folder

    with contextlib.ExitStack() as stack:
        yield run


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_columns_get_the_models_answers(served, client, kind):
    url, model, inputs, _ = served(kind)
    expected = model.predict_uncertainty(inputs)
    assert expected["knowledge"].min() > 1e-4
    (only,) = [t.name for t in model.contract.tensors] if kind != "several" else [None]
    named = inputs if only is None else {only: inputs}
    columns = {name: values.tolist() for name, values in named.items()}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    bodies = [{"instances": rows}, {"inputs": columns}]
    if only is not None:
        bodies += [{"instances": columns[only]}, {"inputs": columns[only]}]
    for body in bodies:
        answer = client.post(url, body)
        found = answer.get("outputs") or {
            name: [row[name] for row in answer["predictions"]] for name in (*ANSWERS, "label")
        }
        np.testing.assert_array_equal(found["label"], expected["probs"].argmax(axis=-1))
        for name, key in ANSWERS.items():
            np.testing.assert_allclose(found[name], expected[key], rtol=1e-4, atol=1e-5)


def test_texts_as_base64(served, client):
    url, *_ = served("strings")
    encoded = {"b64": base64.b64encode("Grün 中文".encode()).decode()}
    plain, same = client.post(url, {"instances": ["Grün 中文", encoded]})["predictions"]
    assert plain == same


GOOD = {"Column_1": [0, 0], "ids": [0, 1, 2], "pair": ["red", "blue"], "known": [True, False]}


def one(**changed):
    return [GOOD | changed]


@pytest.mark.parametrize(
    ("kind", "rows", "message"),
    [
        ("strings", ["red", None], r"texts\[1\]: expected text, received null"),
        ("strings", ["\ud800"], r"texts\[0\]: expected text in UTF-8"),
        ("strings", [{"b64": "/w=="}], r"texts\[0\]: expected text in UTF-8"),
        ("strings", [{"text": "red"}], r"\['texts'\], received \['text'\]"),
        ("tokens", [[1, 20] * 3], r"ids: expected numbers in \[0, 19\], .* 1 to 20"),
        ("tokens", [[1, -1] * 3], r"ids: expected numbers in \[0, 19\], .* -1 to 1"),
        ("table", [[3e38] * 5], "inputs: expected numbers, but their answer is no"),
        ("several", one(Column_1=[0, 1.5]), r"Column_1: expected .* \[-1, 1\], .* 0 to 1.5"),
        ("several", one(pair=["red"]), r"pair: .* shape \(None, 2\), received \(1, 1\)"),
        ("several", one(known=[1, 0]), "known: expected truth values"),
        ("several", [GOOD, *one(pair=["red"])], r"pair\[0\]: expected text, received a list"),
    ],
)
def test_everything_else_gets_a_400_of_one_line(served, client, kind, rows, message):
    url, *_ = served(kind)
    with pytest.raises(RuntimeError, match=f"^400: .*{message}") as caught:
        client.post(url, {"instances": rows})
    assert "\n" not in str(caught.value)
    assert "node" not in str(caught.value)


def test_columns_of_unequal_lengths_and_unknown_signatures_get_a_400(served, client):
    url, *_ = served("several")
    columns = {name: [value] for name, value in GOOD.items()} | {"known": [[True] * 2] * 3}
    with pytest.raises(RuntimeError, match=r"400: .*as many rows of each, received .*'known': 3"):
        client.post(url, {"inputs": columns})
    with pytest.raises(RuntimeError, match="400: signature_name: expected one of"):
        client.post(url, {"instances": one(), "signature_name": "serve_encoded"})
