"""The HTTP side: TF Serving's REST routes on FastAPI."""

import asyncio
import contextlib
import logging
import os
import time
from typing import Any

import fastapi
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from s2d_tf.serving import protocol
from s2d_tf.serving.limits import Limits, RequestError
from s2d_tf.serving.monitoring import CONTENT_TYPE, Metrics
from s2d_tf.serving.servable import Servables

_LOG = logging.getLogger("s2d_tf.serving")

# A rejected body is read on for a while, so that a client that only listens after it has sent all
# gets to know why.
_DRAIN_FACTOR = 4

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
    # More at a time would only wait for the same cores, each with its arrays in memory.
    slots = asyncio.Semaphore(2 * (os.cpu_count() or 1))

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

    def find(request):
        model, version = request.path_params["model"], request.path_params.get("version")
        if model != name:
            raise RequestError(
                f"model: expected {name!r}, received {model!r}. Correct the address.", 404
            )
        return servables.get(version)

    def answer(servable, body):
        outputs, form = servable.predict(body, limits)
        metrics.add_answers(servable.version, outputs)
        return protocol.response(outputs, form)

    async def reject(request, error):
        headers = {"Retry-After": "1"} if error.status == 503 else None
        return JSONResponse({"error": str(error)}, error.status, headers)

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
        exception_handlers={RequestError: reject, HTTPException: reject_route, Exception: fail},
    )
    limited: Any = {"dependencies": [fastapi.Depends(admit)]}

    @app.middleware("http")
    async def count(request, call_next):
        began, status, path = time.monotonic(), 500, request.url.path[:200]
        try:
            response = await call_next(request)
            status = response.status_code
            return response
        finally:
            seconds = time.monotonic() - began
            metrics.add_request(status, seconds, path.endswith(":predict"))
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
    async def predict(request: fastapi.Request):  # type: ignore[no-untyped-def]
        servable = find(request)
        body = await read_body(request, limits)
        async with slots:
            content = await run_in_threadpool(answer, servable, body)
        return Response(content, media_type="application/json")

    @app.get(_MODEL + "/metadata", **limited)
    @app.get(_VERSION + "/metadata", **limited)
    async def metadata(request: fastapi.Request):  # type: ignore[no-untyped-def]
        servable = find(request)
        return {
            "model_spec": {"name": name, "signature_name": "", "version": str(servable.version)},
            "metadata": {"signature_def": {"signature_def": servable.metadata}},
        }

    @app.get(_MODEL, **limited)
    @app.get(_VERSION, **limited)
    async def status(request: fastapi.Request):  # type: ignore[no-untyped-def]
        version = {
            "version": str(find(request).version),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return {"model_version_status": [version]}

    @app.get("/healthz")
    async def health():
        """Whether the process is worth keeping: it answers, and looks for versions."""
        return Response(status_code=503 if servables.stopped_watching else 200)

    @app.get("/readyz")
    async def readiness():
        """Whether to send requests here now."""
        return Response(status_code=503 if admitted.locked() else 200)

    @app.get("/metrics")
    @app.get("/monitoring/prometheus/metrics")  # TF Serving's
    async def prometheus_metrics():
        return Response(metrics.text(), media_type=CONTENT_TYPE)

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
