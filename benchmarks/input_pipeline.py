"""The input pipeline against what a training step takes in."""

import time

from benchmarks import networks
from benchmarks.records import Case, Goal

GOAL = Goal(20, at_most=False)
BATCH = 64
NUM_BATCHES = 200


def cases(plan):
    images, labels, source = _data(plan)
    for padding in ("mean",) if plan.quick else ("reflect", "mean"):
        yield _case(images, labels, source, padding, plan)


def _data(plan):
    if plan.data_dir and not plan.quick:
        from s2d_tf import data

        return *data.load_arrays("cifar100", "train", plan.data_dir), "CIFAR-100"
    count = 64 if plan.quick else 50_000
    return *networks.random_images(count), f"{count:,} random images"


def _case(images, labels, source, padding, plan):
    batch, num_batches = (8, 2) if plan.quick else (BATCH, NUM_BATCHES)

    def build():
        from s2d_tf import backbones, data, models
        from s2d_tf.zoo import recipes

        recipe = recipes.resolve("wrn_10_2_s2.individual.cifar100_plus")
        backbone = backbones.wide_resnet(images.shape[1:], depth=10, width=2, seed=0)
        model = models.Classifier(
            backbone,
            100,
            mean=recipe.data.mean,
            stddev=recipe.data.stddev,
            weight_decay=recipe.training.weight_decay,
            seed=0,
        )
        dataset = data.train_pipeline(
            images,
            labels,
            batch_size=batch,
            seed=0,
            epochs=100_000,
            augmentation="mirror_shift",
            padding=padding,
            mean=recipe.data.mean,
        )
        return {
            "pipeline": _Delivery(iter(dataset), num_batches),
            "step": networks.step_function(
                networks.compiled(model, recipe), images[:batch], labels[:batch]
            ),
        }

    return Case(
        f"pipeline / WRN-10-2 step, images/s, padding {padding}",
        build,
        lambda t: num_batches * t["step"] / t["pipeline"],
        "images/s of the pipeline / images/s of the step",
        GOAL,
        facts=lambda t: {
            "pipeline images/s": num_batches * batch / t["pipeline"],
            "step images/s": batch / t["step"],
        },
        note=f"{source}, mirrored and shifted, batch {batch}, 32x32",
    )


class _Delivery:
    """Takes batches from the pipeline.

    It works ahead while others have their turn; what it has in store by then is taken first and
    does not count.
    """

    def __init__(self, batches, num_batches):
        self.batches, self.num_batches = batches, num_batches

    def __call__(self):
        for _ in range(self.num_batches):
            next(self.batches)

    def timed(self, calls):
        self()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            self()
        return time.perf_counter() - wall, time.process_time() - cpu
