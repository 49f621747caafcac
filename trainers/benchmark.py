"""Enters models into the benchmark, and regenerates its CSV and its page.

usage: s2d benchmark RESULTS [MODEL...] [--name=NAME] [--detectors=all|NAME,...] [--data_dir=DIR]

    s2d benchmark results                                  # only regenerate
    s2d benchmark results exported/mine --name="My net"    # a SavedModel of your own
    s2d benchmark results wrn_10_2_s2.s2d.cifar100 --detectors=all

RESULTS is a folder with the JSON files of runs; benchmark.csv and benchmark.md in it are made from
them and nothing else. MODEL is a run directory, the name, folder or address of a zoo entry, or an
exported model of CIFAR-100's classes. It is evaluated on the test images and on OpenOOD's near and
far sets, as far as they are on this machine, and kept as RESULTS/benchmark/NAME/metrics.json.
"""

import sys

from absl import flags

_NAME = flags.DEFINE_string("name", None, "What to call the model on the page.")
_DETECTORS = flags.DEFINE_string(
    "detectors", "", "Post-hoc detectors to fit and to evaluate: all, or names such as knn,energy."
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of the datasets; else TFDS_DATA_DIR, else ~/tensorflow_datasets."
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Images per forward pass.", lower_bound=1)


def main(argv: list[str]) -> None:
    from s2d_tf import evaluation

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
        evaluation.benchmark.enter(
            model,
            results,
            _NAME.value,
            _DATA_DIR.value,
            _DETECTORS.value,
            _BATCH_SIZE.value,
            log,
        )
    for path in evaluation.benchmark_page.write(results):
        print(f"Wrote {path}")
