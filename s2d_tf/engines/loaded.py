"""A signature of a loaded SavedModel as a function that every runtime can take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import convert_to_constants


def inlined(signature: Any) -> tuple[Callable, list[tf.TensorSpec]]:
    """A signature with one input as one graph without calls, and the input's spec in a list.

    Checks for numbers, which other runtimes do not have, are left out: whoever uses it has to look
    at the answers.
    """
    ((name, spec),) = signature.structured_input_signature[1].items()
    frozen = convert_to_constants.convert_variables_to_constants_v2(signature)
    graph = frozen.graph.as_graph_def()
    for node in graph.node:
        if node.op in ("CheckNumerics", "EnsureShape"):
            node.op = "Identity"
            for attribute in set(node.attr) - {"T"}:
                del node.attr[attribute]
    (given,) = (tensor.name for tensor in frozen.inputs)
    outputs = dict(zip(sorted(signature.structured_outputs), frozen.outputs, strict=True))

    def function(tensor):
        found = tf.graph_util.import_graph_def(
            graph,
            input_map={given: tensor},
            return_elements=[output.name for output in outputs.values()],
            name="",
        )
        return dict(zip(outputs, found, strict=True))

    return function, [tf.TensorSpec(spec.shape, spec.dtype, name=name)]
