"""The HTTP side: TF Serving's REST routes on FastAPI."""

import asyncio
import contextlib
import logging
import os

import fastapi
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from s2d_tf.serving.errors import RequestError
from s2d_tf.serving.limits import Limits

_LOG = logging.getLogger("s2d_tf.serving")

# A refused body is read on for a while, so that a client that only listens after it has sent all
# gets to know why.
_DRAIN_FACTOR = 4


def create_app(name, servables, limits=None):
    """The application that answers for one model.

    Args:
        name: the model's name in the addresses.
        servables: `Servables` of the model.
        limits: `Limits`; the default ones if `None`.
    """
    limits = limits or Limits()
    app = fastapi.FastAPI(title="s2d serve", docs_url=None, redoc_url=None, openapi_url=None)
    # More at a time would only wait for the same cores, each with its arrays in memory.
    slots = asyncio.Semaphore(2 * (os.cpu_count() or 1))
    app.add_middleware(_Gate, limits=limits)

    def find(model, version=None):
        if model != name:
            raise RequestError(404, f"Expected the model {name!r}, received {model!r}.")
        return servables.get(version)

    async def predict(request, model, version=None):
        servable = find(model, version)
        body = await _read(request, limits)
        async with slots:
            answer = await run_in_threadpool(servable.predict, body, limits)
        return Response(answer, media_type="application/json")

    def status(model, version=None):
        return {
            "model_version_status": [
                {
                    "version": str(find(model, version).version),
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                }
            ]
        }

    def metadata(model, version=None):
        servable = find(model, version)
        return {
            "model_spec": {
                "name": name,
                "signature_name": "",
                "version": str(servable.version),
            },
            "metadata": {"signature_def": {"signature_def": servable.metadata()}},
        }

    @app.post("/v1/models/{model}/versions/{version}:predict")
    async def predict_with(request: fastapi.Request, model: str, version: str):
        return await predict(request, model, version)

    @app.post("/v1/models/{model}:predict")
    async def predict_with_newest(request: fastapi.Request, model: str):
        return await predict(request, model)

    for path, answer in (("", status), ("/metadata", metadata)):
        app.add_api_route("/v1/models/{model}/versions/{version}" + path, answer)
        app.add_api_route("/v1/models/{model}" + path, answer)

    @app.exception_handler(RequestError)
    async def refuse(request, error):
        _LOG.info("refused %s: %s", request.url.path, error.message)
        return JSONResponse({"error": error.message}, error.status)

    @app.exception_handler(HTTPException)
    async def refuse_route(request, error):
        message = f"{error.detail}: expected /v1/models/{name}:predict (POST) or /v1/models/{name}."
        return JSONResponse({"error": message}, error.status_code)

    @app.exception_handler(Exception)
    async def fail(request, error):
        return JSONResponse({"error": "The server failed; its log says why."}, 500)

    return app


class _Gate:
    """Refuses a request while as many are received or answered as the limit allows.

    uvicorn's own limit answers in plain text and counts connections that ask for nothing.
    """

    def __init__(self, app, limits):
        self.app = app
        self.limits = limits
        self.held = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif self.held >= self.limits.concurrency:
            await _skip(fastapi.Request(scope, receive), self.limits)
            most = self.limits.concurrency
            message = f"Expected at most {most} requests at once, received more: try again later."
            refusal = JSONResponse({"error": message}, 503, {"Retry-After": "1"})
            await refusal(scope, receive, send)
        else:
            self.held += 1
            try:
                await self.app(scope, receive, send)
            finally:
                self.held -= 1


async def _read(request, limits):
    """The request's body, at most as large and as slow as the limits allow."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RequestError(415, "Expected a body without Content-Encoding, received one with it.")
    try:
        async with asyncio.timeout(limits.request_seconds):
            return await _collect(request, limits)
    except TimeoutError:
        raise RequestError(
            408, f"Expected the whole request within {limits.request_seconds:g} seconds."
        ) from None
    except ClientDisconnect:
        raise RequestError(400, "The client went away.") from None


async def _skip(request, limits):
    """Reads what a refused client goes on sending, and keeps nothing."""
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(limits.request_seconds):
            async for _ in _chunks(request, limits):
                pass


async def _collect(request, limits):
    parts, received = [], 0
    async for chunk in _chunks(request, limits):
        received += len(chunk)
        parts.append(chunk)
        if received > limits.request_bytes:
            parts.clear()
    limits.check_body(received)
    return b"".join(parts)


async def _chunks(request, limits):
    """The body's parts, on to a few times of what is allowed."""
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        yield chunk
        if received > _DRAIN_FACTOR * limits.request_bytes:
            break
