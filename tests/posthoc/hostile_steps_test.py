"""Step files that mean harm, and thousands of damaged ones: rejected, or harmless."""

import functools
import json
import random
import tracemalloc

import numpy as np
import pytest

from s2d_tf import files, posthoc
from s2d_tf.posthoc import saving
from s2d_tf.posthoc.predictor import fingerprint

LITTLE = 2**21
"""Bytes that a rejection may take beside the file."""


@pytest.fixture(scope="module")
def good(model, data, tmp_path_factory):
    """The bytes of a fitted KNN."""
    path = tmp_path_factory.mktemp("good") / "knn"
    posthoc.save(posthoc.KNN(k=3).fit(model, data["train"]), path, {"data": "images"})
    return path.read_bytes()


def changed(data, arrays=None, **facts):
    """A file with other arrays and facts, and the digest that fits the arrays."""
    held, metadata = files.unpack_arrays(data)
    held = held if arrays is None else arrays
    stated = json.loads(metadata["step"]) | {"sha256": fingerprint(held)} | facts
    return files.pack_arrays(held, {"step": json.dumps(stated)})


def with_header(data, change):
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    text = json.dumps(change(header)).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def zeros(**shapes):
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def repacked(text):
    return lambda d: files.pack_arrays(files.unpack_arrays(d)[0], {"step": text})


HUGE = {"shape": [2**20, 2**20]}
DENSITY = {"shift": 12, "whitening": [12, 24], "offsets": 24, "log_normalizers": 1}
CRAFTED = {
    "empty": (lambda d: b"", "expected a header of at most"),
    "a pickle": (lambda d: b"\x80\x04\x95" + d, "a fitted post-hoc step"),
    "cut": (lambda d: d[:-1], "expected a safetensors file"),
    "a long header": (lambda d: (2**40).to_bytes(8, "little") + d[8:], "a header of at most"),
    "an array beyond the file": (
        lambda d: with_header(d, lambda h: h | {"training": h["training"] | HUGE}),
        "expected a safetensors file",
    ),
    "no facts": (
        lambda d: files.pack_arrays(files.unpack_arrays(d)[0]),
        "expected names and values",
    ),
    "facts that are no JSON": (repacked("{"), "a fitted post-hoc step"),
    "deep facts": (repacked("[" * 100_000), "a fitted post-hoc step"),
}
# Arguments of `changed`.
CHANGED = {
    "another format": ({"format": "other"}, "expected the format"),
    "an unknown fact": ({"code": "import os"}, "unknown"),
    "other arrays": ({"sha256": "0" * 64}, "expected arrays of the stated sha256"),
    "another model": ({"model_sha256": "0" * 64}, "other weights or steps"),
    "no step": ({"step": "Step"}, "expected a step from"),
    "code for a step": ({"step": "collect"}, "expected a step from"),
    "unknown arguments": ({"arguments": {"other": 1}}, "a fitted KNN.*unexpected keyword"),
    "a negative k": ({"arguments": {"k": -3}}, "a fitted KNN.*a whole number above 0"),
    "k beyond the examples": ({"arguments": {"k": 10**6}}, "a fitted KNN"),
    "a key of the model": ({"arguments": {"name": "probs"}}, "a fitted KNN.*name: expected"),
    "a key that is a path": ({"arguments": {"name": "../x"}}, "a fitted KNN.*name: expected"),
    "a key that is a list": ({"arguments": {"name": ["x"]}}, "a fitted KNN.*name: expected"),
    "another step": ({"step": "Mahalanobis", "arguments": {}}, "a fitted Mahalanobis"),
    "more members than drawn": (
        {
            "arrays": zeros(kernels=[12, 10], biases=[2, 5]),
            "step": "LastLayerLaplace",
            "arguments": {"num_draws": 10**9},
        },
        "expected members of shape",
    ),
    "knowledge of a model without": (
        {"arrays": {}, "step": "Uncertainty", "arguments": {"measure": "knowledge"}},
        "expected 'confidence' or 'total'",
    ),
    "a score that is not there": (
        {
            "arrays": zeros(threshold=[], coverage=[], risk_bound=[]),
            "step": "SelectiveClassifier",
            "arguments": {"score": "knn"},
        },
        "a fitted SelectiveClassifier.*score: expected one of",
    ),
    "NaN": ({"arrays": {"training": np.float32([np.nan])}}, "expected finite floats"),
    "whole numbers": ({"arrays": {"training": np.arange(3)}}, "expected finite floats"),
    "narrow arrays": ({"arrays": zeros(training=[3, 300])}, "a fitted KNN"),
    "more rows than examples": (
        {"arrays": zeros(**DENSITY), "step": "FeatureDensity", "arguments": {}},
        "expected members of shape",
    ),
}
CRAFTED |= {
    name: (functools.partial(changed, **arguments), message)
    for name, (arguments, message) in CHANGED.items()
}


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_rejected_in_one_line(model, good, tmp_path, name):
    make, message = CRAFTED[name]
    content = make(good)
    (tmp_path / "knn").write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(posthoc.StepError, match=message) as caught:
            posthoc.load(tmp_path / "knn", model)
        assert tracemalloc.get_traced_memory()[1] < LITTLE + 3 * len(content)
    finally:
        tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 900


def test_no_more_is_read_than_a_step_can_have(model, good, tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "MAX_BYTES", len(good) - 1)
    (tmp_path / "knn").write_bytes(good)
    with pytest.raises(posthoc.StepError, match=r"expected at most .* bytes, received more"):
        posthoc.load(tmp_path / "knn", model)
    with pytest.raises(posthoc.StepError, match="expected a file, received 'No such file"):
        posthoc.load(tmp_path / "none", model)


def test_damaged_files_are_rejected_or_harmless(model, good, data, mutate):
    images = data["test"][0][:2]
    expected = saving.parse(good, model, "knn").score(images)
    rng, rejected = random.Random(1), 0
    for _ in range(500):
        try:
            predictor = saving.parse(mutate(good, rng), model, "copy")
        except posthoc.StepError:
            rejected += 1
            continue
        # The digest and the model's hash held, so only the provenance may differ.
        np.testing.assert_array_equal(predictor.score(images), expected)
    assert rejected > 450
