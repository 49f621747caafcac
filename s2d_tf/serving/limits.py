"""How much a request may ask for."""

import dataclasses

from s2d_tf.serving.errors import RequestError, bad_request
from s2d_tf.serving.image_headers import image_size


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on what comes in.

    Attributes:
        request_bytes: size of a request's body.
        batch_size: images in a request.
        image_pixels: height times width of an encoded image, as its header claims them.
        request_pixels: the same of all encoded images in a request.
        request_seconds: how long a client may take to send its request.
        concurrency: requests that are held at once; more are told to come again.
    """

    request_bytes: int = 16 << 20
    batch_size: int = 256
    image_pixels: int = 1 << 24
    request_pixels: int = 1 << 26
    request_seconds: float = 30.0
    concurrency: int = 64

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
        if total > max(self.request_pixels, self.image_pixels):
            raise bad_request(
                f"{name}: expected at most {self.request_pixels} pixels in a request, received "
                f"{total}: send fewer or smaller images."
            )
