"""Opens a page in the browser that shows predictions and uncertainties.

usage: s2d demo [NAME_OR_RUN ...] [--data_dir=DIR] [--port=PORT]

    s2d demo                                  # a plain digit classifier beside S2D, offline
    s2d demo wrn_10_2_s2.s2d.cifar100         # a zoo entry beside its plain twin
    s2d demo runs/plain runs/s2d              # your own runs side by side

Drop an image, choose a sample or draw a digit; for a text model, type a sentence. Needs the extra
s2d_tf[serve]. See docs/serving.md.
"""

from absl import flags

from . import _flags

_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on.")
_PORT = flags.DEFINE_integer(
    "port", 8600, "Port to listen on; 0 picks a free one.", lower_bound=0, upper_bound=65535
)
_OPEN = flags.DEFINE_boolean("open", True, "Open the page in the browser.")
_DATA_DIR = _flags.data_dir()
_DATA = _flags.moved_data()
_EXAMPLES = flags.DEFINE_integer(
    "examples", 2000, "Most test examples for distributions and thresholds.", lower_bound=20
)


def main(argv: list[str]) -> None:
    from .demo_page import app, demo

    shown = demo.open_demo(argv[1:], _DATA_DIR.value, _DATA.value, _EXAMPLES.value)
    app.run_demo(shown, _HOST.value, _PORT.value, _OPEN.value)
