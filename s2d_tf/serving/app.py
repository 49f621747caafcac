"""The HTTP side: TF Serving's REST routes on FastAPI, health checks and Prometheus metrics."""

import asyncio
import contextlib
import logging
import time
from typing import Any

import fastapi
import prometheus_client as prometheus
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from s2d_tf.errors import UserError
from s2d_tf.serving import protocol
from s2d_tf.serving.protocol import Limits, RequestError
from s2d_tf.serving.servable import Servable, Servables

_LOG = logging.getLogger("s2d_tf.serving")

# A rejected body is read on for a while, so that a client that only listens after it has sent all
# gets to know why.
_DRAIN_FACTOR = 4

NATS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)

_MODEL = "/v1/models/{model}"
_VERSION = _MODEL + "/versions/{version}"


def create_app(name: str, servables: Servables, limits: Limits | None = None) -> fastapi.FastAPI:
    """The application that answers for one model.

    Args:
        name: the model's name in the addresses.
        servables: `Servables` of the model.
        limits: `Limits`; the default ones if `None`.

    Returns:
        An ASGI application, which `serve` runs; it can be mounted in another one.

    Example:

    >>> folder = export.save(model, "models/mine")
    >>> app = serving.create_app("mine", serving.Servables("models/mine"))
    >>> "/v1/models/{model}:predict" in [route.path for route in app.routes]
    True
    """
    limits = limits or Limits()
    metrics = Metrics(servables)
    admitted = asyncio.Semaphore(limits.concurrency)

    async def admit(request: fastapi.Request):  # type: ignore[no-untyped-def]
        # uvicorn's own limit answers in plain text and counts idle connections.
        if admitted.locked():
            with contextlib.suppress(RequestError):
                await read_body(request, limits, keep=False)
            raise RequestError(
                f"request: expected at most {limits.concurrency} at once, received more. Try again "
                "later.",
                503,
            )
        async with admitted:
            yield

    async def find(request: fastapi.Request) -> Servable:
        servable = servables.current
        for key, loaded in (("model", name), ("version", str(servable.version))):
            received = request.path_params.get(key, loaded)
            if received != loaded:
                raise RequestError(
                    f"{key}: expected {loaded!r}, which is loaded, received {received!r}. Correct "
                    "the address.",
                    404,
                )
        return servable

    def answer(servable, body):
        outputs, form = servable.predict(body, limits)
        metrics.add_answers(servable.version, outputs)
        return protocol.response(outputs, form)

    async def reject(request, error):
        status = getattr(error, "status", 400)
        headers = {"Retry-After": "1"} if status == 503 else None
        return JSONResponse({"error": str(error)}, status, headers)

    async def reject_route(request, error):
        message = (
            f"address: expected /v1/models/{name}:predict (POST) or /v1/models/{name}, received "
            f"{request.method} {request.url.path[:200]!r}. {error.detail}."
        )
        return JSONResponse({"error": message}, error.status_code, error.headers)

    async def fail(request, error):
        return JSONResponse({"error": "The server failed; its log says why."}, 500)

    app = fastapi.FastAPI(
        title="s2d serve",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        exception_handlers={UserError: reject, HTTPException: reject_route, Exception: fail},
    )
    limited: Any = {"dependencies": [fastapi.Depends(admit)]}
    found = fastapi.Depends(find)

    @app.middleware("http")
    async def count(request, call_next):
        began, status, path = time.monotonic(), 500, request.url.path[:200]
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            seconds = time.monotonic() - began
            metrics.requests.labels(status).inc()
            if path.endswith(":predict"):
                metrics.seconds.observe(seconds)
            fields = {
                "method": request.method[:20],
                "path": path,
                "status": status,
                "seconds": round(seconds, 4),
                "client": request.client.host if request.client else "",
            }
            _LOG.info("request", extra={"fields": fields})

    @app.post(_MODEL + ":predict", **limited)
    @app.post(_VERSION + ":predict", **limited)
    async def predict(request: fastapi.Request, servable: Any = found) -> Response:
        body = await read_body(request, limits)
        # The loop's own threads: a few more than cores, so that not all requests are in memory.
        content = await asyncio.to_thread(answer, servable, body)
        return Response(content, media_type="application/json")

    @app.get(_MODEL + "/metadata", **limited)
    @app.get(_VERSION + "/metadata", **limited)
    async def metadata(servable: Any = found) -> dict:
        return {
            "model_spec": {"name": name, "signature_name": "", "version": str(servable.version)},
            "metadata": {"signature_def": {"signature_def": servable.metadata}},
        }

    @app.get(_MODEL, **limited)
    @app.get(_VERSION, **limited)
    async def status(servable: Any = found) -> dict:
        available = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        return {"model_version_status": [{"version": str(servable.version), **available}]}

    @app.get("/healthz")
    async def health():
        """Whether the process is worth keeping."""
        return Response()

    @app.get("/readyz")
    async def readiness():
        """Whether to send requests here now."""
        return Response(status_code=503 if admitted.locked() else 200)

    @app.get("/metrics")
    @app.get("/monitoring/prometheus/metrics")  # TF Serving's
    async def prometheus_metrics():
        return Response(
            prometheus.generate_latest(metrics.registry),
            media_type=prometheus.CONTENT_TYPE_LATEST,
        )

    return app


async def read_body(request: fastapi.Request, limits: Limits, keep: bool = True) -> bytes:
    """The request's body, at most as large and as slow as the limits allow."""
    parts, received = [], 0
    try:
        async with asyncio.timeout(limits.request_seconds):
            async for chunk in request.stream():
                received += len(chunk)
                if keep and received <= limits.request_bytes:
                    parts.append(chunk)
                if received > _DRAIN_FACTOR * limits.request_bytes:
                    break
    except (TimeoutError, ClientDisconnect):
        raise RequestError(
            f"request: expected all of it within {limits.request_seconds:g} seconds, received a "
            "part. Send it faster, or split it.",
            408,
        ) from None
    if received > limits.request_bytes:
        raise RequestError(
            f"request: expected at most {limits.request_bytes} bytes, received more. Split it.",
            413,
        )
    return b"".join(parts)


class Metrics:
    """Counts and distributions of one server.

    Args:
        servables: `Servables`, for the loaded version.
    """

    def __init__(self, servables: Servables) -> None:
        self.registry = prometheus.CollectorRegistry()
        own = {"registry": self.registry}
        self.requests = prometheus.Counter(
            "s2d_requests", "Requests by HTTP status.", ["status"], **own
        )
        self.seconds = prometheus.Histogram(
            "s2d_request_seconds", "Time to receive and answer a predict request.", **own
        )
        self._images = prometheus.Histogram(
            "s2d_request_images",
            "Images in an answered request.",
            buckets=[2**i for i in range(11)],
            **own,
        )
        self._confidence = prometheus.Histogram(
            "s2d_confidence",
            "Largest probability of an answer.",
            ["version"],
            buckets=CONFIDENCES,
            **own,
        )
        self._uncertainty = prometheus.Histogram(
            "s2d_uncertainty_nats",
            "Uncertainty of an answer: total, data or knowledge.",
            ["version", "kind"],
            buckets=NATS,
            **own,
        )
        self._abstentions = prometheus.Counter(
            "s2d_abstentions", "Answers from which the model abstained.", ["version"], **own
        )
        prometheus.Gauge("s2d_model_version", "The loaded version.", **own).set_function(
            lambda: servables.current.version
        )
        prometheus.Gauge(
            "s2d_failed_versions", "Version folders that could not be loaded.", **own
        ).set_function(lambda: len(servables.failed))

    def add_answers(self, version: int, outputs: dict) -> None:
        """Adds answers, a dict of arrays, to the distributions."""
        self._images.observe(len(next(iter(outputs.values()))))
        histograms = {
            f"{kind}_uncertainty": self._uncertainty.labels(version, kind)
            for kind in ("total", "data", "knowledge")
        } | {"confidence": self._confidence.labels(version)}
        for name in histograms.keys() & outputs.keys():
            for value in outputs[name].tolist():
                histograms[name].observe(value)
        if "abstain" in outputs:
            self._abstentions.labels(version).inc(int(outputs["abstain"].sum()))
