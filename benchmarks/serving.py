"""Exported models, as a server calls them: what uncertainties cost, and what S2D saves."""

import tempfile

from benchmarks import networks
from benchmarks.records import Case, Goal

UNCERTAINTIES = Goal(1.01)
ENSEMBLE = Goal(4.5, at_most=False)
NUM_MEMBERS = 5


def cases(plan):
    if plan.quick:
        yield _uncertainties(networks.network("wrn_10_2_s2", plan), None)
        yield _ensemble(networks.network("wrn_10_2_s2", plan), None, num_members=2)
        return
    yield _uncertainties(networks.network("densenet_bc_100_12", plan), UNCERTAINTIES)
    yield _uncertainties(networks.network("wrn_10_2_s2", plan), None)
    yield _ensemble(networks.network("densenet_bc_100_12", plan, 16), ENSEMBLE)
    for batch in (64, 1):
        yield _ensemble(networks.network("wrn_10_2_s2", plan, batch), None)


def _uncertainties(network, goal):
    def build():
        model = network.build("s2d")
        return {
            "softmax": _served(network, model, softmax=True),
            "uncertainties": _served(network, model),
        }

    return Case(
        f"served uncertainties / served softmax, {network.name}",
        build,
        lambda t: t["uncertainties"] / t["softmax"],
        "time of the S2D SavedModel / time of one that answers softmax alone",
        goal,
        facts=lambda t: {"images/s": network.batch / t["uncertainties"]},
        note="whole calls: the difference is near the noise of a busy machine; suite `predict` "
        "times it alone",
    )


def _ensemble(network, goal, num_members=NUM_MEMBERS):
    def build():
        from s2d_tf import models

        members = [network.build("individual") for _ in range(num_members)]
        return {
            "ensemble": _served(network, models.Ensemble(members)),
            "S2D": _served(network, network.build("s2d")),
        }

    return Case(
        f"served ensemble of {num_members} / served S2D, {network.name}",
        build,
        lambda t: t["ensemble"] / t["S2D"],
        "time of the ensemble's SavedModel / time of the S2D model's",
        goal,
        facts=lambda t: {"ms S2D": 1_000 * t["S2D"], "ms ensemble": 1_000 * t["ensemble"]},
    )


def _served(network, model, softmax=False):
    """A function that calls an exported model's `serving_default` on a batch and waits."""
    import tensorflow as tf

    from s2d_tf.export.signatures import Signatures

    def plain(images):
        return {"probabilities": tf.nn.softmax(model.member_logits(images)[0], axis=-1)}

    images, _ = network.images()
    signatures = Signatures(model, plain if softmax else None)
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(signatures, folder, signatures=signatures.functions())
        loaded = tf.saved_model.load(folder)
    call = networks.waiting(loaded.signatures["serving_default"], tf.constant(images))
    call.model = loaded  # A signature alone does not keep its variables alive.
    return call
