"""The corruptions of CIFAR-10-C and CIFAR-100-C, computed with NumPy, SciPy and Pillow.

Every corruption takes uint8 images [n, 32, 32, 3], a severity and one random generator per image,
and returns gray levels, which `corrupt` clips and truncates to uint8. The constants are those of
`make_cifar_c.py`, one per severity 1 to 5. Frost is not here: it overlays photographs.
"""

import collections
import hashlib
import io
import operator
from collections.abc import Callable

import numpy as np
from matplotlib import colors
from PIL import Image

from s2d_tf._types import ArrayLike
from s2d_tf.errors import UserError

from . import EXTRA_CORRUPTIONS, MAIN_CORRUPTIONS, NOT_GENERATED, SEVERITIES, filters
from .filters import Streams

GAUSSIAN_STDDEV = (0.04, 0.06, 0.08, 0.09, 0.10)
PHOTONS = (500, 250, 100, 75, 50)  # shot noise: photons that make a white pixel
IMPULSE_SHARE = (0.01, 0.02, 0.03, 0.05, 0.07)
DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))  # radius, blur of the disk
# sigma of the Gaussian, iterations; a pixel moves by at most 1 at every severity
GLASS = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
MOTION = ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))  # radius, sigma
MOTION_DEGREES = 45
LARGEST_ZOOM = (1.06, 1.11, 1.16, 1.21, 1.26)  # excluded
ZOOM_STEP = 0.01
# mean and standard deviation of the flakes, zoom, threshold, radius and sigma of the motion blur,
# share of the image's own color
SNOW = (
    (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
)
SNOW_DEGREES = (-135, -45)
FOG = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))  # thickness, decay of the roughness
BRIGHTNESS = (0.05, 0.1, 0.15, 0.2, 0.3)
CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
# In units of the image's side: strength and smoothness of the displacement, shift of the corners.
ELASTIC = (
    (0, 0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
)
PIXELATE = (0.95, 0.9, 0.85, 0.75, 0.65)
JPEG_QUALITY = (80, 65, 58, 50, 40)
SPECKLE_STDDEV = (0.06, 0.1, 0.12, 0.16, 0.2)
BLUR_SIGMA = (0.4, 0.6, 0.7, 0.8, 1)
# mean and standard deviation of the liquid, its smoothness, threshold, strength (water) or
# smoothness (mud) of the drops, whether it is mud
SPATTER = (
    (0.62, 0.1, 0.7, 0.7, 0.5, False),
    (0.65, 0.1, 0.8, 0.7, 0.5, False),
    (0.65, 0.3, 1, 0.69, 0.5, False),
    (0.65, 0.1, 0.7, 0.69, 0.6, True),
    (0.65, 0.1, 0.5, 0.68, 0.6, True),
)
WATER = (175, 238, 238)
MUD = (63, 42, 20)
MUD_OPACITY = 0.8  # thinner mud is not drawn
SATURATE = ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))  # factor, then added


def corrupt(
    images: np.ndarray, corruption: str, severity: int, *, seed: int = 0, first_index: int = 0
) -> np.ndarray:
    """Corrupts images of 32x32 pixels as CIFAR-10-C and CIFAR-100-C were made.

    The formulas and constants are the published ones; the random numbers are our own, so the
    images are not those of the published archives. Each image has its own random numbers, drawn
    from (seed, corruption, severity, index): the batch it comes in changes nothing.

    Args:
        images: uint8 [n, 32, 32, 3].
        corruption: one of the published names, such as "fog"; all but "frost".
        severity: 1 (weak) to 5 (strong).
        seed: any integer.
        first_index: index of the first image in its dataset.

    Returns:
        uint8 [n, 32, 32, 3].

    Raises:
        ValueError: the images have another shape or dtype, or the corruption is not known.

    Example:

    >>> images = np.zeros([4, 32, 32, 3], np.uint8)
    >>> corrupt(images, "gaussian_noise", severity=3).shape
    (4, 32, 32, 3)
    """
    images = np.asarray(images)
    UserError.unless(
        images.dtype == np.uint8 and images.shape[1:] == (32, 32, 3),
        f"images: expected uint8 [n, 32, 32, 3], received {images.dtype} {list(images.shape)}. "
        "Resize them, or pass gray levels from 0 to 255.",
    )
    UserError.unless(
        corruption in CORRUPTIONS and severity in SEVERITIES,
        f"corruption: expected one of {', '.join(CORRUPTIONS)} and a severity from 1 to 5, "
        f"received {corruption!r} and {severity!r}.",
    )
    prefix = f"{operator.index(seed)}/{corruption}/{int(severity)}/"
    first = operator.index(first_index)
    rngs = [_generator(f"{prefix}{index}") for index in range(first, first + len(images))]
    levels = CORRUPTIONS[corruption](images, int(severity), rngs)
    return np.clip(levels, 0, 255).astype(np.uint8)


def _generator(key):
    """A counter-based generator whose key is a hash: related seeds give unrelated numbers."""
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def stacked(draw: Callable[[np.random.Generator], ArrayLike], rngs: Streams) -> np.ndarray:
    """`draw` of every image's generator, stacked along a new first axis."""
    return np.stack([draw(rng) for rng in rngs])


def gaussian_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds normal noise of one size to every value."""
    return (images / 255 + GAUSSIAN_STDDEV[severity - 1] * normals(images, rngs)) * 255


def shot_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Counts photons: a Poisson number whose mean is proportional to the value."""
    photons = PHOTONS[severity - 1]
    means = images / 255 * photons
    counts = [rng.poisson(mean) for rng, mean in zip(rngs, means, strict=True)]
    return np.stack(counts) / photons * 255


def impulse_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Sets a share of the values to 0 or 255; each color channel by itself, as scikit-image."""
    draws = stacked(lambda rng: rng.random((2, *images.shape[1:])), rngs)
    extreme = np.where(draws[:, 1] <= 0.5, np.uint8(255), np.uint8(0))
    return np.where(draws[:, 0] <= IMPULSE_SHARE[severity - 1], extreme, images)


def normals(images: np.ndarray, rngs: Streams) -> np.ndarray:
    """Standard normal numbers in the shape of the images."""
    return stacked(lambda rng: rng.standard_normal(images.shape[1:]), rngs)


def defocus_blur(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Correlates with a disk whose edge was softened by a Gaussian of 3x3 pixels."""
    return filters.correlate(images / 255, filters.disk(*DEFOCUS[severity - 1])) * 255


def glass_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Blurs, moves pixels by chance to a neighbor above or to the left, and blurs again.

    The published loop means to swap a pixel with that neighbor. Since NumPy rows are views, it
    copies the neighbor and leaves it as it is. It runs from the lower right, so the neighbor has
    its old value, and a whole pass is one gather. The first two rows and columns stay.
    """
    sigma, iterations = GLASS[severity - 1]
    pixels = (filters.gaussian(images / 255, sigma) * 255).astype(np.uint8)
    count, size = pixels.shape[:2]
    moves = stacked(lambda rng: rng.integers(-1, 1, (iterations, 2, size - 2, size - 2)), rngs)
    image = np.arange(count).reshape(-1, 1, 1)
    row, column = np.ogrid[2:size, 2:size]
    for step in range(iterations):
        moved = pixels[image, row + moves[:, step, 0], column + moves[:, step, 1]]
        pixels[:, 2:, 2:] = moved
    return filters.gaussian(pixels / 255, sigma) * 255


def motion_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """ImageMagick's motion blur along an angle within 45 degrees of the horizontal."""
    radius, sigma = MOTION[severity - 1]
    degrees = stacked(lambda rng: rng.uniform(-MOTION_DEGREES, MOTION_DEGREES), rngs)
    return filters.motion_blur(images, radius, sigma, degrees)


def zoom_blur(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """The mean of the image and of its enlargements by 1.00, 1.01, ... up to the largest zoom."""
    factors = np.arange(1, LARGEST_ZOOM[severity - 1], ZOOM_STEP)
    # Sizes are whole numbers of pixels: several factors give the same enlargement.
    geometries = collections.Counter(
        filters.zoom_geometry(images.shape[1], factor) for factor in factors
    )
    values = images / 255
    total = values.copy()
    for geometry, times in geometries.items():
        total += times * filters.linear_zoom(values, *geometry)
    return total / (len(factors) + 1) * 255


def snow(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Pales the image and adds flakes that fall, and the same flakes turned by 180 degrees."""
    mean, stddev, zoom, threshold, radius, sigma, own = SNOW[severity - 1]
    shape = images.shape[1:3]
    flakes = stacked(lambda rng: rng.normal(mean, stddev, shape), rngs)
    degrees = stacked(lambda rng: rng.uniform(*SNOW_DEGREES), rngs)
    flakes = filters.linear_zoom(flakes, *filters.zoom_geometry(shape[0], zoom))
    flakes = np.where(flakes < threshold, 0, flakes)
    flakes = (np.clip(flakes, 0, 1) * 255).astype(np.uint8)
    flakes = filters.motion_blur(flakes, radius, sigma, degrees)[..., np.newaxis] / 255
    values = images / 255
    pale = np.maximum(values, filters.luma(values)[..., np.newaxis] * 1.5 + 0.5)
    return (own * values + (1 - own) * pale + flakes + flakes[:, ::-1, ::-1]) * 255


def fog(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds a fractal cloud and rescales to the image's largest value."""
    thickness, decay = FOG[severity - 1]
    values = images / 255
    largest = values.max(axis=(1, 2, 3), keepdims=True)
    cloud = filters.clouds(images.shape[1], decay, rngs)[..., np.newaxis]
    return (values + thickness * cloud) * largest / (largest + thickness) * 255


def brightness(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Adds to the value of hue, saturation, value."""
    hsv = colors.rgb_to_hsv(images / 255)
    hsv[..., 2] = np.clip(hsv[..., 2] + BRIGHTNESS[severity - 1], 0, 1)
    return colors.hsv_to_rgb(hsv) * 255


def contrast(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Moves every value toward the mean of its image and channel."""
    values = images / 255
    # Whole numbers are summed exactly, whatever the order.
    means = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64) / (images[0, ..., 0].size * 255)
    return ((values - means) * CONTRAST[severity - 1] + means) * 255


def elastic_transform(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """A random affine map, then a smooth random displacement of every pixel."""
    size = images.shape[1]
    strength, smoothness, shift = (size * constant for constant in ELASTIC[severity - 1])
    corners = stacked(lambda rng: rng.uniform(-shift, shift, (3, 2)), rngs)
    displacements = stacked(lambda rng: rng.uniform(-1, 1, (2, size, size)), rngs)
    places = filters.affine_places(corners, size)
    values = filters.bilinear(images / 255, places[0], places[1], filters.fold_mirror)
    columns, rows = (
        place + strength * filters.gaussian(displacement, smoothness, "reflect", truncate=3)
        for place, displacement in zip(
            np.meshgrid(np.arange(size), np.arange(size)),
            np.moveaxis(displacements, 1, 0),
            strict=True,
        )
    )
    return filters.bilinear(values, rows, columns, filters.fold_reflect) * 255


def pixelate(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Reduces the image with a box filter and enlarges it again."""
    size = images.shape[1]
    small = int(size * PIXELATE[severity - 1])
    box = Image.Resampling.BOX
    return np.stack([
        np.asarray(Image.fromarray(i).resize((small, small), box).resize((size, size), box))
        for i in images
    ])  # fmt: skip


def jpeg_compression(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Writes the image as JPEG and reads it again."""
    return np.stack([_jpeg(image, JPEG_QUALITY[severity - 1]) for image in images])


def _jpeg(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file, formats=["JPEG"]))


def speckle_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds normal noise in proportion to the value."""
    values = images / 255
    return (values + values * SPECKLE_STDDEV[severity - 1] * normals(images, rngs)) * 255


def gaussian_blur(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Blurs with a Gaussian."""
    return filters.gaussian(images / 255, BLUR_SIGMA[severity - 1]) * 255


def spatter(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Drops of water (severity 1 to 3) or mud (4 and 5) on the lens."""
    mean, stddev, smoothness, threshold, drops, is_mud = SPATTER[severity - 1]
    liquid = stacked(lambda rng: rng.normal(mean, stddev, images.shape[1:3]), rngs)
    liquid = filters.gaussian(liquid, smoothness)
    liquid = np.where(liquid < threshold, 0, liquid)
    if is_mud:
        opacity = filters.gaussian((liquid > threshold).astype(float), drops)
        opacity = np.where(opacity < MUD_OPACITY, 0, opacity)[..., np.newaxis]
        return images * (1 - opacity) + opacity * np.array(MUD)
    thickness = filters.relief((liquid * 255).astype(np.uint8))
    largest = thickness.max(axis=(1, 2), keepdims=True)
    thickness = drops * thickness / np.where(largest == 0, 1, largest)
    return images + thickness[..., np.newaxis] * np.array(WATER)


def saturate(images: np.ndarray, severity: int, _: Streams) -> np.ndarray:
    """Scales and shifts the saturation of hue, saturation, value; severities 1 and 2 reduce it."""
    factor, added = SATURATE[severity - 1]
    hsv = colors.rgb_to_hsv(images / 255)
    hsv[..., 1] = np.clip(hsv[..., 1] * factor + added, 0, 1)
    return colors.hsv_to_rgb(hsv) * 255


CORRUPTIONS = {
    name: globals()[name]
    for name in MAIN_CORRUPTIONS + EXTRA_CORRUPTIONS
    if name not in NOT_GENERATED
}
