"""Fewer operations for the same answer: what a trained network no longer needs is folded away.

A network is traced as it trains: batch norms apart from convolutions, gradients' identities, the
same prefix once for each Monte Carlo mask. Here

- identities, and reshapes to the same shape, go;
- equal operations on equal inputs are computed once, and what no answer needs is dropped;
- batch norm by constant statistics is a scale and a shift of each channel: the scale goes into the
  kernel of the convolution or matrix product before it, the shift into its bias; both pass through
  sums, mean pooling and, a positive scale, through maximum pooling.

A scale and shift that no convolution precedes (before an activation, in networks that normalize
first) stay one batch-norm kernel, which runtimes fuse with the activation. Kernels are scaled in
float64, so that answers stay within rounding of the trained network's.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

_PASSED = ("Identity", "IdentityN", "StopGradient", "PreventGradient")
_POOLS = ("AvgPool", "MaxPool")
_PRODUCTS = ("Conv2D", "MatMul")
_MAX_OUTPUTS = 64


@dataclasses.dataclass
class Graph:
    """A graph of one input, which takes the rest from known arrays.

    Attributes:
        part: its `GraphDef`, in an order in which it can be run.
        values: arrays by the names of the tensors in whose place they stand.
        shapes: static shapes of all tensors that depend on the input.
        outputs: `{answer: tensor name}`.
    """

    part: tf.compat.v1.GraphDef
    values: dict[str, np.ndarray]
    shapes: dict[str, tf.TensorShape]
    outputs: dict[str, str]

    def __post_init__(self) -> None:
        self.nodes = {node.name: node for node in self.part.node}
        for node in self.nodes.values():
            full = [name if ":" in name or name[0] == "^" else f"{name}:0" for name in node.input]
            node.input[:] = full
        self.index()

    def index(self) -> None:
        """Notes who uses each tensor, for `replace` and `uses`."""
        self.users: dict[str, list] = {}
        for node in self.nodes.values():
            for name in node.input:
                self.users.setdefault(name, []).append(node)

    def definition(self) -> tf.compat.v1.GraphDef:
        """The nodes as one message, with the functions that they call."""
        found = type(self.part)(versions=self.part.versions, library=self.part.library)
        found.node.extend(self.nodes.values())
        for node in found.node:  # Of what to wait for, some is an array now.
            node.input[:] = [n for n in node.input if n[0] != "^" or n[1:] in self.nodes]
        return found

    def producer(self, tensor: str) -> Any:
        """The node of a tensor, `None` for the input and for arrays."""
        return self.nodes.get(tensor.partition(":")[0].lstrip("^"))

    def uses(self, tensor: str) -> int:
        """How often a tensor is used, as an answer too."""
        answers = sum(name == tensor for name in self.outputs.values())
        return len(self.users.get(tensor, ())) + answers

    def replace(self, old: str, new: str) -> None:
        """Lets all who use one tensor use another."""
        users = self.users.pop(old, [])
        for node in users:
            node.input[:] = [new if name == old else name for name in node.input]
        self.users.setdefault(new, []).extend(users)
        self.outputs = {key: new if name == old else name for key, name in self.outputs.items()}

    def remove(self, node: Any) -> None:
        """Takes out a node that nobody uses any more."""
        for name in node.input:
            self.users[name] = [user for user in self.users[name] if user.name != node.name]
        del self.nodes[node.name]

    def set_input(self, node: Any, i: int, label: str, value: np.ndarray) -> None:
        """Gives a node a new array."""
        name = f"{label}:0"
        while name in self.values or self.producer(name) is not None:
            name = f"{name[:-2]}_:0"
        self.values[name] = value
        node.input[i] = name
        self.users.setdefault(name, []).append(node)

    def add_bias(self, tensor: str, bias: np.ndarray) -> None:
        """Adds a number to each channel of a tensor, right after it is made."""
        name = f"{tensor.replace(':', '_')}/bias"
        self.replace(tensor, f"{name}:0")
        node = type(self.producer(tensor))(name=name, op="BiasAdd", input=[tensor, ""])
        node.attr["T"].type = tf.as_dtype(bias.dtype).as_datatype_enum
        self.set_input(node, 1, f"{name}/values", bias)
        self.nodes[name] = node
        self.users[tensor] = [node]
        self.shapes[f"{name}:0"] = self.shapes[tensor]


def simplify(graph: Graph, portable: bool = False) -> None:
    """Rewrites a graph in place; see the module.

    Args:
        graph: what to rewrite.
        portable: whether other runtimes than TensorFlow read it: then the views of pixels that
            only its kernels gain from go as well.
    """
    _pass_identities(graph)
    for node in list(graph.nodes.values()):
        if node.op == "FusedBatchNormV3":
            _unfold_pixels(graph, node, portable)
    _pass_identities(graph)
    _merge_equal(graph)
    _drop_unused(graph)
    for node in list(graph.nodes.values()):
        _fold_into_product(graph, node)
    _drop_unused(graph)


def _pass_identities(graph):
    passed: dict[str, str] = {}
    for node in list(graph.nodes.values()):  # in order, so that one look suffices
        node.input[:] = [passed.get(name, name) for name in node.input]
        data = [name for name in node.input if name[0] != "^"]
        same = node.op == "Reshape" and _same(graph, data[0], f"{node.name}:0")
        if same or (node.op in _PASSED and len(data) == len(node.input)):
            data = data[:1] if same else data
            passed |= {f"{node.name}:{i}": name for i, name in enumerate(data)}
            passed[f"^{node.name}"] = "^" + data[0].partition(":")[0]
            del graph.nodes[node.name]
    graph.outputs = {key: passed.get(name, name) for key, name in graph.outputs.items()}
    graph.index()


def _same(graph, one, other):
    """Whether all but the batch is known of two shapes, and equal."""
    shapes = [graph.shapes.get(name, tf.TensorShape(None)) for name in (one, other)]
    return (
        all(shape.rank and shape[1:].is_fully_defined() for shape in shapes)
        and shapes[0].as_list() == shapes[1].as_list()
    )


def _unfold_pixels(graph, norm, always):
    """Undoes `backbones.normalizing`'s view of neighboring pixels as one with more channels.

    It helps TensorFlow's kernel, so unless `always`, only where a convolution takes the norm in.
    """
    view = graph.producer(norm.input[0])
    if view is None or view.op != "Reshape" or graph.shapes[view.input[0]].rank != 4:
        return
    channels = graph.shapes[view.input[0]][-1]
    parts = [graph.values.get(name) for name in norm.input[1:]]
    known = channels is not None and not norm.attr["is_training"].b
    if not known or any(part is None or len(part) % channels for part in parts):
        return
    if any((part != np.resize(part[:channels], len(part))).any() for part in parts):
        return
    # Whoever comes behind it, or behind its activation, must be a view back.
    tensors = {f"{norm.name}:0"}
    users = list(graph.users.get(f"{norm.name}:0", ()))
    if [user.op for user in users] == ["Relu"]:
        tensors.add(f"{users[0].name}:0")
        users = graph.users.get(f"{users[0].name}:0", ())
    if tensors & set(graph.outputs.values()) or any(user.op != "Reshape" for user in users):
        return
    if not always:
        affine = _affine(graph, norm)
        shared = graph.uses(norm.input[0]) > 1
        if affine is None or shared or not _takes(graph, view.input[0], affine[1][:channels]):
            return
    norm.input[0] = view.input[0]
    for i, part in enumerate(parts, start=1):
        graph.set_input(norm, i, f"{norm.name}/channels_{i}", part[:channels])
    # The activation sees the pixels as they were, and the view back is no change then.
    graph.shapes |= dict.fromkeys(tensors, graph.shapes[view.input[0]])


def _fold_into_product(graph, node):
    """A constant scale or shift of each channel into the convolution before it."""
    affine = _affine(graph, node)
    if affine is None:
        return
    source, scale, shift = affine
    producer = graph.producer(source)
    if producer is None or (node.op == "BiasAdd" and producer.op in _PRODUCTS):
        return
    if not _takes(graph, source, scale):
        return
    if scale is not None:
        _scale(graph, source, scale)
    graph.remove(node)
    graph.replace(f"{node.name}:0", source)
    if shift is not None:
        _shift(graph, source, shift)


def _affine(graph, node):
    """`(tensor, scale, shift)` of a node that does no more to each channel; else `None`."""
    shape = graph.shapes.get(f"{node.name}:0")
    if shape is None or not shape.rank or shape.rank < 2 or shape[-1] is None:
        return None
    if _channels_first(node):
        return None
    if node.op == "FusedBatchNormV3":
        known = [graph.values.get(name) for name in node.input[1:]]
        if node.attr["is_training"].b or any(part is None for part in known):
            return None
        gamma, beta, mean, variance = (part.astype(np.float64) for part in known)
        scale = gamma / np.sqrt(variance + node.attr["epsilon"].f)
        return node.input[0], scale, beta - mean * scale
    if node.op not in ("Mul", "AddV2", "BiasAdd"):
        return None
    constant = [name for name in node.input if _vector(graph, name, shape[-1]) is not None]
    tensor = [name for name in node.input if name not in constant]
    # A constant must not be what gives the tensor its shape.
    if len(constant) != 1 or len(tensor) != 1 or graph.shapes.get(tensor[0]) is None:
        return None
    if graph.shapes[tensor[0]].as_list() != shape.as_list():
        return None
    value = _vector(graph, constant[0], shape[-1])
    return (tensor[0], value, None) if node.op == "Mul" else (tensor[0], None, value)


def _vector(graph, name, channels):
    """A known array as one float64 for each channel, `None` for any other."""
    value = graph.values.get(name)
    if value is None or value.dtype.kind != "f" or value.size not in (1, channels):
        return None
    if value.ndim and value.shape[-1] != value.size:
        return None
    return np.broadcast_to(value.reshape(-1).astype(np.float64), [channels])


def _takes(graph, tensor, scale):
    """Whether constants can scale and shift all that makes a tensor, and nobody else uses it."""
    node = graph.producer(tensor)
    if node is None or graph.uses(tensor) != 1 or _channels_first(node):
        return False
    if node.op in _PRODUCTS:
        kernel = graph.values.get(node.input[1])
        return kernel is not None and not (node.op == "MatMul" and node.attr["transpose_b"].b)
    if node.op in _POOLS:
        positive = node.op == "AvgPool" or scale is None or bool((scale > 0).all())
        return positive and _takes(graph, node.input[0], scale)
    if node.op == "BiasAdd":
        return node.input[1] in graph.values and _takes(graph, node.input[0], scale)
    if node.op == "AddV2":
        shapes = [graph.shapes.get(name) for name in node.input]
        return None not in shapes and all(
            shape.as_list() == shapes[0].as_list() and _takes(graph, name, scale)
            for name, shape in zip(node.input, shapes, strict=True)
        )
    return False


def _channels_first(node):
    return "data_format" in node.attr and node.attr["data_format"].s == b"NCHW"


def _scale(graph, tensor, scale):
    node = graph.producer(tensor)
    if node.op in _PRODUCTS or node.op == "BiasAdd":
        value = graph.values[node.input[1]]
        scaled = (value.astype(np.float64) * scale).astype(value.dtype)
        graph.set_input(node, 1, f"{node.name}/scaled", scaled)
    if node.op not in _PRODUCTS:
        for name in node.input[: 2 if node.op == "AddV2" else 1]:
            _scale(graph, name, scale)


def _shift(graph, tensor, shift):
    node = graph.producer(tensor)
    if node.op == "BiasAdd":
        value = graph.values[node.input[1]]
        moved = (value.astype(np.float64) + shift).astype(value.dtype)
        graph.set_input(node, 1, f"{node.name}/shifted", moved)
    elif node.op in _PRODUCTS:
        graph.add_bias(tensor, shift.astype(graph.values[node.input[1]].dtype))
    else:
        # Of a sum, the part that has a bias already.
        biased = [name for name in node.input if graph.producer(name).op == "BiasAdd"]
        _shift(graph, (biased or list(node.input))[0], shift)


def _merge_equal(graph):
    """Equal arrays, and equal operations on the same inputs, once."""
    first: dict[tuple, str] = {}
    same: dict[str, str] = {}
    for name, value in graph.values.items():
        value = np.asarray(value)  # one text is bytes
        content = repr(value.tolist()) if value.dtype.kind == "O" else value.tobytes()
        same[name] = first.setdefault((value.dtype.str, value.shape, content), name)
    for node in list(graph.nodes.values()):
        node.input[:] = [same.get(name, name) for name in node.input]
        definition = op_def_registry.get(node.op)
        if definition is None or definition.is_stateful:
            continue
        key = type(node)()
        key.CopyFrom(node)
        key.name = ""
        kept = first.setdefault(key.SerializeToString(deterministic=True), node.name)
        if kept != node.name:
            same |= {f"{node.name}:{i}": f"{kept}:{i}" for i in range(_MAX_OUTPUTS)}
            del graph.nodes[node.name]
    graph.outputs = {key: same.get(name, name) for key, name in graph.outputs.items()}


def _drop_unused(graph):
    needed, pending = set(), list(graph.outputs.values())
    while pending:
        name = pending.pop()
        node = graph.producer(name)
        if name not in needed:
            needed.add(name)
            pending += node.input if node is not None else []
    names = {name.partition(":")[0].lstrip("^") for name in needed}
    graph.nodes = {name: node for name, node in graph.nodes.items() if name in names}
    graph.values = {name: value for name, value in graph.values.items() if name in needed}
    graph.index()
