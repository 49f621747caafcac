"""The HTTP side of the demo: one page, its samples, and answers to what is typed or dropped."""

import asyncio
import base64
import functools
import importlib.util
import json
import os
import sys
import threading
import typing
import webbrowser
from collections.abc import Callable, Sequence
from importlib import resources

import numpy as np

from s2d_tf.serving.limits import Limits, RequestError

from .demo import Demo

if typing.TYPE_CHECKING:
    from starlette.applications import Starlette

MAX_TEXT = 10_000
_FILES = {"demo.css": "text/css", "demo.js": "text/javascript"}
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


def create_demo_app(
    demo: Demo, limits: Limits | None = None, hosts: Sequence[str] = _LOCAL
) -> "Starlette":
    """The Starlette application of the demo page.

    Args:
        demo: what it shows; its distributions are computed here.
        limits: `Limits` on what is dropped on the page.
        hosts: names under which it answers; others are rejected, so that no web page can make a
            browser believe that this server is its own.

    Example:

    >>> app = serving.create_demo_app(serving.open_demo(examples=50))
    >>> [route.path for route in app.routes][:2]
    ['/', '/demo.css']
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    from s2d_tf.serving.app import _read

    from .content import Content

    limits = limits or Limits()
    content = Content(demo)
    described = content.describe()
    folder = resources.files("s2d_tf.serving")
    slot = asyncio.Semaphore(1)  # a person waits for one answer at a time

    def reply(content, kind, status=200):
        return Response(content, status, _HEADERS, kind)

    async def page(request):
        return reply(folder.joinpath("demo.html").read_bytes(), "text/html")

    async def asset(request):
        name = request.url.path.removeprefix("/")
        return reply(folder.joinpath(name).read_bytes(), _FILES[name])

    async def state(request):
        return JSONResponse(described, headers=_HEADERS)

    async def sample(request):
        number = request.path_params["number"]
        if demo.kind != "image" or number >= len(content.samples):
            raise RequestError(
                "sample: expected the number of an image, received another. Use one of the page's.",
                404,
            )
        return reply(_png(content.samples[number].input), "image/png")

    async def predict(request):
        body = await _read(request, limits)
        read = functools.partial(
            _inputs,
            content,
            body,
            request.headers.get("content-type", ""),
            request.query_params.get("invert") == "1",
            limits,
        )
        async with slot:
            inputs = await run_in_threadpool(read)
            found = await run_in_threadpool(content.predict, inputs)
        seen = None
        if demo.kind == "image":
            seen = f"data:image/png;base64,{base64.b64encode(_png(inputs[0])).decode()}"
        return JSONResponse({"models": found, "seen": seen}, headers=_HEADERS)

    async def reject(request, error):
        return JSONResponse({"error": str(error)}, error.status, _HEADERS)

    async def reject_route(request, error):
        return JSONResponse({"error": error.detail}, error.status_code, _HEADERS)

    return Starlette(
        routes=[
            Route("/", page),
            *(Route(f"/{name}", asset) for name in _FILES),
            Route("/state", state),
            Route("/samples/{number:int}.png", sample),
            Route("/predict", predict, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))],
        exception_handlers={RequestError: reject, HTTPException: reject_route},
    )


def run_demo(
    demo: Demo,
    host: str = "127.0.0.1",
    port: int = 8600,
    open_browser: bool = True,
    announce: Callable[[str], object] = print,
) -> None:
    """Shows the demo page until interrupted.

    Args:
        demo: what it shows, from `open_demo`, or made of models and arrays.
        host, port: where to listen; port 0 takes a free one. On another address than a local one
            the page answers to every name.
        open_browser: whether to open it in the browser, where there is a desktop.
        announce: function that gets one line of text once the page can be opened.

    Raises:
        ImportError: Starlette or uvicorn is not installed (the extra `s2d_tf[serve]`).
        OSError: the port is in use.

    Example:

    >>> demo = serving.Demo({"mine": model}, (images, labels))  # doctest: +SKIP
    >>> serving.run_demo(demo)  # doctest: +SKIP
    The demo is at http://127.0.0.1:8600/ (stop with Ctrl-C)
    """
    missing = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"s2d demo: expected FastAPI and uvicorn, received no {' and no '.join(missing)}. Run "
            "`pip install 's2d_tf[serve]'`."
        )
    from s2d_tf.serving import logs
    from s2d_tf.serving.connections import make_server
    from s2d_tf.serving.server import _listen

    with _listen(host, port) as listener:
        logs.configure("warning")
        limits, is_local = Limits(), host in _LOCAL
        app = create_demo_app(demo, limits, _LOCAL if is_local else ("*",))
        server = make_server(app, limits)
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        announce(f"The demo is at {address} (stop with Ctrl-C)")
        if open_browser and _has_desktop():
            threading.Timer(1.0, webbrowser.open, [address]).start()
        server.run(sockets=[listener])


def _inputs(page, body, kind, invert, limits):
    """The one input in a request: a sample's number, a text, pixels, or an image file."""
    demo = page.demo
    if kind.startswith("image/") and demo.kind == "image":
        pixels = _decoded(body, demo.contract.image.shape, limits)
        return 255.0 - pixels if invert else pixels
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or len(content) != 1:
        raise RequestError(
            "request: expected a JSON object with one input, received something else. Send a "
            "sample, a text or pixels."
        )
    ((key, value),) = content.items()
    if key == "sample":
        if type(value) is not int or not 0 <= value < len(page.samples):
            raise RequestError(
                f"sample: expected a number below {len(page.samples)}, received {value!r:.40}. Use "
                "one of the page's."
            )
        return np.array([page.samples[value].input])
    if key == "text" and demo.kind == "text":
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT:
            raise RequestError(
                f"text: expected 1 to {MAX_TEXT:,} characters, received others. Send a string of "
                "this length."
            )
        try:
            value.encode()
        except UnicodeError:
            raise RequestError(
                "text: expected whole characters, received parts. Send valid Unicode."
            ) from None
        return np.array([value], object)
    if key == "pixels" and demo.kind == "image":
        return _pixels(value, demo.contract.image.shape)
    raise RequestError(
        f"request: expected an input for a model of {demo.kind}s, received {key!r:.40}. Send a "
        "sample, or an input of this kind."
    )


def _pixels(value, shape):
    size = int(np.prod(shape))
    whole = isinstance(value, list) and all(type(each) is int for each in value)
    if not whole or len(value) != size or not all(0 <= each <= 255 for each in value):
        raise RequestError(
            f"pixels: expected {size} whole numbers from 0 to 255, received others. Send those of "
            "one image."
        )
    return np.array(value, np.uint8).reshape([1, *shape])


def _decoded(content, shape, limits):
    import tensorflow as tf

    from s2d_tf.export import encoded_images
    from s2d_tf.serving import protocol

    protocol.check_files([content], "image", limits)
    try:
        return encoded_images.decode_batch(tf.constant([content]), shape).numpy()
    except tf.errors.InvalidArgumentError:
        raise RequestError(
            "image: expected a JPEG or PNG file that can be decoded, received a damaged one. Save "
            "it again."
        ) from None


def _png(pixels):
    import tensorflow as tf

    return tf.io.encode_png(np.rint(pixels).astype(np.uint8)).numpy()


def _has_desktop():
    """Whether a browser has a window; in a terminal, `webbrowser` would take that over."""
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(shown) or sys.platform == "darwin"
