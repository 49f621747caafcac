"""An ensemble as one graph, as calls in turn, and beside a single S2D network."""

from benchmarks import networks
from benchmarks.records import Case, Goal

NETWORKS = ("wrn_10_2_s2", "densenet_bc_22_12_s2")
NUM_MEMBERS = 5
GOAL = Goal(1.2, at_most=False)


def cases(plan):
    for architecture in NETWORKS[:1] if plan.quick else NETWORKS:
        # Some tens of images are a request to a server; a large batch fills the cores either way.
        for batch in (8,) if plan.quick else (1, 64):
            yield _case(
                networks.network(architecture, plan, batch), 2 if plan.quick else NUM_MEMBERS
            )


def _case(network, num_members):
    def build():
        import tensorflow as tf

        from s2d_tf import models, uncertainty

        images, _ = network.images()
        pixels = tf.constant(images, tf.float32)
        plain = [network.build("individual") for _ in range(num_members)]
        ensemble = models.Ensemble(plain)
        single = network.build("s2d")
        members = [tf.function(member.member_logits) for member in plain]
        combine = tf.function(lambda stack: uncertainty.from_members("categorical", stack))

        def in_turn():
            # As five models in five calls: each answer comes back before the next is asked for.
            stack = [member(pixels).numpy() for member in members]
            combined = combine(tf.concat(stack, axis=0))
            return {key: value.numpy() for key, value in combined.items()}

        def uncertainties(model):
            return lambda x: uncertainty.from_members(model.kind, model.member_logits(x))

        return {
            "in turn": in_turn,
            "one graph": networks.waiting(tf.function(uncertainties(ensemble)), pixels),
            "S2D": networks.waiting(tf.function(uncertainties(single)), pixels),
        }

    return Case(
        f"{num_members} calls in turn / one graph, {network.name}",
        build,
        lambda t: t["in turn"] / t["one graph"],
        "time of one call a member and the combination / time of one graph",
        GOAL,
        facts=lambda t: {f"ensemble of {num_members} / one S2D network": t["one graph"] / t["S2D"]},
    )
