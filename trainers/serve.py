"""Serves an exported model over HTTP, with TF Serving's REST protocol.

usage: s2d serve DIR [--host=ADDRESS] [--port=PORT] [--name=NAME]

    s2d export wrn_10_2_s2.s2d.cifar100 models/cifar100
    s2d serve models/cifar100

Serves /v1/models/NAME:predict, /healthz, /readyz and /metrics, and reloads when a new version
appears in the folder. Logs are JSON lines on standard error. Needs the extra s2d_tf[serve]. See
docs/serving.md for clients.
"""

import functools

from absl import flags

from s2d_tf.serving.protocol import MAX_IMAGE_PIXELS, Limits

from . import _flags

FLAGS = flags.FLAGS
flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; 0.0.0.0 for all interfaces.")
flags.DEFINE_integer(
    "port", 8501, "Port to listen on; 0 picks a free one.", lower_bound=0, upper_bound=65535
)
flags.DEFINE_string("name", None, "Model name in URLs (default: the folder's name).")
flags.DEFINE_integer(
    "max_request_mb", Limits.request_bytes >> 20, "Largest request body in MB.", lower_bound=1
)
flags.DEFINE_integer(
    "max_batch", Limits.batch_size, "Largest number of examples in a request.", lower_bound=1
)
flags.DEFINE_float(
    "max_megapixels",
    MAX_IMAGE_PIXELS / 1e6,
    "Largest encoded image, in millions of pixels. Cannot be raised: exported models have the "
    "same limit.",
    lower_bound=0.001,
    upper_bound=MAX_IMAGE_PIXELS / 1e6,
)
flags.DEFINE_integer(
    "max_connections",
    Limits.connections,
    "Largest number of open connections.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "log_level",
    "warning",
    ("debug", "info", "warning", "error"),
    "Lowest level to log; info adds one line per request.",
)

flags.DEFINE_bool("trust", False, "Serve operations outside of the closed list, too.")


def main(argv: list[str]) -> None:
    (folder,) = _flags.arguments(
        argv, "DIR", "one folder that `s2d export` wrote", "s2d serve DIR", 1, 1
    )
    from s2d_tf import serving

    limits = Limits(
        request_bytes=FLAGS.max_request_mb << 20,
        batch_size=FLAGS.max_batch,
        image_pixels=round(FLAGS.max_megapixels * 1e6),
        connections=FLAGS.max_connections,
    )
    serving.serve(
        folder,
        FLAGS.host,
        FLAGS.port,
        FLAGS.name,
        limits,
        announce=functools.partial(print, flush=True),
        log_level=FLAGS.log_level,
        trust=FLAGS.trust,
    )
