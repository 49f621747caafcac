"""What `model.summary()` says before Keras' table of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from s2d_tf.models.predictor import Predictor


def overview(model: Predictor) -> str:
    """A few lines: what a predictor takes, what it predicts, how it is trained, where it is from.

    Args:
        model: a `models.Predictor`.
    """
    lines = {
        "classes": _classes(model),
        "takes": "; ".join(_taken(tensor) for tensor in model.contract.tensors),
        "predicts": _predicted(model),
        "answers": "total, data and knowledge uncertainty"
        if model.decomposes
        else "total uncertainty, which one softmax cannot decompose",
        "parameters": f"{model.num_parameters:,} trained",
        "learns by": _learning(model),
        "loaded from": str((model.metadata or {}).get("name", "")),
    }
    lines = {name: text for name, text in lines.items() if text}
    width = max(map(len, lines))
    head = f"{type(model).__name__} of s2d_tf"
    return "\n".join([head, *(f"  {name.ljust(width)}  {text}" for name, text in lines.items())])


def _classes(model):
    names = [str(name) for name in model.class_names or ()]
    shown = names if len(names) <= 6 else [*names[:3], "...", names[-1]]
    return f"{model.num_classes}" + (f" ({', '.join(shown)})" if names else "")


def _taken(tensor):
    shape = ", ".join("any" if size is None else str(size) for size in ("batch", *tensor.shape))
    bounds = ""
    if tensor.range is not None:
        bounds = " {} {:g} to {:g}".format("in" if tensor.bounded else "seen in", *tensor.range)
    return f"{tensor.name} [{shape}] {tensor.dtype}{bounds}"


def _predicted(model):
    one = "a Dirichlet over class probabilities" if model.kind == "dirichlet" else "a softmax"
    if model.num_members == 1:
        return f"{one}, in one forward pass"
    return f"{model.num_members} members, each {one}"


def _learning(model):
    """The numbers of S2D training; nothing of other models."""
    if not hasattr(model, "student_weight"):
        return ""
    noise = model.noise_stddev
    noise = "{:g} to {:g}".format(*noise) if isinstance(noise, (tuple, list)) else f"{noise:g}"
    return (
        f"S2D: {model.num_samples} noisy teacher passes (noise {noise}), temperature "
        f"{model.temperature}, student weight {model.student_weight:g}"
    )
