"""A served model with fitted steps answers with what they add, as truth values and numbers."""

import json
import urllib.request

import numpy as np
import pytest

from s2d_tf import export, posthoc, serving


@pytest.fixture(scope="module")
def model(tiny_model, pictures):
    # Other pictures, or thresholds would be scores that rounding moves to either side.
    random = np.random.default_rng(0)
    many = random.integers(0, 256, [60, *pictures.shape[1:]]), np.arange(60) % 4
    fitted = posthoc.Energy().fit(posthoc.KNN(k=3).fit(tiny_model, many))
    fitted = posthoc.ConformalSets(0.7).fit(fitted, many)
    return posthoc.SelectiveClassifier(0.95, score="knn").fit(fitted, many)


def test_the_server_answers_with_the_steps_outputs(model, pictures, running, client, tmp_path):
    export.save(model, tmp_path / "tiny")
    expected = model.predict_uncertainty(pictures)
    with running(serving.Servables(tmp_path / "tiny")) as url:
        address = f"{url}/v1/models/tiny:predict"
        rows = client.post(address, {"instances": pictures.tolist()})["predictions"]
        columns = client.post(address, {"inputs": {"images": pictures.tolist()}})["outputs"]
        with urllib.request.urlopen(f"{url}/v1/models/tiny/metadata", timeout=30) as answer:
            described = json.load(answer)
    assert [row["abstain"] for row in rows] == expected["abstain"].tolist()
    assert [row["prediction_set"] for row in rows] == expected["prediction_set"].tolist()
    assert {type(value) for row in rows for value in (row["abstain"], *row["prediction_set"])} == {
        bool
    }
    scores = [row["ood_score"] for row in rows]
    np.testing.assert_allclose(scores, expected["energy"], rtol=1e-5)  # the last detector's
    for name in ("abstain", "prediction_set", "ood_score"):
        assert columns[name] == [row[name] for row in rows]
    outputs = described["metadata"]["signature_def"]["signature_def"]["serving_default"]["outputs"]
    assert outputs["abstain"]["dtype"] == outputs["prediction_set"]["dtype"] == "DT_BOOL"
