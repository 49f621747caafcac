"""Predictions with all uncertainties: ours against other runtimes on the same exported network."""

import contextlib
import importlib.util
import pathlib
import tempfile
import time

from benchmarks import machine, networks, pytorch_prediction
from benchmarks.child import Child, ChildError
from benchmarks.records import Case, Goal, not_run

BATCHES = (1, 16, 64, 256)
GOAL = Goal(1.1)
CHOSEN = "chosen.txt"
FORMULA = "time of `predict_uncertainty` / time of the fastest other way"
FIXED = "ours, weights fixed"
OURS = ("ours", FIXED, "ours, served")
"""`predict_uncertainty`, the same after a promise that no weight changes, and what `s2d serve`
calls."""
RUNTIMES = {"ONNX Runtime": "onnxruntime", "OpenVINO": "openvino", "LiteRT": "ai_edge_litert"}


def cases(architecture, plan, num_members=1):
    """One case for each batch size; all processes of a network are open at once."""
    network = networks.network(architecture, plan, 1)
    title = network.architecture + (f", ensemble of {num_members}" if num_members > 1 else "")
    name = f"ours / fastest, {title}"
    if importlib.util.find_spec("tf2onnx") is None:
        yield not_run(name, FORMULA, "tf2onnx is not installed")
        return
    try:
        yield from _cases(network, plan, num_members, name)
    except ChildError as error:  # Most often it is the memory of many processes.
        yield not_run(name, FORMULA, str(error))


def _cases(network, plan, num_members, title):
    batches = (2,) if plan.quick else BATCHES
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        shared = {"network": vars(network), "num_members": num_members, "folder": folder}
        Child("benchmarks.runtime_speed:write", shared | {"batches": list(batches)}, {}).close()
        children, facts = {}, {}
        for name, arguments in _processes(network, shared, list(batches)).items():
            began = time.perf_counter()
            children[name] = Child(*arguments, {})
            stack.callback(children[name].close)
            children[name].function(str(batches[0]))()
            facts[f"start-up s {name}"] = round(time.perf_counter() - began, 2)
        for batch in batches:
            # Not before: at large sizes this takes memory, which slows down the small ones.
            for name in ("ours", "ours, served"):
                children[name].function(f"choose {batch}")()
            chosen = pathlib.Path(folder, CHOSEN).read_text(encoding="utf-8")

            def measured(t, chosen=chosen):
                found = {f"ms {name}": 1e3 * seconds for name, seconds in t.items()}
                memory = {f"GB {n}": child.peak_bytes() / 1e9 for n, child in children.items()}
                ratios = {f"{n} / fastest": t[n] / _fastest(t) for n in OURS[1:]}
                return {"ours used": chosen, **ratios, **found, **memory, **facts}

            yield Case(
                f"{title}, batch {batch}",
                lambda batch=batch: _alternatives(children, batch),
                lambda t: t["ours"] / _fastest(t),
                FORMULA,
                None if plan.quick else GOAL,
                facts=measured,
            )


def _alternatives(children, batch):
    found = {name: child.function(str(batch)) for name, child in children.items()}
    return found | {FIXED: children["ours"].function(f"fixed {batch}")}


def _fastest(t):
    return min(seconds for name, seconds in t.items() if name not in OURS)


def _processes(network, shared, batches):
    """`{name: (target, arguments)}` of what is installed."""
    shared = shared | {"batches": batches}
    found = {
        "ours": ("benchmarks.runtime_speed:ours", shared),
        "ours, served": ("benchmarks.runtime_speed:served", shared | {"framework": "tensorflow"}),
        "SavedModel": (
            "benchmarks.runtime_speed:saved_model",
            shared | {"framework": "tensorflow"},
        ),
        "SavedModel, XLA": (
            "benchmarks.runtime_speed:saved_model",
            shared | {"framework": "tensorflow", "kind": "saved_model_xla"},
        ),
    }
    for name, module in RUNTIMES.items():
        if importlib.util.find_spec(module) is not None:
            target = f"benchmarks.runtime_speed:{module}"
            found[name] = target, shared | {"framework": module}
    if pytorch_prediction.available() and not network.stand_in and shared["num_members"] == 1:
        recipe = network.recipe()
        if recipe.backbone in pytorch_prediction.NETWORKS:
            arguments = {"backbone": recipe.backbone, "arguments": recipe.arguments}
            target = "benchmarks.pytorch_prediction:functions"
            found["PyTorch, compiled"] = target, arguments | {"batches": batches}
    return found


def _model(network, num_members):
    from s2d_tf import models

    network = networks.Network(**network)
    members = [network.build("s2d") for _ in range(num_members)]
    for i, member in enumerate(members):
        member.adapt(_images(member, 64))
        _move(member, i)
    return models.Ensemble(members) if num_members > 1 else members[0]


def _move(model, seed):
    """Moves statistics, scales and shifts away from their start, for each seed to another place.

    TensorFlow drops biases of zeros, and then does not fuse convolutions with their activation: a
    fresh network is not computed as a trained one is. And of members that are all the same,
    simplification leaves one.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    for weight in model.weights:
        part = weight.path.rpartition("/")[2]
        if part in ("gamma", "moving_variance"):
            weight.assign(random.uniform(0.8, 1.2, weight.shape))
        elif part in ("beta", "moving_mean", "bias"):
            weight.assign(random.uniform(-0.1, 0.1, weight.shape))


def _images(model, batch):
    return networks.random_images(batch, tuple(model.image_shape))[0]


def write(network, num_members, folder, batches):
    """Exports a network in all formats, for the other processes; leaves the images beside."""
    import numpy as np

    from s2d_tf import export

    model = _model(network, num_members)
    for save, name in (
        (export.save, "saved_model"),
        (export.save_onnx, "onnx"),
        (export.save_litert, "litert"),
    ):
        save(model, pathlib.Path(folder, name))
    export.save(model, pathlib.Path(folder, "saved_model_xla"), xla_batch_sizes=batches)
    np.save(pathlib.Path(folder, "images.npy"), _images(model, max(BATCHES)))
    return {}


def _calls(folder, batches, call):
    """A function for each batch size that calls `call` with so many images."""
    import numpy as np

    images = np.load(pathlib.Path(folder, "images.npy"))
    return {str(batch): (lambda batch=batch: call(images[:batch])) for batch in batches}


def ours(network, num_members, folder, batches):
    """`predict_uncertainty`, and the measurement after which it knows what is fastest."""
    import numpy as np

    from s2d_tf import engines

    model = _model(network, num_members)

    def predict(images, watch):
        engines.use("auto", watch)
        return model.predict_uncertainty(images, batch_size=len(images))

    calls = _calls(folder, batches, lambda x: predict(x, watch=True))
    fixed = _calls(folder, batches, lambda x: predict(x, watch=False))
    calls |= {f"fixed {batch}": fixed[batch] for batch in fixed}

    def keep(name):
        pathlib.Path(folder, CHOSEN).write_text(name, encoding="utf-8")

    return calls | _choices(model.engine(), folder, batches, np.float32, keep)


def served(folder, batches, **_):
    """The call of `s2d serve` for a request whose pixels are read: no HTTP, no JSON."""
    import numpy as np

    from s2d_tf.serving import servable

    model = servable.Servable(pathlib.Path(folder, "saved_model", "1"))
    engine = model.engines["serving_default"]
    calls = _calls(folder, batches, lambda x: model.run("serving_default", {"images": x}))
    return calls | _choices(engine, folder, batches, np.uint8)


def _choices(engine, folder, batches, dtype, keep=lambda name: None):
    """For each batch size a function that measures all engines and hands on the fastest's name."""
    import numpy as np

    images = np.load(pathlib.Path(folder, "images.npy")).astype(dtype)

    def choose(batch):
        seconds = engine.measure([images[:batch]])
        keep(min(seconds, key=seconds.get))

    return {f"choose {batch}": (lambda batch=batch: choose(batch)) for batch in batches}


def saved_model(folder, batches, kind="saved_model", **_):
    """The SavedModel in a process with TensorFlow alone."""
    return _calls(folder, batches, saved_model_call(folder, kind))


def onnxruntime(folder, batches, **_):
    return _calls(folder, batches, onnxruntime_call(folder))


def openvino(folder, batches, **_):
    return _calls(folder, batches, openvino_call(folder))


def ai_edge_litert(folder, batches, **_):
    return _calls(folder, batches, ai_edge_litert_call(folder))


def saved_model_call(folder, kind="saved_model"):
    """A function from images to a dict of answers, as are the others."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(pathlib.Path(folder, kind, "1")))
    signature = loaded.signatures["serving_default"]

    def call(images, _keep=loaded):
        return {k: v.numpy() for k, v in signature(images=tf.constant(images)).items()}

    return call


def onnxruntime_call(folder):
    import onnxruntime

    path = str(pathlib.Path(folder, "onnx", "1", "model.onnx"))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda images: dict(zip(names, session.run(None, {"images": images}), strict=True))


def openvino_call(folder, precision="f32"):
    import openvino

    path = str(pathlib.Path(folder, "onnx", "1", "model.onnx"))
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": precision}
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    names = [output.any_name for output in compiled.outputs]

    def call(images):
        found = compiled({"images": images})
        return {name: found[name] for name in names}

    return call


def ai_edge_litert_call(folder):
    from ai_edge_litert import interpreter

    path = str(pathlib.Path(folder, "litert", "1", "model.tflite"))
    opened = interpreter.Interpreter(path, num_threads=machine.cores())
    runner = opened.get_signature_runner("serving_default")
    return lambda images: runner(images=images)
