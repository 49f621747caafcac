"""Uncertainties against a plain softmax, and `predict_uncertainty` against the exported model."""

import pathlib
import tempfile

from benchmarks import networks
from benchmarks.child import Child, ChildError, together
from benchmarks.records import Case, Goal, counted, not_run

GOAL = Goal(1.01)
NETWORKS = (
    ("densenet_bc_100_12", GOAL),
    ("wrn_28_10", GOAL),
    ("wrn_10_2_s2", None),
    ("densenet_bc_22_12_s2", None),
)
COMPARED = ("densenet_bc_100_12", "wrn_28_10")
TIME_GOALS = {1: None, 16: Goal(1.1), 64: Goal(1.1), 256: Goal(1.1)}
MEMORY_GOAL = Goal(1.2)
TITLE = "predict_uncertainty / SavedModel"
FORMULA = "time of `predict_uncertainty` / time of the SavedModel"


def cases(plan):
    chosen = NETWORKS[-1:] if plan.quick else NETWORKS
    for architecture, goal in chosen:
        yield _extra_alone(networks.network(architecture, plan), goal)
    for architecture, _ in chosen[-2:]:
        yield _whole(networks.network(architecture, plan))
    for architecture in COMPARED[:1] if plan.quick else COMPARED:
        network = networks.network(architecture, plan, 1)
        try:
            yield from _beside_saved_model(network, plan)
        except ChildError as error:  # Most often it is the memory of large networks.
            yield not_run(f"{TITLE}, {architecture}", FORMULA, str(error))


def _beside_saved_model(network, plan):
    """Times at all batch sizes in turns, then peak memory; each in a process of its own."""
    goals = {2: None} if plan.quick else TIME_GOALS
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(plan.exported or temporary, network.architecture)
        written = {"network": vars(network), "folder": str(folder)}
        if not plan.exported:
            Child("benchmarks.prediction:write", written, {}).close()
        shared = {"shape": list(network.image_shape), "batches": list(goals)}
        mine = shared | {"network": vars(network)}
        theirs = shared | {"folder": str(folder), "framework": "tensorflow"}
        processes = {
            "ours": ("benchmarks.prediction:ours", mine, {}),
            "SavedModel": ("benchmarks.prediction:saved_model", theirs, {}),
        }
        with together(processes) as children:
            for batch, goal in goals.items():
                yield Case(
                    f"{TITLE}, {network.architecture}, batch {batch}",
                    lambda batch=batch: {n: c.function(str(batch)) for n, c in children.items()},
                    lambda t: t["ours"] / t["SavedModel"],
                    FORMULA,
                    goal,
                    facts=lambda t: {f"ms {name}": 1e3 * seconds for name, seconds in t.items()},
                )
            peaks = {name: child.peak_bytes() for name, child in children.items()}
        yield counted(
            f"peak memory, {TITLE}, {network.architecture}, batch {batch}",
            "peak of the process, beyond its framework",
            peaks["ours"] / max(peaks["SavedModel"], 1),
            unit="x",
            goal=None if plan.quick else MEMORY_GOAL,
            kind="measured",
            facts={f"GB {name}": peak / 1e9 for name, peak in peaks.items()},
        )


def write(network, folder):
    """Exports the network for the other process."""
    from s2d_tf import export

    export.save(_model(network), folder)
    return {}


def ours(network, shape, batches):
    """`predict_uncertainty` for each batch size."""
    model = _model(network)
    return _calls(shape, batches, lambda x: model.predict_uncertainty(x, batch_size=len(x)))


def saved_model(folder, shape, batches, framework):
    """The newest SavedModel in a folder, called without this library."""
    import tensorflow as tf

    newest = max(pathlib.Path(folder).glob("[0-9]*"), key=lambda path: int(path.name))
    loaded = tf.saved_model.load(str(newest))
    signature = loaded.signatures["serving_default"]

    def call(images, _keep=loaded):
        return {k: v.numpy() for k, v in signature(images=tf.constant(images)).items()}

    return _calls(shape, batches, call)


def _calls(shape, batches, call):
    images, _ = networks.random_images(max(batches), shape)
    return {str(batch): (lambda batch=batch: call(images[:batch])) for batch in batches}


def _model(network):
    """The network with statistics, scales and shifts moved away from their start.

    TensorFlow drops biases of zeros, and then does not fuse convolutions with their activation: a
    fresh network is not computed as a trained one is.
    """
    import numpy as np

    model, random = networks.Network(**network).build("s2d"), np.random.default_rng(0)
    for weight in model.weights:
        part = weight.path.rpartition("/")[2]
        if part in ("gamma", "moving_variance"):
            weight.assign(random.uniform(0.8, 1.2, weight.shape))
        elif part in ("beta", "moving_mean", "bias"):
            weight.assign(random.uniform(-0.1, 0.1, weight.shape))
    return model


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
