"""All that does not depend on the request, computed once: weights, draws, masks, folded constants.

A traced prediction is split into what follows from the images and what does not: the second part is
run here and its results become constants, which `simplifying` then folds into each other. So an
exported SWAG does not draw its weights again for each request, nor Monte Carlo dropout its masks;
every machine uses the same draws; and no random operation is left in the graph that other runtimes
may not have. (TensorFlow's own constant folding leaves random operations and large constants in the
graph.)
"""

import hashlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from s2d_tf.engines.simplifying import Graph, simplify

MAX_CONSTANT_BYTES = 1 << 29
"""Larger networks keep their arrays in variables: a graph with its constants is one message, which
cannot have more than 2 GB."""


def freeze(
    function: Callable, spec: tf.TensorSpec, portable: bool = False
) -> tuple[Callable, list[tf.Variable]]:
    """A function of one tensor whose graph holds only what depends on that tensor, simplified.

    Args:
        function: traceable; takes one tensor and returns a dict of tensors.
        spec: `tf.TensorSpec` of the tensor.
        portable: see `simplify`.

    Returns:
        A function that within a `tf.function` answers as `function` does, and its variables, copies
        of its own, if it needs some: who saves it has to keep them.
    """
    concrete = tf.function(function, autograph=False).get_concrete_function(spec)
    given, outputs = concrete.inputs[0], concrete.structured_outputs
    dependent = {given.op}
    for op in concrete.graph.get_operations():  # in the order in which they were made
        if any(tensor.op in dependent for tensor in op.inputs):
            dependent.add(op)
    missing = [key for key, tensor in outputs.items() if tensor.op not in dependent]
    if missing:
        raise ValueError(
            f"function: expected answers that depend on the input, received {missing}."
        )
    inputs = [tensor for op in dependent for tensor in op.inputs]
    boundary = sorted({tensor.name for tensor in inputs if tensor.op not in dependent})
    others = set(concrete.graph.get_operations()) - dependent
    values = _evaluate(concrete.graph, others, boundary)
    # Read within a loop or branch that depends on the input, so only the variable is known.
    handles = {
        name: tf.Variable(next(v for v in concrete.variables if v.handle is value), trainable=False)
        for name, value in values.items()
        if value.dtype == tf.resource
    }
    graph = Graph(
        _part(concrete.graph, dependent - {given.op}),
        {name: value.numpy() for name, value in values.items() if name not in handles},
        {t.name: t.shape for op in dependent for t in op.outputs},
        {key: tensor.name for key, tensor in outputs.items()},
    )
    simplify(graph, portable)
    kept = _keep(graph.values)

    def call(tensor):
        known = {name: _capture(v.handle) for name, v in handles.items() if name in graph.users}
        known |= {name: tf.convert_to_tensor(value) for name, value in kept.items()}
        found = tf.graph_util.import_graph_def(
            graph.definition(),
            input_map={given.name: tensor, **known},
            return_elements=list(graph.outputs.values()),
            name="",
        )
        return dict(zip(graph.outputs, found, strict=True))

    # TensorFlow forgets the bodies of loops and branches with the function that defined them.
    call.defined_by = concrete
    variables = {id(v): v for v in kept.values() if isinstance(v, tf.Variable)}
    return call, [*variables.values(), *handles.values()]


def _evaluate(graph, operations, names):
    """Values of tensors that follow from `operations` alone, `{name: eager tensor}`."""
    captures = {placeholder.name: value for value, placeholder in graph.captures}
    computed = [name for name in names if name not in captures]
    part = _part(graph, operations)

    @tf.function(autograph=False)
    def run():
        known = {name: _capture(value) for name, value in captures.items()}
        values = tf.graph_util.import_graph_def(
            part, input_map=known, return_elements=computed, name=""
        )
        return dict(zip(computed, values, strict=True))

    values = captures | (run.get_concrete_function()() if computed else {})
    return {name: values[name] for name in names}


def _keep(values):
    """Arrays as they are or, where they are too many for one message, as variables; equal ones
    once."""
    if sum(value.nbytes for value in values.values()) <= MAX_CONSTANT_BYTES:
        return values
    kept, held = {}, {}
    for name, value in values.items():
        if value.dtype.kind != "f" or value.ndim == 0:
            # Shapes, axes and indices have to be constants: shapes are inferred from them.
            kept[name] = value
            continue
        content = value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value)).digest()
        if content not in held:
            label = name.partition(":")[0].replace("/ReadVariableOp", "")
            held[content] = tf.Variable(value, trainable=False, name=label)
        kept[name] = held[content]
    return kept


def _part(graph, operations):
    """Some operations as a graph of their own, which takes other tensors from an `input_map`."""
    whole, names = graph.as_graph_def(), {op.name for op in operations}
    part = type(whole)(versions=whole.versions, library=whole.library)
    part.node.extend(node for node in whole.node if node.name in names)
    for node in part.node:
        inputs = [each for each in node.input if each[0] != "^" or each[1:] in names]
        del node.input[:]
        node.input.extend(inputs)
        # Colocation with nodes that may be gone; gradients of what is not trained any more.
        for attribute in {"_class", "_gradient_op_type"} & set(node.attr):
            del node.attr[attribute]
    return part


def _capture(value):
    return tf.compat.v1.get_default_graph().capture(value)
