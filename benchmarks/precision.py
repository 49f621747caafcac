"""What reduced precision does to the answers of published models, and to their speed and size.

    python -m benchmarks.precision --data_dir=DATA --out=results/precision.json

Exports each entry in float32 and int8, runs every variant in a process of its own on test images of
CIFAR-100 and of SVHN, and keeps accuracy, calibration, each uncertainty's AUROC, how far its order
moved, milliseconds and bytes.
"""

import contextlib
import importlib.util
import pathlib
import statistics
import tempfile

import numpy as np
from absl import app, flags

from benchmarks import machine, measuring, runtime_speed
from benchmarks.child import Child
from s2d_tf import files

ENTRIES = ("wrn_10_2_s2.s2d.cifar100", "fast_resnet_half.s2d.cifar100_plus")
CALIBRATION_IMAGES = 512
BATCHES = (1, 64)
CHUNK = 250

# Name: what is imported, the function of `runtime_speed`, the files' precision, its arguments.
VARIANTS = {
    "TensorFlow": ("tensorflow", "saved_model_call", "float32", {}),
    "TensorFlow, bfloat16": ("tensorflow", "bfloat16", "float32", {}),
    "ONNX Runtime": ("onnxruntime", "onnxruntime_call", "float32", {}),
    "ONNX Runtime, int8": ("onnxruntime", "onnxruntime_call", "int8", {}),
    "OpenVINO": ("openvino", "openvino_call", "float32", {}),
    "OpenVINO, bfloat16": ("openvino", "openvino_call", "float32", {"precision": "bf16"}),
    "OpenVINO, int8": ("openvino", "openvino_call", "int8", {}),
    "LiteRT": ("ai_edge_litert", "ai_edge_litert_call", "float32", {}),
    "LiteRT, int8": ("ai_edge_litert", "ai_edge_litert_call", "int8", {}),
}
REFERENCE = "TensorFlow"

# What an uncertainty is multiplied with, so that it is larger for unknown images.
SIGNS = {"confidence": -1.0, "total": 1.0, "data": 1.0, "knowledge": 1.0}

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "TFDS folder.")
flags.DEFINE_string("out", None, "JSON file for the results.", required=True)
flags.DEFINE_integer("images", 2000, "Test images of each dataset.", lower_bound=100)
flags.DEFINE_list("entries", list(ENTRIES), "Published models.")
flags.DEFINE_float("seconds", 20.0, "Begin no further round of timing after this time.")


def main(argv):
    if argv[1:]:
        raise app.UsageError(f"expected flags only, received {argv[1:]}")
    found = {"machine": machine.facts(), "images": FLAGS.images, "entries": {}}
    for name in FLAGS.entries:
        found["entries"][name] = study(name)
        files.write_json(pathlib.Path(FLAGS.out), found)
        print(f"\n{name}\n\n{table(found['entries'][name])}", flush=True)
    print(f"\nwrote {FLAGS.out}")


def table(variants):
    """Results as Markdown: percent where people say percent."""
    columns = {
        "accuracy": lambda v: f"{100 * v['accuracy']:.1f}",
        "ECE": lambda v: f"{100 * v['ece']:.1f}",
        "same label": lambda v: f"{100 * v['same label']:.1f}",
        "AUROC by confidence, total, data, knowledge": lambda v: ", ".join(
            f"{100 * v[f'auroc/{name}']:.1f}" for name in SIGNS
        ),
        "order of knowledge": lambda v: f"{v['rank correlation/knowledge']:.3f}",
        "ms at batch 1, 64": lambda v: ", ".join(f"{v[f'ms at batch {b}']:.2g}" for b in BATCHES),
        "MB": lambda v: f"{1e-6 * v['bytes']:.1f}",
    }
    lines = [["", *columns], ["---"] * (1 + len(columns))]
    lines += [[name, *(show(v) for show in columns.values())] for name, v in variants.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def study(name):
    """`{variant: {metric: number}}` of an entry."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        shared = {"name": name, "folder": folder}
        arguments = shared | {"data_dir": FLAGS.data_dir, "num_images": FLAGS.images}
        Child("benchmarks.precision:write", arguments, {}).close()
        children = {}
        for variant, (framework, call, precision, options) in VARIANTS.items():
            if importlib.util.find_spec(framework) is None:
                continue
            arguments = {"framework": framework, "call": call, "options": options}
            arguments |= {"folder": str(pathlib.Path(folder, precision)), "out": variant}
            children[variant] = Child("benchmarks.precision:functions", arguments, {})
            stack.callback(children[variant].close)
            children[variant].function("answers")()
        data = np.load(pathlib.Path(folder, "images.npz"))
        answers = {
            variant: dict(np.load(pathlib.Path(folder, VARIANTS[variant][2], f"{variant}.npz")))
            for variant in children
        }
        found = {
            variant: scores(answers[variant], answers[REFERENCE], data["labels"])
            for variant in children
        }
        for batch in BATCHES:
            calls = {variant: child.function(str(batch)) for variant, child in children.items()}
            timings = measuring.measure(calls, 9, FLAGS.seconds)
            for variant, seconds in timings.wall.items():
                found[variant][f"ms at batch {batch}"] = 1e3 * statistics.median(seconds)
        for variant, (_, call, precision, _) in VARIANTS.items():
            if variant in found:
                size = _bytes(pathlib.Path(folder, precision), call)
                found[variant] = {key: float(f"{v:.6g}") for key, v in found[variant].items()}
                found[variant]["bytes"] = size
        return found


def write(name, folder, data_dir, num_images):
    """Exports an entry in both precisions; leaves the images beside."""
    from s2d_tf import data, export, zoo

    model = zoo.load(name)
    random = np.random.default_rng(0)
    train, _ = data.load_arrays("cifar100", "train", data_dir)
    calibration = train[np.sort(random.permutation(len(train))[:CALIBRATION_IMAGES])]
    export.save(model, pathlib.Path(folder, "float32", "saved_model"))
    for precision in ("float32", "int8"):
        options = {"calibration": calibration} if precision == "int8" else {}
        where = pathlib.Path(folder, precision)
        export.save_onnx(model, where / "onnx", precision=precision, **options)
        export.save_litert(model, where / "litert", precision=precision)
    test, labels = data.load_arrays("cifar100", "test", data_dir)
    other, _ = data.load_arrays("svhn_cropped", "test", data_dir)
    rows = random.permutation(len(test))[:num_images]
    images = np.concatenate([test[rows], other[random.permutation(len(other))[:num_images]]])
    np.savez(pathlib.Path(folder, "images.npz"), images=images, labels=labels[rows])
    return {}


def functions(folder, call, options, out, **_):
    """A function for each batch size, and one that keeps the answers for all images."""
    folder = pathlib.Path(folder)
    compute = bfloat16(folder) if call == "bfloat16" else None
    compute = compute or getattr(runtime_speed, call)(folder, **options)
    images = np.load(folder.parent / "images.npz")["images"]

    def answers():
        parts = [compute(images[i : i + CHUNK]) for i in range(0, len(images), CHUNK)]
        np.savez(
            folder / f"{out}.npz", **{n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        )

    sizes = {str(batch): (lambda batch=batch: compute(images[:batch])) for batch in BATCHES}
    return sizes | {"answers": answers}


def bfloat16(folder):
    """The SavedModel with TensorFlow's own conversion to bfloat16, which needs oneDNN."""
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"auto_mixed_precision_onednn_bfloat16": True})
    return runtime_speed.saved_model_call(folder)


def scores(answers, reference, labels):
    """Metrics of the answers for known images, which come first, and unknown ones."""
    from s2d_tf import metrics

    known = len(labels)
    probs = answers["probabilities"].astype(np.float64)
    probs /= probs.sum(axis=-1, keepdims=True)
    found = {
        "accuracy": metrics.accuracy(probs[:known], labels),
        "nll": metrics.negative_log_likelihood(probs[:known], labels),
        "ece": metrics.expected_calibration_error(probs[:known], labels),
        "same label": np.mean(answers["label"] == reference["label"]),
    }
    for name, sign in SIGNS.items():
        key = name if name in answers else f"{name}_uncertainty"
        values = sign * answers[key].astype(np.float64)
        found[f"auroc/{name}"] = metrics.auroc(values[:known], values[known:])
        if name != "confidence":
            moved = metrics.rank_correlation(values, reference[key].astype(np.float64))
            found[f"rank correlation/{name}"] = moved
    return {key: float(value) for key, value in found.items()}


def _bytes(folder, call):
    kind = {"onnxruntime_call": "onnx", "openvino_call": "onnx", "ai_edge_litert_call": "litert"}
    version = folder / kind.get(call, "saved_model") / "1"
    paths = [path for path in version.rglob("*") if path.suffix in (".pb", ".onnx", ".tflite")]
    return sum(path.stat().st_size for path in paths)


if __name__ == "__main__":
    app.run(main)
