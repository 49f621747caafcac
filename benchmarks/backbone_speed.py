"""Our networks against stock Keras ones, with and without XLA and oneDNN."""

from benchmarks import counting, networks, pytorch_densenet
from benchmarks.child import together
from benchmarks.records import Case, Goal, counted, not_run

SIDE = 2048  # of the matrices whose product shows how fast the machine multiplies
SPEED_GOAL = Goal(1.5, at_most=False)
MEMORY_GOAL = Goal(0.7)
AHEAD = Goal(1.0, at_most=False)
TARGET = "benchmarks.backbone_speed:functions"
PYTORCH = "benchmarks.pytorch_densenet:functions"

# The command `s2d` sets oneDNN on; `plain` leaves the choice to TensorFlow.
ONEDNN_ON = {"TF_ENABLE_ONEDNN_OPTS": "1"}
ONEDNN_OFF = {"TF_ENABLE_ONEDNN_OPTS": "0"}
DEFAULT = {"TF_ENABLE_ONEDNN_OPTS": None}
VARIANTS = {
    "ours": ("ours", False, ONEDNN_ON),
    "plain": ("plain", False, DEFAULT),
    "ours, XLA": ("ours", True, ONEDNN_ON),
    "plain, XLA": ("plain", True, DEFAULT),
    "ours, oneDNN off": ("ours", False, ONEDNN_OFF),
    "plain, oneDNN off": ("plain", False, ONEDNN_OFF),
}
PAIR = ("ours", "plain")
# Which variants: XLA needs minutes to compile a network of 100 layers, and the memory of more than
# two processes of the large networks is not to be had everywhere.
NETWORKS = (
    ("densenet_bc_100_12", PAIR, True),
    ("wrn_28_10", PAIR, True),
    ("densenet_bc_22_12_s2", tuple(VARIANTS), False),
    ("wrn_10_2_s2", tuple(VARIANTS), False),
)

# A backward pass multiplies for the gradients by the inputs and by the weights.
WORK = {"train": ("training step", 3), "infer": ("inference", 1)}


def cases(plan):
    for architecture, variants, has_goal in NETWORKS[-1:] if plan.quick else NETWORKS:
        network = networks.network(architecture, plan)
        yield from _network(network, PAIR if plan.quick else variants, has_goal)
    if not plan.quick:
        yield from _beside_pytorch(networks.network("densenet_bc_100_12", plan))


def _network(network, variants, has_goal):
    with together({name: _variant(network, *VARIANTS[name]) for name in variants}) as children:

        def facts(t):
            ratios = {f"plain / {name}": t["plain"] / t[name] for name in t if name != "plain"}
            return ratios | {"images/s of ours": network.batch / t["ours"]}

        yield from _speed(
            children,
            "plain",
            f"plain Keras / ours, {{}}, {network.name}",
            "time of the stock network / time of ours",
            SPEED_GOAL if has_goal else None,
            facts,
        )
        peaks = {name: child.peak_bytes() for name, child in children.items()}
        yield counted(
            f"peak memory: ours / plain Keras, {network.name}",
            "peak of the process that trained and predicted, beyond its start",
            peaks["ours"] / max(peaks["plain"], 1),
            unit="x",
            goal=MEMORY_GOAL if has_goal and "densenet" in network.architecture else None,
            kind="measured",
            facts={f"GB {name}": peak / 1e9 for name, peak in peaks.items()},
        )
        yield from _bounds(network, children["ours"])


def _beside_pytorch(network):
    """In a turn of its own: a third process would wait with the memory of a large network."""
    formula = "time of PyTorch, eager and channels last / time of ours"
    name = f"PyTorch / ours, {{}}, {network.name}"
    if not pytorch_densenet.available():
        for title, _ in WORK.values():
            yield not_run(name.format(title), formula, "PyTorch is not installed")
        return
    recipe = network.recipe()
    arguments = {"batch": network.batch, "weight_decay": recipe.training.weight_decay}
    processes = {
        "ours": _variant(network, *VARIANTS["ours"]),
        "PyTorch": (PYTORCH, arguments | recipe.arguments, {}),
    }
    with together(processes) as children:
        yield from _speed(children, "PyTorch", name, formula, AHEAD)


def _variant(network, kind, jit_compile, environment):
    arguments = {"network": vars(network), "kind": kind, "jit_compile": jit_compile}
    return TARGET, arguments, environment


def _speed(children, other, name, formula, goal, facts=None):
    """One case for each kind of work: the time of `other` over ours."""
    for work, (title, _) in WORK.items():
        yield Case(
            name.format(title),
            lambda work=work: {n: child.function(work) for n, child in children.items()},
            lambda t: t[other] / t["ours"],
            formula,
            goal,
            facts=facts,
        )


def _bounds(network, child):
    """What the multiplications alone would take: no faster network with the same arithmetic."""
    products = network.batch * counting.multiply_adds(network.build().backbone) / SIDE**3
    for work, (title, passes) in WORK.items():
        yield Case(
            f"multiplications alone / {title} of ours, {network.name}",
            lambda work=work: {n: child.function(n) for n in (work, "product")},
            lambda t, work=work, passes=passes: passes * products * t["product"] / t[work],
            f"the multiplications at the rate of a {SIDE} x {SIDE} matrix product / the whole",
            facts=lambda t: {"GFLOP/s of the product": 2e-9 * SIDE**3 / t["product"]},
        )


def functions(network, kind, jit_compile):
    """What a child builds: a training step and a prediction of one variant, a matrix product."""
    import tensorflow as tf

    network = networks.Network(**network)
    recipe = network.recipe()
    images, labels = network.images()
    if kind == "ours":
        model = networks.compiled(network.build(), recipe, jit_compile=jit_compile)
    else:
        model = _plain(recipe, images.shape[1:], jit_compile)
    pixels = tf.constant(images, tf.float32)
    predict = tf.function(
        lambda x: tf.nn.softmax(model(x, training=False), axis=-1), jit_compile=jit_compile
    )
    matrix = tf.ones([SIDE, SIDE])
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(matrix, matrix)))
    return {
        "train": networks.step_function(model, images, labels),
        "infer": networks.waiting(predict, pixels),
        "product": networks.waiting(product),
    }


def _plain(recipe, input_shape, jit_compile):
    import keras

    from benchmarks import plain_keras
    from s2d_tf.trainers.training import schedules

    model = plain_keras.classifier(
        recipe.backbone,
        recipe.arguments | {"dropout": recipe.model.dropout},
        input_shape,
        recipe.num_classes,
        recipe.data.mean,
        recipe.data.stddev,
        recipe.training.weight_decay,
    )
    model.compile(
        schedules.optimizer(recipe.training, 100),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=jit_compile,
    )
    return model
