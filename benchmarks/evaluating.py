"""What evaluation costs beside the forward passes."""

import time

import numpy as np

from benchmarks import networks
from benchmarks.records import Case, Goal

NUM_KNOWN, NUM_UNKNOWN = 10_000, 26_032
TIME_GOAL = Goal(50.0)
SHARE_GOAL = Goal(0.9, at_most=False)
SETS = {"cifar100": 10_000, "svhn_cropped": 26_032, "tiny_imagenet_resize": 10_000}
SETS["tiny_imagenet_crop"] = 10_000


def cases(plan):
    yield _ranking(plan)
    for method in ("s2d",) if plan.quick else ("individual", "s2d"):
        yield _share(method, plan)


def _ranking(plan):
    def build():
        from s2d_tf import metrics

        generator = np.random.default_rng(0)
        sizes = (50, 80) if plan.quick else (NUM_KNOWN, NUM_UNKNOWN)
        known, unknown = (generator.exponential(size=size) for size in sizes)
        return {
            "auroc": lambda: metrics.auroc(known, unknown),
            "aupr": lambda: metrics.aupr(known, unknown),
        }

    return Case(
        f"AUROC and AUPR of {NUM_KNOWN + NUM_UNKNOWN:,} scores",
        build,
        lambda t: 1000.0 * (t["auroc"] + t["aupr"]),
        "milliseconds for both",
        TIME_GOAL,
        unit="ms",
    )


def _share(method, plan):
    """Forward passes, then all else that `evaluate` computes from their answers."""
    network = networks.network("wrn_10_2_s2", plan)

    def build():
        from s2d_tf.evaluation import evaluator, predictions, scoring

        model = network.build(method)
        arrays = {name: _arrays(network, name, size, plan) for name, size in SETS.items()}
        stacks = {}

        def forward():
            for name, (images, _) in arrays.items():
                stacks[name] = model.predict_members(images)

        def rest():
            scored = {}
            for name, (kind, stack) in stacks.items():
                parts = ((stack, np.asarray),)
                answer = predictions.Predictions(kind, parts, arrays[name][1], name, "test", "")
                scored[name] = scoring.score(answer)
            known, *unknown = SETS
            evaluator.classification(known, scored[known])
            for name in unknown:
                evaluator.detection(name, scored[known], scored[name])
            evaluator.scaled_metrics(known, scored[known], None)

        forward()
        return {"forward": _Once(forward), "rest": _Once(rest)}

    return Case(
        f"share of forward passes in evaluating {network.architecture}.{method}",
        build,
        lambda t: t["forward"] / (t["forward"] + t["rest"]),
        "forward passes / (forward passes + scores and metrics)",
        SHARE_GOAL,
        unit="",
        note=f"{'random' if _random(plan) else 'real'} images, "
        f"{', '.join(f'{n:,}' for n in SETS.values())} in four sets",
    )


class _Once:
    """Never repeated within a round: both take seconds, and one of them needs the other."""

    def __init__(self, function):
        self.function = function

    def __call__(self):
        self.function()

    def timed(self, calls):
        wall, cpu = time.perf_counter(), time.process_time()
        self.function()
        # The timer divides by the calls it asked for.
        return calls * (time.perf_counter() - wall), calls * (time.process_time() - cpu)


def _random(plan):
    return plan.quick or not plan.data_dir


def _arrays(network, name, count, plan):
    from s2d_tf import data

    if not _random(plan):
        return data.load_arrays(name, "test", plan.data_dir)
    recipe = network.recipe()
    shape = data.info(recipe.source_dataset).image_shape
    return networks.random_images(20 if plan.quick else count, shape, recipe.num_classes)
