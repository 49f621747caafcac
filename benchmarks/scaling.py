"""How costs grow with batch, classes, passes and members, and predictions for a GPU."""

import numpy as np

from benchmarks import counting, networks
from benchmarks.records import Case, counted

WIDTH = 342  # DenseNet-BC-100-12's features
BASE = {"batch": 64, "classes": 100, "passes": 5}
SIZES = {
    "batch": (16, 32, 64, 128, 256, 512),
    "classes": (10, 30, 100, 300, 1000, 3000),
    "passes": (1, 2, 5, 10, 20),
}
MEMBERS = (1, 2, 4, 8)
FULL_RECIPES = ("densenet_bc_100_12", "wrn_28_10")
TRAINING_IMAGES = 50_000
# The runs of docs/reproduce.md on one network and dataset; the ensembles' members are the single
# models.
SEQUENCE = {
    **dict.fromkeys(("individual", "s2d"), 20),
    **dict.fromkeys(("swag", "s2d_swag", "mimo", "s2d_mimo"), 5),
    **dict.fromkeys(("end", "en2d", "h2d_dir", "h2d_gauss"), 1),
}
NUM_TEACHERS = 5


def cases(plan):
    for axis in ("passes",) if plan.quick else SIZES:
        yield _growth(axis, SIZES[axis][:2] if plan.quick else SIZES[axis])
    yield _members(plan)
    for architecture in FULL_RECIPES:
        yield from _predictions(architecture, plan)
        yield _sequence(architecture, plan)


def _growth(axis, sizes):
    def build():
        return {str(size): _s2d_head(**{**BASE, axis: size}) for size in sizes}

    rest = ", ".join(f"{name} {size}" for name, size in BASE.items() if name != axis)
    return Case(
        f"growth of S2D's head and loss with {axis}",
        build,
        _slope,
        f"slope of log time over log {axis}",
        unit="",
        note=f"{rest}; forward and backward from features of width {WIDTH}",
    )


def _members(plan):
    network = networks.network("wrn_10_2_s2", plan)

    def build():
        import tensorflow as tf

        from s2d_tf import models

        pixels = tf.constant(network.images()[0], tf.float32)
        made = [network.build() for _ in range(2 if plan.quick else max(MEMBERS))]
        return {
            str(size): networks.waiting(
                tf.function(models.Ensemble(made[:size]).member_logits), pixels
            )
            for size in (MEMBERS[:2] if plan.quick else MEMBERS)
        }

    return Case(
        "growth of an ensemble's prediction with members",
        build,
        _slope,
        "slope of log time over log members",
        unit="",
        note=network.name,
    )


def _slope(t):
    sizes, seconds = np.array([int(size) for size in t]), np.array(list(t.values()))
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _s2d_head(batch, classes, passes):
    import keras
    import tensorflow as tf

    from s2d_tf import models

    features = keras.Input((1, 1, WIDTH))
    nothing = keras.Model(features, keras.layers.Flatten()(features))
    model = models.S2DClassifier(nothing, classes, num_samples=passes, seed=0)
    model.compile(keras.optimizers.SGD(0.1))
    rows = tf.nn.relu(tf.random.stateless_normal([batch, 1, 1, WIDTH], (0, 0)))
    labels = tf.constant(np.arange(batch) % classes)

    @tf.function
    def step(rows, labels):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = model.compute_loss(rows, labels, model(rows, training=True))
        return tape.gradient(loss, [rows, *(w.value for w in model.trainable_variables)])

    return networks.waiting(step, rows, labels)


def sequence_hours(architecture, dataset, backbone, device):
    """Predicted hours of `SEQUENCE`; where images are augmented, teachers run in the step."""
    from s2d_tf.zoo import recipes

    hours = 0.0
    for method, runs in SEQUENCE.items():
        recipe = recipes.resolve(f"{architecture}.{method}.{dataset}")
        batch = recipe.data.batch_size
        seconds = counting.step_seconds(backbone, batch, device)
        if recipe.teachers and recipe.data.augmentation != "none":
            seconds += NUM_TEACHERS * counting.forward_seconds(backbone, batch, device)
        steps = recipe.training.epochs * (TRAINING_IMAGES // batch)
        hours += runs * steps * seconds / 3600.0
    return hours


def _sequence(architecture, plan):
    recipe = networks.Network(architecture, 0).recipe("s2d")
    backbone = _backbone(recipe, plan)
    hours = {
        dataset: sequence_hours(architecture, dataset, backbone, counting.V100)
        for dataset in ("cifar100", "cifar100_plus")
    }
    return counted(
        f"all of docs/reproduce.md on a V100-class GPU, {architecture}",
        "sum over all runs of both datasets",
        sum(hours.values()),
        unit="h",
        kind="predicted",
        facts={"runs for each dataset": sum(SEQUENCE.values()), **hours},
    )


def _predictions(architecture, plan):
    recipe = networks.Network(architecture, 0).recipe("s2d")
    batch = recipe.data.batch_size
    device = counting.V100
    backbone = _backbone(recipe, plan)
    parameters = recipe.parameters
    step = counting.step_seconds(backbone, batch, device)
    steps = recipe.training.epochs * (TRAINING_IMAGES // batch)
    facts = {
        "device": device.name,
        "million multiply-adds per image": counting.multiply_adds(backbone) / 1e6,
        "milliseconds per step": 1000.0 * step,
        "steps": steps,
        "share of float32 peak, of bandwidth (assumed)": [
            device.flops_share,
            device.bandwidth_share,
        ],
    }
    title = f"{architecture}, batch {batch}, {recipe.training.epochs} epochs"
    yield counted(
        f"training time on a V100-class GPU, {title}",
        "3 x sum over layers of max(arithmetic, memory traffic), times the steps",
        step * steps / 3600.0,
        unit="h",
        kind="predicted",
        facts=facts,
    )
    yield counted(
        f"training memory on a V100-class GPU, {title}",
        "activations kept for the backward pass + 3 x parameters, float32",
        counting.training_bytes(backbone, parameters, batch) / 1e9,
        unit="GB",
        kind="predicted",
        note="without the framework's work space",
    )
    forward = counting.forward_seconds(backbone, batch, device)
    yield counted(
        f"inference on a V100-class GPU, {title.split(', ')[0]}, batch {batch}",
        "sum over layers of max(arithmetic, memory traffic)",
        batch / forward,
        unit="images/s",
        kind="predicted",
    )


def _backbone(recipe, plan):
    from s2d_tf import backbones, data

    arguments = recipe.arguments | ({"depth": 10} if plan.quick else {})
    shape = data.info(recipe.source_dataset).image_shape
    return getattr(backbones, recipe.backbone)(
        input_shape=shape, dropout=recipe.model.dropout, **arguments
    )
