"""The HTTP side: TF Serving's REST routes on FastAPI."""

import asyncio
import contextlib
import os

import fastapi
from fastapi.responses import JSONResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from s2d_tf.serving.limits import Limits, RequestError

# A rejected body is read on for a while, so that a client that only listens after it has sent all
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
    admitted = asyncio.Semaphore(limits.concurrency)
    # More at a time would only wait for the same cores, each with its arrays in memory.
    slots = asyncio.Semaphore(2 * (os.cpu_count() or 1))

    async def admit(request: fastapi.Request):
        # uvicorn's own limit answers in plain text and counts connections that ask for nothing.
        if admitted.locked():
            with contextlib.suppress(RequestError):
                await _read(request, limits, keep=False)
            raise RequestError(
                f"Expected at most {limits.concurrency} requests at once, received more: try "
                "again later.",
                503,
            )
        async with admitted:
            yield

    def find(request):
        model, version = request.path_params["model"], request.path_params.get("version")
        if model != name:
            raise RequestError(f"Expected the model {name!r}, received {model!r}.", 404)
        return servables.get(version)

    async def predict(request: fastapi.Request):
        servable = find(request)
        body = await _read(request, limits)
        async with slots:
            answer = await run_in_threadpool(servable.predict, body, limits)
        return Response(answer, media_type="application/json")

    async def status(request: fastapi.Request):
        return {
            "model_version_status": [
                {
                    "version": str(find(request).version),
                    "state": "AVAILABLE",
                    "status": {"error_code": "OK", "error_message": ""},
                }
            ]
        }

    async def metadata(request: fastapi.Request):
        servable = find(request)
        return {
            "model_spec": {"name": name, "signature_name": "", "version": str(servable.version)},
            "metadata": {"signature_def": {"signature_def": servable.metadata}},
        }

    async def reject(request, error):
        headers = {"Retry-After": "1"} if error.status == 503 else None
        return JSONResponse({"error": str(error)}, error.status, headers)

    async def reject_route(request, error):
        message = f"{error.detail}: expected /v1/models/{name}:predict (POST) or /v1/models/{name}."
        return JSONResponse({"error": message}, error.status_code)

    async def fail(request, error):
        return JSONResponse({"error": "The server failed; its log says why."}, 500)

    app = fastapi.FastAPI(
        title="s2d serve",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[fastapi.Depends(admit)],
        exception_handlers={RequestError: reject, HTTPException: reject_route, Exception: fail},
    )
    for path in ("/v1/models/{model}", "/v1/models/{model}/versions/{version}"):
        app.add_api_route(path + ":predict", predict, methods=["POST"])
        app.add_api_route(path + "/metadata", metadata)
        app.add_api_route(path, status)
    return app


async def _read(request, limits, keep=True):
    """The request's body, at most as large and as slow as the limits allow."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RequestError("Expected a body without Content-Encoding, received one with it.", 415)
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
            f"Expected the whole request within {limits.request_seconds:g} seconds.", 408
        ) from None
    if received > limits.request_bytes:
        raise RequestError(
            f"Expected a request of at most {limits.request_bytes} bytes, received more.", 413
        )
    return b"".join(parts)
