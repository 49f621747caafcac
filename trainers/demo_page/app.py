"""The HTTP side of the demo: one page, its samples, and predictions for what is dropped on it."""

import asyncio
import base64
import json
import os
import pathlib
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from s2d_tf.data import image_files

from .demo import Content, Demo

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import FileResponse, JSONResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise ImportError(
        f"s2d demo: expected Starlette and uvicorn, received {error}. Run `pip install "
        "'s2d_tf[serve]'`."
    ) from None

MAX_BYTES = 16 << 20
MAX_TEXT = 10_000
_FILES = {"": "demo.html", "demo.css": "demo.css", "demo.js": "demo.js"}
_LOCAL = ("127.0.0.1", "localhost", "::1", "[::1]")
# Nothing is fetched from elsewhere, whatever a model's class names or a file say.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def create_app(demo: Demo, hosts: Sequence[str] = _LOCAL) -> Starlette:
    """Creates the Starlette application of the demo page.

    Args:
        demo: what it shows; its distributions are computed here.
        hosts: names under which it answers; others are rejected, so that no web page can make a
            browser believe that this server is its own.
    """
    content = Content(demo)
    described = content.describe()
    slot = asyncio.Semaphore(1)  # a person waits for one prediction at a time

    async def file(request):
        name = _FILES[request.url.path.strip("/")]
        return FileResponse(pathlib.Path(__file__).with_name(name), headers=_HEADERS)

    async def state(request):
        return JSONResponse(described, headers=_HEADERS)

    async def sample(request):
        number = request.path_params["number"]
        if demo.kind != "image" or number >= len(content.samples):
            raise HTTPException(
                404, "sample: expected the number of an image on the page, received no such number."
            )
        return Response(_png(content.samples[number].input), 200, _HEADERS, "image/png")

    async def predict(request):
        size = request.headers.get("content-length", "")
        if not size.isdecimal() or int(size) > MAX_BYTES:
            raise HTTPException(413, f"request: expected at most {MAX_BYTES} bytes, received more.")
        body, kind = await request.body(), request.headers.get("content-type", "")
        async with slot:
            try:
                inputs = await run_in_threadpool(_read_input, content, body, kind)
            except ValueError as error:
                raise HTTPException(400, str(error)) from None
            if request.query_params.get("invert") == "1":
                inputs = 255.0 - inputs
            found = await run_in_threadpool(content.predict, inputs)
        image = _png(inputs[0]) if demo.kind == "image" else None
        seen = image and f"data:image/png;base64,{base64.b64encode(image).decode()}"
        return JSONResponse({"models": found, "seen": seen}, headers=_HEADERS)

    async def reject(request, error):
        return JSONResponse({"error": error.detail}, error.status_code, _HEADERS)

    return Starlette(
        routes=[
            *(Route(f"/{name}", file) for name in _FILES),
            Route("/state", state),
            Route("/samples/{number:int}.png", sample),
            Route("/predict", predict, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={HTTPException: reject},
    )


def run_demo(
    demo: Demo,
    host: str = "127.0.0.1",
    port: int = 8600,
    open_browser: bool = True,
) -> None:
    """Shows the demo page until interrupted.

    Args:
        demo: what it shows, from `open_demo`, or made of models and arrays.
        host, port: where to listen; port 0 takes a free one. On an address that is not local, the
            page answers to every name.
        open_browser: whether to open it in the browser, where there is a desktop.

    Raises:
        OSError: the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        app = create_app(demo, _LOCAL if host in _LOCAL else ("*",))
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
        print(f"The demo is at {address} (stop with Ctrl-C)")
        # In a terminal without a desktop, `webbrowser` would start a text browser there.
        desktop = {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ) or sys.platform == "darwin"
        if open_browser and desktop:
            threading.Timer(1.0, webbrowser.open, [address]).start()
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


def _read_input(page, body, content_type):
    """The one input in a request: a sample's number, a text, pixels, or an image file."""
    kind, size = page.demo.kind, len(page.samples)
    shape = page.demo.contract.image.shape if kind == "image" else ()
    try:
        if content_type.startswith("image/") and kind == "image":
            image_files.check(body, image_files.MAX_PIXELS)
            return image_files.decode_batch(tf.constant([body]), shape).numpy()
        ((key, value),) = json.loads(body).items()
        if key == "sample" and type(value) is int and 0 <= value < size:
            return np.array([page.samples[value].input])
        # Parts of characters have no UTF-8 and raise a ValueError.
        if key == "text" and kind == "text" and 1 <= len(value.encode()) <= MAX_TEXT:
            return np.array([value], object)
        if key == "pixels" and kind == "image":
            return np.array(value, np.uint8).reshape([1, *shape])
    except image_files.ImageFileError:
        raise
    except (
        ValueError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
        tf.errors.OpError,
    ):
        pass
    pixels = f"a JPEG or PNG file or {np.prod(shape)} pixels from 0 to 255"
    raise ValueError(
        f"input: expected {pixels if kind == 'image' else f'a text of up to {MAX_TEXT} bytes'} or "
        f"one of {size} samples, received {body[:40]!r}. Enter one of these."
    )


def _png(pixels):
    return tf.io.encode_png(np.rint(pixels).astype(np.uint8)).numpy()
