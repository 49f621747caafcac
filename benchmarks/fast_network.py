"""The fast residual network: its training, against PyTorch too; minutes."""

import pathlib

from benchmarks import counting, networks, pytorch_densenet
from benchmarks.backbone_speed import ONEDNN_ON, SIDE
from benchmarks.child import together
from benchmarks.records import Case, Goal, counted, not_run

ARCHITECTURES = ("fast_resnet_half", "fast_resnet")
METHODS = {"individual": "plain", "s2d": "S2D"}
PASSES = 3  # A backward pass multiplies for the gradients by the inputs and by the weights.
MARKS = (0.70, 0.75)
AHEAD = Goal(1.0, at_most=False)
OURS = "benchmarks.fast_network:training"
PYTORCH = "benchmarks.pytorch_fast_resnet:training"


def cases(plan):
    for architecture in ARCHITECTURES[:1] if plan.quick else ARCHITECTURES:
        network = networks.network(architecture, plan)
        for precision in ("float32",) if plan.quick else _precisions():
            yield from _steps(network, precision)
            if not plan.quick:
                yield from _beside_pytorch(network, precision)
    yield from minutes(plan.runs)


def _precisions():
    from s2d_tf.trainers.training import strategies

    return ("float32", "bfloat16") if strategies.multiplies_bfloat16() else ("float32",)


def _ours(network, method, precision, optimizer="recipe"):
    arguments = {"network": vars(network), "method": method}
    return OURS, arguments | {"precision": precision, "optimizer": optimizer}, ONEDNN_ON


def _steps(network, precision):
    products = network.batch * counting.multiply_adds(network.build().backbone) / SIDE**3
    for method, title in METHODS.items():
        with together({"ours": _ours(network, method, precision)}) as children:

            def facts(t):
                return {
                    "images/s": network.batch / t["train"],
                    "GFLOP/s of the product": 2e-9 * SIDE**3 / t["product"],
                    "GB": children["ours"].peak_bytes() / 1e9,
                }

            yield Case(
                f"multiplications alone / training step, {title}, {precision}, {network.name}",
                lambda: {n: children["ours"].function(n) for n in ("train", "product")},
                lambda t: PASSES * products * t["product"] / t["train"],
                f"the multiplications at the rate of a {SIDE} x {SIDE} product / the whole step",
                facts=facts,
            )


def _beside_pytorch(network, precision):
    name = f"PyTorch / ours, training step, plain, {precision}, {network.name}"
    formula = "time of the faster of PyTorch eager and compiled / time of ours, both with SGD"
    if not pytorch_densenet.available():
        yield not_run(name, formula, "PyTorch is not installed")
        return
    recipe = network.recipe()
    shared = {"batch": network.batch, "arguments": recipe.arguments, "precision": precision}
    shared["num_classes"] = recipe.num_classes
    processes = {
        "ours": _ours(network, "individual", precision, "sgd"),
        "PyTorch, eager": (PYTORCH, shared | {"compiled": False}, {}),
        "PyTorch, compiled": (PYTORCH, shared | {"compiled": True}, {}),
    }
    with together(processes) as children:
        yield Case(
            name,
            lambda: {n: child.function("train") for n, child in children.items()},
            lambda t: min(t["PyTorch, eager"], t["PyTorch, compiled"]) / t["ours"],
            formula,
            AHEAD,
            facts=lambda t: {f"images/s {n}": network.batch / seconds for n, seconds in t.items()},
        )


def training(network, method, precision, optimizer):
    """What a child builds: a training step, and a matrix product in the same precision."""
    import keras
    import tensorflow as tf

    from s2d_tf.trainers.training import strategies

    network = networks.Network(**network)
    recipe = network.recipe(method)
    with strategies.scope(tf.distribute.get_strategy(), precision):
        model = network.build(method)
    if optimizer == "recipe":
        networks.compiled(model, recipe)
    else:
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True))
    images, labels = network.images()
    matrix = tf.ones([SIDE, SIDE], precision)
    product = tf.function(lambda: tf.reduce_sum(tf.matmul(matrix, matrix)))
    return {
        "train": networks.step_function(model, images, labels),
        "product": networks.waiting(product),
    }


def minutes(runs):
    """Rows with the training time of the quickest run whose test accuracy reaches each mark."""
    from s2d_tf import files

    found = []
    for run in map(pathlib.Path, runs):
        summary = files.read_json(run / "summary.json")
        metrics = files.read_json(run / "metrics.json")
        # Only the dataset that a run was trained for has one.
        accuracy = next(metrics[key] for key in metrics if key.endswith("/accuracy"))
        found.append((summary["training_seconds"] / 60, accuracy, summary["name"]))
    for mark in MARKS if found else ():
        name, formula = f"minutes to {mark:.0%} on test images", "training time of the whole run"
        reached = [each for each in found if each[1] >= mark]
        if not reached:
            best = max(accuracy for _, accuracy, _ in found)
            yield not_run(name, formula, f"no run reached it; the best has {best:.2%}")
            continue
        needed, accuracy, entry = min(reached)
        facts = {"accuracy": accuracy, "run": entry}
        yield counted(name, formula, needed, "min", kind="measured", facts=facts)
