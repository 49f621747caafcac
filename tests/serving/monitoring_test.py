"""Health, readiness, metrics and logs."""

import io
import json
import logging
import sys

import numpy as np
import pytest

from s2d_tf import serving
from tests.serving.conftest import connect, get

pytest.importorskip("uvicorn", reason="needs the extra s2d_tf[serve]")
from s2d_tf.serving import server


def samples(text):
    """`{name with labels: value}` of Prometheus' format."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_health_and_readiness(running, shared_servables):
    with running(shared_servables, serving.Limits(concurrency=1)) as url:
        assert get(f"{url}/healthz")[0] == get(f"{url}/readyz")[0] == 200
        with connect(url) as busy:
            busy.sendall(
                b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
            )
            assert any(get(f"{url}/readyz")[0] == 503 for _ in range(1000))
            assert get(f"{url}/healthz")[0] == 200


def test_metrics_have_the_distributions_of_the_answers(
    running, shared_servables, client, pictures, expected, encode
):
    with running(shared_servables) as url:
        client.predict(url, "tiny", [encode(picture) for picture in pictures])
        with pytest.raises(RuntimeError, match="400"):
            client.predict(url, "tiny", [b"no picture"])
        status, headers, text = get(f"{url}/metrics")
        assert get(f"{url}/monitoring/prometheus/metrics")[0] == status == 200
    assert headers["Content-Type"].startswith("text/plain")
    found = samples(text)
    assert found['s2d_requests_total{status="200"}'] == 1
    assert found['s2d_requests_total{status="400"}'] == 1
    assert found["s2d_request_seconds_count"] == 2
    assert found["s2d_request_images_sum"] == len(pictures)
    assert found["s2d_model_version"] == 1
    assert found["s2d_failed_versions"] == 0
    for kind in ("total", "data", "knowledge"):
        values = expected[f"{kind}_uncertainty"]
        labels = f'kind="{kind}",version="1"'
        assert found[f"s2d_uncertainty_nats_count{{{labels}}}"] == len(pictures)
        np.testing.assert_allclose(
            found[f"s2d_uncertainty_nats_sum{{{labels}}}"], values.sum(), rtol=1e-4
        )
        below = found[f's2d_uncertainty_nats_bucket{{kind="{kind}",le="0.4",version="1"}}']
        assert below == (values <= 0.4).sum()
    np.testing.assert_allclose(
        found['s2d_confidence_sum{version="1"}'], expected["confidence"].sum(), rtol=1e-4
    )


def test_logs_are_json_lines(running, shared_servables, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    server.configure_logs("info")
    logger = logging.getLogger("s2d_tf.serving")
    try:
        with running(shared_servables) as url:
            get(f"{url}/v1/models/other")
        try:
            raise OSError("disk")
        except OSError:
            logger.exception("failed")
    finally:
        for name in ("s2d_tf.serving", "uvicorn", "asyncio"):
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (request,) = (line for line in lines if line["message"] == "request")
    asked = {"method": "GET", "path": "/v1/models/other", "status": 404, "level": "info"}
    assert asked.items() <= request.items()
    assert "OSError: disk" in lines[-1]["exception"]
