"""Uncertainties against a plain softmax, and against other runtimes."""

from benchmarks import networks, runtime_speed
from benchmarks.records import Case, Goal

GOAL = Goal(1.01)
NETWORKS = (
    ("densenet_bc_100_12", GOAL),
    ("wrn_28_10", GOAL),
    ("wrn_10_2_s2", None),
    ("densenet_bc_22_12_s2", None),
)

# The paper's networks, a compact one, the fast one, an ensemble of five. The slowest comes last.
COMPARED = (
    ("densenet_bc_100_12", 1),
    ("wrn_10_2_s2", 1),
    ("fast_resnet", 1),
    ("wrn_10_2_s2", 5),
    ("wrn_28_10", 1),
)


def cases(plan):
    chosen = NETWORKS[-1:] if plan.quick else NETWORKS
    for architecture, goal in chosen:
        yield _extra_alone(networks.network(architecture, plan), goal)
    for architecture, _ in chosen[-2:]:
        yield _whole(networks.network(architecture, plan))
    for architecture, num_members in COMPARED[3:4] if plan.quick else COMPARED:
        yield from runtime_speed.cases(architecture, plan, num_members)


def _extra_alone(network, goal):
    def build():
        import tensorflow as tf

        from s2d_tf import uncertainty

        model, pixels = _model_and_pixels(network)
        logits = tf.random.stateless_normal([1, network.batch, model.num_classes], (0, 0))
        answer = tf.function(lambda x: uncertainty.from_members("dirichlet", x))
        softmax = tf.function(lambda x: tf.nn.softmax(x[0], axis=-1))
        return {
            "plain prediction": networks.waiting(tf.function(_plain(model)), pixels),
            "uncertainties of logits": networks.waiting(answer, logits),
            "softmax of logits": networks.waiting(softmax, logits),
        }

    return Case(
        f"uncertainties / softmax, {network.name}",
        build,
        lambda t: (
            1.0 + (t["uncertainties of logits"] - t["softmax of logits"]) / t["plain prediction"]
        ),
        "1 + (uncertainties - softmax) / plain prediction",
        goal,
        note="the difference alone, over the plain prediction",
    )


def _whole(network):
    def build():
        import tensorflow as tf

        from s2d_tf import uncertainty

        model, pixels = _model_and_pixels(network)

        def with_uncertainties(images):
            return uncertainty.from_members("dirichlet", model.member_logits(images))

        return {
            "plain": networks.waiting(tf.function(_plain(model)), pixels),
            "with uncertainties": networks.waiting(tf.function(with_uncertainties), pixels),
        }

    return Case(
        f"uncertainties / softmax, whole prediction, {network.name}",
        build,
        lambda t: t["with uncertainties"] / t["plain"],
        "prediction with uncertainties / plain prediction",
        facts=lambda seconds: {"images/s plain": network.batch / seconds["plain"]},
    )


def _model_and_pixels(network):
    import tensorflow as tf

    images, _ = network.images()
    return network.build("s2d"), tf.constant(images, tf.float32)


def _plain(model):
    import tensorflow as tf

    return lambda images: tf.nn.softmax(model.member_logits(images)[0], axis=-1)
