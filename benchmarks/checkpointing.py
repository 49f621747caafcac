"""What checkpoints cost beside the training that they save."""

import itertools
import tempfile

from benchmarks import networks
from benchmarks.records import Case, Goal

GOAL = Goal(0.02)
SECONDS = 120  # between checkpoints within an epoch, the default of `s2d train`
IMAGES = 50_000


def cases(plan):
    for method in ("individual",) if plan.quick else ("individual", "s2d"):
        yield _case(networks.network("wrn_10_2_s2", plan), method)


def _case(network, method):
    """All checkpoints of an epoch over the epoch, as if training waited until each is on disk."""

    def build():
        from s2d_tf.trainers.training import checkpoints

        images, labels = network.images()
        model = networks.compiled(network.build(method), network.recipe(method))
        step = networks.step_function(model, images, labels)
        step()
        state = [*model.variables, *model.optimizer.variables]
        folder = tempfile.TemporaryDirectory()
        numbers = itertools.count(1)

        def save():
            with_folder = folder.name  # kept alive by this closure
            checkpoints.save(with_folder, next(numbers), state, {}, metrics=model.metrics_variables)

        return {
            "step": step,
            "save": save,
            "copy": lambda: checkpoints.collect(state, model.metrics_variables),
        }

    def share(seconds, name):
        epoch = seconds["step"] * (IMAGES // network.batch)
        return seconds[name] * (1 + epoch / SECONDS) / epoch

    return Case(
        f"checkpoints / epoch, {method}, {network.name}",
        build,
        lambda seconds: share(seconds, "save"),
        f"seconds of the saves at the end of an epoch and every {SECONDS} s, over the epoch's",
        GOAL,
        facts=lambda seconds: {
            "share while training stands still": share(seconds, "copy"),
            "seconds of one save": seconds["save"],
        },
        note="training waits only for the copy; the rest is written beside it",
    )
