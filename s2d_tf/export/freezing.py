"""All that does not depend on the request, computed once: weights, draws, masks, folded constants.

A traced prediction is split into what follows from the images and what does not: the second part is
run here and its results become constants. So an
exported SWAG does not draw its weights again for each request, nor Monte Carlo dropout its masks;
every machine uses the same draws; and no random operation is left in the graph that other runtimes
may not have. (TensorFlow's own constant folding leaves random operations and large constants in the
graph.)
"""

import hashlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

MAX_CONSTANT_BYTES = 1 << 29
"""Larger networks keep their arrays in variables: a graph with its constants is one message, which
cannot have more than 2 GB."""


def freeze(function: Callable, *specs: tf.TensorSpec) -> tuple[Callable, list[tf.Variable]]:
    """A function of some tensors whose graph holds only what depends on them.

    Args:
        function: traceable; takes these tensors and returns a dict of tensors.
        *specs: `tf.TensorSpec` of each.

    Returns:
        A function that within a `tf.function` answers as `function` does, and its variables, copies
        of its own, if it needs some: who saves it has to keep them. Lookup tables remain those of
        `function`.

    Example:

    >>> layer = keras.layers.Dense(3)
    >>> layer.build([None, 4])
    >>> spec = tf.TensorSpec([None, 4], tf.float32)
    >>> call, variables = freeze(lambda x: {"logits": layer(x)}, spec)
    >>> tf.function(call)(tf.zeros([2, 4]))["logits"].shape
    TensorShape([2, 3])
    """
    concrete = tf.function(function, autograph=False).get_concrete_function(*specs)
    given, outputs = concrete.inputs[: len(specs)], concrete.structured_outputs
    dependent = {tensor.op for tensor in given}
    for op in concrete.graph.get_operations():  # in the order in which they were made
        if any(tensor.op in dependent for tensor in op.inputs):
            dependent.add(op)
    missing = [key for key, tensor in outputs.items() if tensor.op not in dependent]
    if missing:
        raise ValueError(
            f"function: expected answers that depend on the input, received {missing}. Compute "
            "them from the input, or leave them out."
        )
    inputs = [tensor for op in dependent for tensor in op.inputs]
    boundary = sorted({tensor.name for tensor in inputs if tensor.op not in dependent})
    others = set(concrete.graph.get_operations()) - dependent
    values = _evaluate(concrete.graph, others, boundary)
    handles = {
        name: _own_handle(value, concrete.variables)
        for name, value in values.items()
        if value.dtype == tf.resource
    }
    definition = _part(concrete.graph, dependent - {tensor.op for tensor in given})
    used = {name if ":" in name else f"{name}:0" for node in definition.node for name in node.input}
    kept = _keep({name: value.numpy() for name, value in values.items() if name not in handles})

    def call(*tensors):
        known = {name: _capture(getattr(v, "handle", v)) for name, v in handles.items()}
        known |= {name: tf.convert_to_tensor(value) for name, value in kept.items()}
        known |= {each.name: tensor for each, tensor in zip(given, tensors, strict=True)}
        found = tf.graph_util.import_graph_def(
            definition,
            input_map={name: known[name] for name in known if name in used},
            return_elements=[tensor.name for tensor in outputs.values()],
            name="",
        )
        return dict(zip(outputs, found, strict=True))

    # TensorFlow forgets the bodies of loops and branches with the function that defined them.
    call.defined_by = concrete  # type: ignore[attr-defined]
    values = [*kept.values(), *handles.values()]
    variables = {id(value): value for value in values if isinstance(value, tf.Variable)}
    return call, list(variables.values())


def _own_handle(value, variables):
    """A copy of a variable that is read within a loop or branch which depends on the input, so that
    only its handle is known; a lookup table as it is."""
    held_by = [variable for variable in variables if variable.handle is value]
    return tf.Variable(held_by[0], trainable=False) if held_by else value


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
    if sum(np.asarray(value).nbytes for value in values.values()) <= MAX_CONSTANT_BYTES:
        return values
    kept, held = {}, {}
    for name, value in values.items():
        if np.asarray(value).dtype.kind != "f" or value.ndim == 0:
            # Shapes, axes and indices have to be constants: shapes are inferred from them.
            kept[name] = value
            continue
        content = (
            value.dtype.str,
            value.shape,
            hashlib.sha256(np.ascontiguousarray(value).data).digest(),
        )
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
