"""All that does not depend on the request, computed once: weights, draws, masks, folded constants.

A traced prediction is split into what follows from the images and what does not: the second part is
run here and its results become variables. So an exported SWAG does not draw its weights anew for
each request, nor Monte Carlo dropout its masks; every machine uses the same draws; and no random
operation is left in the graph for other runtimes to stumble over.
"""

import hashlib

import tensorflow as tf


class Specialized(tf.Module):
    """A function of one tensor whose graph holds only what depends on that tensor.

    Args:
        function: traceable; takes one tensor and returns a dict of tensors.
        spec: `tf.TensorSpec` of the tensor.

    `specialized(tensor)`, within a `tf.function`, answers as `function` does. Its only state is
    variables of its own.
    """

    def __init__(self, function, spec):
        super().__init__()
        concrete = tf.function(function, autograph=False).get_concrete_function(spec)
        graph, graph_def = concrete.graph, concrete.graph.as_graph_def()
        outputs = {key: value.name for key, value in concrete.structured_outputs.items()}
        given = concrete.inputs[0].name
        dependent = _reachable(graph_def, _node(given))
        missing = [key for key, name in outputs.items() if _node(name) not in dependent]
        if missing:
            raise ValueError(f"Expected answers that depend on the input, received {missing}.")
        boundary = _boundary(graph, graph_def, dependent)
        values = _evaluate(graph, graph_def, dependent, boundary)
        inputs = _keep(dict(zip(boundary, values, strict=True)), concrete.variables)
        # A list, since each variable is tracked once, and a closure, since nothing else shall be.
        variables = {id(v): v for v in inputs.values() if isinstance(v, tf.Variable)}
        self.weights = list(variables.values())
        part = _part(graph_def, dependent, boundary)
        by_handle = {n for n, value in zip(boundary, values, strict=True) if _is_handle(value)}

        def call(tensor):
            known = {
                name: _capture(value.handle) if name in by_handle else tf.convert_to_tensor(value)
                for name, value in inputs.items()
            }
            found = tf.graph_util.import_graph_def(
                part,
                input_map={given: tensor, **known},
                return_elements=list(outputs.values()),
                name="",
            )
            return dict(zip(outputs, found, strict=True))

        # TensorFlow forgets the bodies of loops and branches with the function that defined them.
        call.defined_by = concrete
        self._call = call

    def __call__(self, tensor):
        return self._call(tensor)


def _keep(values, variables):
    """Arrays of floats as variables, equal ones once; the rest as NumPy constants."""
    kept, held = {}, {}
    for name, value in values.items():
        if _is_handle(value):
            # Read within a loop or branch that depends on the input, so only the variable is known.
            (variable,) = (v for v in variables if v.handle is value)
            kept[name] = tf.Variable(variable, trainable=False)
            continue
        # Shapes, axes and indices have to be constants: shapes are inferred from them.
        if not value.dtype.is_floating or value.shape.rank == 0:
            kept[name] = value.numpy()
            continue
        # Members that share weights read them one by one.
        content = (value.dtype, tuple(value.shape), _digest(value))
        if content not in held:
            label = _node(name).replace("/ReadVariableOp", "")
            held[content] = tf.Variable(value, trainable=False, name=label)
        kept[name] = held[content]
    return kept


def _is_handle(value):
    return value.dtype == tf.resource


def _capture(value):
    return tf.compat.v1.get_default_graph().capture(value)


def _digest(value):
    return hashlib.sha256(value.numpy().tobytes()).digest()


def _node(name):
    """The node of an input or tensor name: `node`, `node:1` or `^node`."""
    return name.lstrip("^").partition(":")[0]


def _reachable(graph_def, start):
    """Names of the nodes that depend on the node `start`, which is one of them."""
    found = {start}
    # A graph definition lists nodes in the order in which they were made, inputs first.
    for node in graph_def.node:
        if any(_node(name) in found for name in node.input if not name.startswith("^")):
            found.add(node.name)
    return found


def _boundary(graph, graph_def, dependent):
    """Names of the tensors that the dependent part takes from the other one, in order."""
    names = {}
    for node in graph_def.node:
        if node.name not in dependent:
            continue
        for tensor in graph.get_operation_by_name(node.name).inputs:
            if tensor.op.name not in dependent:
                names[tensor.name] = None
    return list(names)


def _evaluate(graph, graph_def, dependent, boundary):
    """Values of the boundary's tensors, as eager tensors."""
    captures = {placeholder.name: value for value, placeholder in graph.captures}
    independent = {node.name for node in graph_def.node} - dependent
    part = _part(graph_def, independent, captures)

    used = {name for node in part.node for name in node.input}

    @tf.function(autograph=False)
    def run():
        known = {n: _capture(value) for n, value in captures.items() if _node(n) in used}
        values = tf.graph_util.import_graph_def(
            part, input_map=known, return_elements=computed, name=""
        )
        return dict(zip(computed, values, strict=True))

    computed = [name for name in boundary if name not in captures]
    values = run.get_concrete_function()() if computed else {}
    return [captures[name] if name in captures else values[name] for name in boundary]


def _part(graph_def, names, given):
    """The nodes `names` as a graph of their own; `given` tensors become placeholders."""
    part = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    given_nodes = {_node(name) for name in given}
    for node in graph_def.node:
        if node.name in names and node.name not in given_nodes:
            copy = part.node.add()
            copy.CopyFrom(node)
            kept = [n for n in node.input if not n.startswith("^") or _node(n) in names]
            del copy.input[:]
            copy.input.extend(kept)
            # Colocation with nodes that may be gone; gradients of what is not trained any more.
            for attribute in {"_class", "_gradient_op_type"} & set(copy.attr):
                del copy.attr[attribute]
    return part
