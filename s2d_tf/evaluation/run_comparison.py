"""Two runs on the same test images, compared in pairs."""

from s2d_tf import storage
from s2d_tf.evaluation import intervals, tables
from s2d_tf.evaluation.evaluator import gather
from s2d_tf.evaluation.names import LOWER_IS_BETTER, dataset_title
from s2d_tf.evaluation.overview import NAMES
from s2d_tf.evaluation.run_evaluation import cache_directory


def gather_run(directory, data_dir=None):
    """`Gathered` of a finished run, from its cached predictions where they are there."""
    run = storage.Run.open(directory)
    return gather(
        run.predictor(),
        run.recipe.source_dataset,
        run.recipe.out_of_distribution,
        data_dir,
        cache_dir=cache_directory(run),
        skip_missing=True,
    )


def compare_runs(first, second, data_dir=None, num_resamples=10_000):
    """Table of the differences of two runs with their paired 95% intervals."""
    found = intervals.of_difference(
        gather_run(first, data_dir), gather_run(second, data_dir), num_resamples
    )
    return difference_table(found, f"{first} minus {second}", num_resamples)


def difference_table(found, caption, num_resamples):
    """Table of `intervals.of_difference`."""
    blocks = {}
    for key, value in found.items():
        dataset, metric, *uncertainty = key.split("/")
        lower = metric in LOWER_IS_BETTER
        better = value["high"] < 0 if lower else value["low"] > 0
        worse = value["low"] > 0 if lower else value["high"] < 0
        verdict = "better" if better else "worse" if worse else "no clear difference"
        scale, decimals = (1.0, 3) if metric == "nll" else (100.0, 2)
        numbers = [f"{scale * value[part]:+.{decimals}f}" for part in ("estimate", "low", "high")]
        name = " ".join([NAMES.get(metric, f"%{metric.upper()}"), *uncertainty])
        blocks.setdefault(dataset, []).append(
            [dataset_title(dataset), name, *numbers, verdict],
        )
    return tables.make(
        caption,
        ["Data", "Metric", "Difference", "95% from", "to", "The first is"],
        list(blocks.values()),
        stub=2,
        footnotes=[
            f"{num_resamples:,} resamples of the test examples, in pairs; per cent points but for "
            "NLL. Seeds are another source of variation that this does not show."
        ],
    )
