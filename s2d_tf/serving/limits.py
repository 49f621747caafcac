"""How much a request may ask for."""

import dataclasses

from s2d_tf.serving.errors import RequestError, bad_request
from s2d_tf.serving.image_headers import image_size

MAX_IMAGE_PIXELS = 1 << 24
"""What exported models decode at most, whatever a server allows."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on what comes in.

    Attributes:
        request_bytes: size of a request's body.
        batch_size: images in a request.
        image_pixels: height times width of an encoded image, as its header claims them; at most
            `MAX_IMAGE_PIXELS`.
        request_pixels: the same of all encoded images in a request; one image of `image_pixels` is
            always allowed.
        request_seconds: how long a client may take to send its request.
        concurrency: requests that are received or answered at once; more are told to come again.
    """

    request_bytes: int = 16 << 20
    batch_size: int = 256
    image_pixels: int = MAX_IMAGE_PIXELS
    request_pixels: int = 1 << 26
    request_seconds: float = 30.0
    concurrency: int = 64

    def __post_init__(self):
        if not 1 <= self.image_pixels <= MAX_IMAGE_PIXELS:
            raise ValueError(
                f"image_pixels must be 1 to {MAX_IMAGE_PIXELS}, since exported models refuse "
                f"larger images themselves, received {self.image_pixels}."
            )

    def check_body(self, num_bytes):
        if num_bytes > self.request_bytes:
            raise RequestError(
                413, f"Expected a request of at most {self.request_bytes} bytes, received more."
            )

    def check_batch(self, num_images):
        if not 1 <= num_images <= self.batch_size:
            raise bad_request(
                f"Expected 1 to {self.batch_size} images in a request, received {num_images}."
            )

    def check_files(self, contents, name):
        """Refuses what is not an image, and images that claim too many pixels."""
        total = 0
        for i, content in enumerate(contents):
            try:
                height, width = image_size(content)
            except ValueError as error:
                raise bad_request(
                    f"{name}[{i}]: expected a JPEG or PNG file, received {error}."
                ) from None
            if not 1 <= height * width <= self.image_pixels:
                raise bad_request(
                    f"{name}[{i}]: expected an image of 1 to {self.image_pixels} pixels, received "
                    f"{height} x {width}."
                )
            total += height * width
        most = max(self.request_pixels, self.image_pixels)
        if total > most:
            raise bad_request(
                f"{name}: expected at most {most} pixels in a request, received "
                f"{total}: send fewer or smaller images."
            )
