"""Adds models to the benchmark and regenerates its CSV and page.

usage: s2d benchmark RESULTS [MODEL...] [--name=NAME] [--detectors=all|NAME,...] [--data_dir=DIR]

    s2d benchmark results                                  # only regenerate
    s2d benchmark results exported/mine --name="My net"    # your own SavedModel
    s2d benchmark results wrn_10_2_s2.s2d.cifar100 --detectors=all

RESULTS is a folder with the JSON files of runs, from which benchmark.csv and benchmark.md are
generated. MODEL is a run directory, a zoo entry's name, folder or URL, or an exported model with
CIFAR-100's classes. It is evaluated on the test images and the available near and far sets of
OpenOOD; the metrics go to RESULTS/benchmark/NAME/metrics.json. See docs/shift.md.
"""

import sys

from absl import flags

from . import _flags

_NAME = flags.DEFINE_string("name", None, "Name of the model on the page.")
_DETECTORS = flags.DEFINE_string(
    "detectors", "", "Post-hoc detectors to evaluate: all, or names such as knn,energy."
)
_DATA_DIR = _flags.data_dir()
_BATCH_SIZE = _flags.batch_size()


def main(argv: list[str]) -> None:
    from .studies import benchmark, benchmark_page

    if len(argv) < 2:
        raise ValueError(
            "RESULTS: expected a folder of results, received none. Run `s2d benchmark results`."
        )
    _, results, *models = argv
    if _NAME.value and len(models) != 1:
        raise ValueError(
            f"--name: expected one model, received {len(models)}. Enter them one by one."
        )

    def log(line):
        print(line, file=sys.stderr, flush=True)

    for model in models:
        benchmark.enter(
            model,
            results,
            _NAME.value,
            _DATA_DIR.value,
            _DETECTORS.value,
            _BATCH_SIZE.value,
            log,
        )
    for path in benchmark_page.write(results):
        print(f"Wrote {path}")
