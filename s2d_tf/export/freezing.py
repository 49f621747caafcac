"""Everything that does not depend on the request, computed once: weights, draws, dropout masks.

A traced prediction is split into operations that follow from the inputs and operations that do not.
The second part runs here, and its results become constants. So an exported SWAG model does not draw
its weights again for each request, nor Monte Carlo dropout its masks; every machine uses the same
draws; and no random operation is left that another runtime may not have. (TensorFlow's own
`convert_variables_to_constants_v2` leaves random operations in the graph.)
"""

import hashlib
from collections.abc import Callable

import tensorflow as tf

MAX_CONSTANT_BYTES = 1 << 29
"""Larger models keep their arrays in variables: a graph with its constants is one message, which
cannot exceed 2 GB."""

_OPAQUE = (tf.resource, tf.variant)


def freeze(function: Callable, *specs: tf.TensorSpec) -> tuple[Callable, list[tf.Variable]]:
    """A function of some tensors whose graph holds only what depends on them.

    Values that are not arrays, such as the lists of a recurrent layer, are computed in each call.
    A variable that is read inside a loop or branch stays a variable.

    Args:
        function: traceable; takes these tensors and returns a dict of tensors.
        *specs: `tf.TensorSpec` of each.

    Returns:
        A function that, called within a `tf.function`, returns what `function` does, and the
        variables that it needs: whoever saves it has to keep them. Lookup tables remain those of
        `function`.

    Example:

    >>> layer = keras.layers.Dense(3)
    >>> layer.build([None, 4])
    >>> spec = tf.TensorSpec([None, 4], tf.float32)
    >>> call, variables = freeze(lambda x: {"logits": layer(x)}, spec)
    >>> tf.function(call)(tf.zeros([2, 4]))["logits"].shape
    TensorShape([2, 3])
    """
    traced = tf.compat.v1.wrap_function(function, list(specs))
    graph = traced.graph
    given = [tensor.name for tensor in traced.inputs[: len(specs)]]
    captured = {placeholder.name: value for value, placeholder in graph.captures}
    body = _dependent(graph, {*given}, captured)
    needed = {each.name: each for op in body for each in op.inputs if each.op not in body}
    handles = {name: captured[name] for name in needed if needed[name].dtype == tf.resource}
    fixed = [name for name in needed if name not in handles and name not in given]
    values = traced.prune([], [needed[name] for name in fixed])()
    keys = [hashlib.sha256(tf.io.serialize_tensor(each).numpy()).digest() for each in values]
    arrays = _keep(dict(zip(keys, values, strict=True)))  # equal ones once
    definition = _part(graph, {op.name for op in body})

    def call(*tensors):
        current = tf.compat.v1.get_default_graph()
        constants = {key: tf.convert_to_tensor(value) for key, value in arrays.items()}
        known = dict(zip(given, tensors, strict=True))
        known |= {name: current.capture(handle) for name, handle in handles.items()}
        known |= {name: constants[key] for name, key in zip(fixed, keys, strict=True)}
        # TensorFlow drops the bodies of loops and branches with `traced`, which this keeps alive.
        outputs = traced.structured_outputs
        found = tf.graph_util.import_graph_def(
            definition,
            input_map={name: known[name] for name in needed},
            return_elements=[tensor.name for tensor in outputs.values()],
            name="",
        )
        return dict(zip(outputs, found, strict=True))

    variables = [each for each in arrays.values() if isinstance(each, tf.Variable)]
    used = {id(handle) for handle in handles.values()}
    variables += [each for each in graph.variables if id(each.handle) in used]
    return call, variables


def _dependent(graph, given, captured):
    """The operations that run for each request, in the order in which they were made."""
    body: dict = {}
    for op in graph.get_operations():
        names = {tensor.name for tensor in op.outputs}
        opaque = any(tensor.dtype in _OPAQUE for tensor in op.outputs) and not names & set(captured)
        if opaque or any(each.op in body or each.name in given for each in op.inputs):
            body[op] = None
    return body


def _keep(values):
    """Arrays as they are or, where they are too many for one message, as variables."""
    # Shapes, axes and indices have to be constants: other shapes are inferred from them.
    weights = {key for key, each in values.items() if each.dtype.is_floating and each.shape.rank}
    if sum(values[key].numpy().nbytes for key in weights) <= MAX_CONSTANT_BYTES:
        weights = set()
    return {
        key: tf.Variable(each, trainable=False) if key in weights else each.numpy()
        for key, each in values.items()
    }


def _part(graph, names):
    """Some operations as a graph of their own, which takes other tensors from an `input_map`."""
    whole = graph.as_graph_def()
    part = type(whole)(versions=whole.versions, library=whole.library)
    part.node.extend(node for node in whole.node if node.name in names)
    for node in part.node:
        inputs = [each for each in node.input if each[0] != "^" or each[1:] in names]
        del node.input[:]
        node.input.extend(inputs)
        # Colocation with nodes that may be gone; gradients of what is no longer trained.
        for attribute in {"_class", "_gradient_op_type"} & set(node.attr):
            del node.attr[attribute]
    return part
