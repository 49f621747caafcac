"""S2D's and H2D's training steps against the plain one."""

import numpy as np

from benchmarks import networks
from benchmarks.records import Case, Goal

LARGE = (("densenet_bc_100_12", Goal(1.01)), ("wrn_28_10", Goal(1.01)))
COMPACT = (("wrn_10_2_s2", Goal(1.10)), ("densenet_bc_22_12_s2", None))
CACHED_GOAL = Goal(1.05)
ONLINE_GOAL = Goal(1.05)
NUM_TEACHERS = 5
CACHED = ("h2d_dir", "h2d_gauss")


def cases(plan):
    # Quick runs have one tiny network in place of all.
    large, compact = (LARGE[:1], COMPACT[:1]) if plan.quick else ((*LARGE, *COMPACT), COMPACT)
    for architecture, goal in large:
        yield _extra_alone(networks.network(architecture, plan), goal)
    for architecture, goal in compact:
        yield _whole_step(networks.network(architecture, plan), goal)
    yield _parts(networks.network("densenet_bc_100_12", plan))
    yield _online(networks.network("wrn_10_2_s2", plan), 1 if plan.quick else NUM_TEACHERS)


def _extra_alone(network, goal):
    """S2D and H2D at once, so that the plain step, by far the slowest, is timed only once."""

    def build():
        images, labels = network.images()
        plain = networks.compiled(network.build(), network.recipe())
        width = plain.backbone.output_shape[-1]
        heads = {method: _head_step(network, method, width) for method in ("s2d", *CACHED)}
        return {
            "plain step": networks.step_function(plain, images, labels),
            "plain head": _head_step(network, "individual", width),
            **{f"{method} head": step for method, step in heads.items()},
        }

    def ratio(method):
        return lambda t: 1.0 + (t[f"{method} head"] - t["plain head"]) / t["plain step"]

    def facts(seconds):
        found = {f"{method} / plain": ratio(method)(seconds) for method in CACHED}
        return found | {
            "goal for cached teachers": str(CACHED_GOAL),
            "cached teachers meet it": all(CACHED_GOAL.met_by(ratio(m)(seconds)) for m in CACHED),
        }

    return Case(
        f"S2D / plain step, {network.name}",
        build,
        ratio("s2d"),
        "1 + (S2D head - plain head) / plain step",
        goal,
        facts=facts,
        note="the extra work alone, over the plain step",
    )


def _whole_step(network, goal):
    def build():
        images, labels = network.images()
        built = {
            name: networks.compiled(network.build(method), network.recipe(method))
            for name, method in (("plain", "individual"), ("S2D", "s2d"))
        }
        return {
            name: networks.step_function(model, images, labels) for name, model in built.items()
        }

    return Case(
        f"S2D / plain whole step, {network.name}",
        build,
        lambda t: t["S2D"] / t["plain"],
        "S2D step / plain step",
        goal,
        facts=lambda seconds: {"images/s plain": network.batch / seconds["plain"]},
        note="two whole training steps in turns",
    )


def _parts(network):
    """Where the extra work goes: each part of the loss as a compiled function of its own."""

    def build():
        import tensorflow as tf

        from s2d_tf import losses, numerics

        model = network.build("s2d")
        width, classes = model.backbone.output_shape[-1], model.num_classes
        features = tf.nn.relu(tf.random.stateless_normal([network.batch, 1, width], (1, 0)))
        noisy = model.noise(features)
        teacher = tf.stop_gradient(model.head(noisy))[:, 0]
        proxy = model.student_target(teacher)
        student = tf.random.stateless_normal([network.batch, classes], (2, 0))
        divergence = losses.DirichletKLDivergence()

        @tf.function
        def noise_and_head():
            with tf.GradientTape() as tape:
                tape.watch(features)
                loss = tf.reduce_sum(model.head(model.noise(features)))
            return tape.gradient(loss, [features, model.head.kernel.value])

        @tf.function
        def kl_and_gradient():
            with tf.GradientTape() as tape:
                tape.watch(student)
                loss = divergence(proxy, student)
            return tape.gradient(loss, student)

        def fit():
            return numerics.fit_dirichlet(tf.nn.log_softmax(teacher / model.temperature, axis=-1))

        parts = {
            "noise and head": noise_and_head,
            "proxy fit": tf.function(fit),
            "KL and gradient": kl_and_gradient,
            "proxy fit, XLA": tf.function(fit, jit_compile=True),
        }
        return {name: networks.waiting(part) for name, part in parts.items()}

    def share(t):
        return t["proxy fit"] / (t["noise and head"] + t["proxy fit"] + t["KL and gradient"])

    return Case(
        f"share of the proxy fit in the extra work, {network.name}",
        build,
        share,
        "proxy fit / (noise and head + proxy fit + KL and gradient)",
        facts=lambda s: {"proxy fit without XLA / with": s["proxy fit"] / s["proxy fit, XLA"]},
        note="parts timed one by one",
    )


def _online(network, num_teachers):
    """Teachers that run inside the step, as augmentation needs them."""

    def build():
        import tensorflow as tf

        from s2d_tf import models

        images, labels = network.images()
        plain = networks.compiled(network.build(), network.recipe())
        teachers = [network.build("s2d") for _ in range(num_teachers)]
        student = networks.compiled(network.build("h2d_dir"), network.recipe("h2d_dir"))
        student.learn_from(models.Ensemble(teachers))
        pixels = tf.constant(images, tf.float32)
        return {
            "plain step": networks.step_function(plain, images, labels),
            "teacher": networks.waiting(tf.function(teachers[0].member_logits), pixels),
            "online": networks.step_function(student, images, labels),
        }

    return Case(
        f"H2D-Dir with {num_teachers} teachers in the step, {network.name}",
        build,
        lambda t: t["online"] / (t["plain step"] + num_teachers * t["teacher"]),
        f"online step / (plain step + {num_teachers} forward passes)",
        ONLINE_GOAL,
        note="1 is what the arithmetic needs",
    )


def _head_step(network, method, width):
    """Loss and gradients of a zoo method, from features of the network's width.

    The model itself, with a backbone that does nothing, compiled as training compiles it.
    """
    import keras
    import tensorflow as tf

    features = keras.Input((1, 1, width))
    nothing = keras.Model(features, keras.layers.Flatten()(features))
    model = _with_backbone(network, method, nothing)
    networks.compiled(model, network.recipe(method))
    rows = tf.nn.relu(tf.random.stateless_normal([network.batch, 1, 1, width], (0, 0)))
    labels = tf.constant(np.arange(network.batch) % model.num_classes)
    targets = labels
    if method in CACHED:
        shape = [network.batch, NUM_TEACHERS, model.num_classes]
        targets = {"labels": labels, "teacher_logits": tf.random.stateless_normal(shape, (3, 0))}

    @tf.function
    def step(rows, targets):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            outputs = model(rows, training=True)
            loss = model.compute_loss(rows, targets, outputs)
        weights = [weight.value for weight in model.trainable_variables]
        return tape.gradient(loss, [rows, *weights])

    return networks.waiting(step, rows, targets)


def _with_backbone(network, method, backbone):
    """A zoo method's model, as its recipe has it but for the backbone."""
    import keras

    shallow = network.recipe(method).arguments | {"depth": 10}  # Quick to build; not used.
    model = network.build(method, arguments=shallow)
    backbone = keras.saving.serialize_keras_object(backbone)
    changes = {"backbone": backbone, "mean": None, "stddev": None}
    return type(model).from_config(model.get_config() | changes)
