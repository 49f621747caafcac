"""Limits of a request, and what a client is told when it is rejected."""

import dataclasses

MAX_IMAGE_PIXELS = 1 << 24
"""What exported models decode at most, whatever a server allows."""
LOG_LEVELS = ("debug", "info", "warning", "error")


class RequestError(Exception):
    """A rejected request: one line that says what was expected, and an HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on what comes in.

    Attributes:
        request_bytes: size of a request's body.
        batch_size: examples in a request.
        image_pixels: height times width of an encoded image, as its header claims them; exported
            models themselves reject more than `MAX_IMAGE_PIXELS`.
        request_pixels: the same of all encoded images in a request; one image of `image_pixels` is
            always allowed.
        header_seconds: how long a client may take to send the head of a request.
        request_seconds: how long a client may take to send its request, or to take an answer.
        concurrency: requests that are received or answered at once; more are told to come again.
        connections: open connections, busy or idle; more are closed at once. Where the system
            lets the process have fewer files, fewer.

    Example:

    >>> serving.Limits(batch_size=64, request_bytes=1 << 20).concurrency
    64
    """

    request_bytes: int = 16 << 20
    batch_size: int = 256
    image_pixels: int = MAX_IMAGE_PIXELS
    request_pixels: int = 1 << 26
    header_seconds: float = 10.0
    request_seconds: float = 30.0
    concurrency: int = 64
    connections: int = 512
