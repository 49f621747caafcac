"""JSON to arrays, strictly, and back."""

import base64
import json

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.errors import UserError
from s2d_tf.serving import protocol
from s2d_tf.serving.protocol import Limits, RequestError

PIXELS = {"images": tf.TensorSpec([None, 2, 1, 1], tf.uint8)}
FLOATS = {"images": tf.TensorSpec([None, 2, 1, 1], tf.float32)}
FILES = {"image_bytes": tf.TensorSpec([None], tf.string)}
TWO = {"left": PIXELS["images"], "right": FLOATS["images"]}
LIMITS = Limits(batch_size=3, image_pixels=500)
ROW = [[[7]], [[9]]]


def read(content, specs, limits=LIMITS):
    body = content if isinstance(content, str) else json.dumps(content)
    _, form, values = protocol.parse(body.encode())
    return protocol.arrays(form, values, specs, limits)


def b64(content):
    return {"b64": base64.b64encode(content).decode()}


def test_files_in_every_form(encode):
    content = encode(np.zeros([4, 5, 3], np.uint8))
    for body in (
        {"instances": [b64(content)]},
        {"instances": [{"image_bytes": b64(content)}]},
        {"inputs": [b64(content)]},
        {"inputs": {"image_bytes": [b64(content)]}},
    ):
        assert read(body, FILES)["image_bytes"].tolist() == [content]


def pixels(*values):
    return {"instances": [[[[value]] for value in values]]}


EXAMPLES = "images: expected 1 to 3 examples in a request, received"


@pytest.mark.parametrize(
    ("content", "inputs", "message"),
    [
        ("", PIXELS, "request: expected a JSON object"),
        ("[1]", PIXELS, "request: expected a JSON object, received a list"),
        ("[" * 100_000, PIXELS, "request: expected a JSON object"),
        (pixels(np.nan, 1), FLOATS, "finite numbers, received nan"),
        (pixels(-np.inf, 1), FLOATS, "finite numbers, received -inf"),
        (pixels(1e39, 1), FLOATS, "expected finite numbers"),
        (json.dumps(pixels(1, 1)).replace("1", "9" * 6_000), FLOATS, "."),
        ({}, PIXELS, "received neither"),
        ({"instances": [ROW], "inputs": [ROW]}, PIXELS, "received instances and inputs"),
        ({"instances": [ROW], "signature_name": 3}, PIXELS, "signature_name: expected text"),
        ({"instances": {}}, PIXELS, "instances: expected a list"),
        ({"instances": []}, PIXELS, f"{EXAMPLES} 0"),
        ({"instances": [ROW] * 4}, PIXELS, f"{EXAMPLES} 4"),
        ({"instances": [{"left": ROW}]}, PIXELS, r"\['images'\], received \['left'\]"),
        ({"instances": [{"images": ROW}, ROW]}, PIXELS, r"instances\[1\]: expected an object"),
        ({"inputs": {"images": 3}}, PIXELS, "expected a list of examples, received a number"),
        ({"instances": [[]]}, PIXELS, r"expected whole numbers in lists|received \(1, 0\)"),
        ({"instances": [7]}, PIXELS, r"shape \(None, 2, 1, 1\), received \(1,\)"),
        ({"instances": [[[[7]], [[9, 8]]]]}, PIXELS, "lists of equal lengths"),
        (pixels(7, "9"), PIXELS, "expected whole numbers in lists"),
        (pixels(7, None), FLOATS, "expected numbers in lists"),
        (pixels(True, False), PIXELS, "expected whole numbers in lists"),
        (pixels(7.5, 9), PIXELS, "expected whole numbers in lists"),
        (pixels(256, 9), PIXELS, "from 0 to 255, received 9 to 256"),
        (pixels(-1, 9), PIXELS, "from 0 to 255, received -1 to 9"),
        ({"instances": ["text"]}, FILES, r'image_bytes\[0\]: expected {"b64"'),
        ({"instances": [{"b64": 3}]}, FILES, r"image_bytes\[0\]: expected"),
        ({"instances": [{"b64": "ä*"}]}, FILES, "expected base64 text"),
        ({"instances": [b64(b"hello")]}, FILES, "expected a JPEG or PNG file, received something"),
        ({"instances": [ROW]}, TWO, r"inputs: expected an object of \['left', 'right'\]"),
        ({"inputs": {"left": [ROW]}}, TWO, r"\['left', 'right'\], received \['left'\]"),
    ],
)
def test_everything_else_is_rejected_with_a_reason(content, inputs, message):
    with pytest.raises(UserError, match=message) as caught:
        read(content, inputs)
    assert "\n" not in str(caught.value)


def test_one_image_of_the_largest_size_is_always_allowed(encode):
    content = encode(np.zeros([20, 20, 3], np.uint8))
    limits = Limits(batch_size=3, image_pixels=500, request_pixels=100)
    assert protocol.check_files([content], "image_bytes", limits) is None
    with pytest.raises(RequestError, match="at most 500 pixels in a request, received 800"):
        protocol.check_files([content] * 2, "image_bytes", limits)


def test_answers_go_back_in_the_form_of_the_question():
    outputs = {"label": np.array([2, 0]), "confidence": np.array([0.75, 1.0])}
    rows = json.loads(protocol.response(outputs, form="instances"))["predictions"]
    assert rows == [{"label": 2, "confidence": 0.75}, {"label": 0, "confidence": 1.0}]
    columns = json.loads(protocol.response(outputs, form="inputs"))
    assert columns == {"outputs": {"label": [2, 0], "confidence": [0.75, 1.0]}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        protocol.response({"label": np.array([np.nan])}, form="instances")
