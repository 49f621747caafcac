"""Which operations an exported model may hold: a closed list, checked before anything is loaded.

A SavedModel is a program. Lists of forbidden operations are bypassed; this is a list of permitted
ones, over the graph and all functions, apart for what answers requests, what runs on loading
(restoring variables) and what never runs in a server (saving them).
"""

from __future__ import annotations

import importlib
import pathlib
from typing import Any

from s2d_tf._types import PathLike
from s2d_tf.errors import UserError


def _names(text):
    return frozenset(text.split())


SERVING = _names(
    """
    Abs AddV2 All Any ArgMax Assert AvgPool BatchMatMulV2 BatchToSpaceND BiasAdd BroadcastTo Cast
    CheckNumerics ConcatV2 Const Conv2D Cumsum DecodeJpeg DecodePng DecodeRaw DenseBincount
    DepthwiseConv2dNative Einsum Elu EnsureShape Equal Erf Erfc Exp ExpandDims ExtractJpegShape Fill
    FusedBatchNormV3 GatherV2 Greater GreaterEqual HashTableV2 Identity IdentityN If LeakyRelu Less
    LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr LookupTableFindV2 MatMul Max MaxPool
    Maximum Mean Min Minimum MirrorPad Mul Neg NoOp NotEqual OnesLike Pack Pad PadV2 PartitionedCall
    Placeholder Pow Prod RaggedGather RaggedTensorToTensor Range ReadVariableOp RealDiv Relu Relu6
    Reshape Rsqrt ScaleAndTranslate SelectV2 Selu Shape Sigmoid Size Slice Softmax Softplus
    SpaceToBatchND Split SplitV Sqrt Square SquaredDifference Squeeze StatefulPartitionedCall
    StaticRegexReplace StopGradient StridedSlice StringJoin StringLower StringSplitV2 Sub Substr Sum
    Tanh TensorListFromTensor TensorListGetItem TensorListReserve TensorListSetItem TensorListStack
    Tile TopKV2 Transpose Unpack VarHandleOp While ZerosLike
    """
)
"""Operations that may answer a request: the arithmetic of classifiers, shapes, control flow, image
decoding, and splitting texts into words that are looked up. None reads or writes a file, draws a
random number, assigns a variable, or calls code that is not in the graph."""

TEXT = _names(
    """
    CaseFoldUTF8 FastWordpieceTokenizeWithOffsets NormalizeUTF8 RegexSplitWithOffsets
    TFText>RoundRobinTrim
    """
)
"""Operations of TensorFlow Text that may answer a request: from texts to the tokens of KerasHub's
BERT models. Who loads such a model has to import `tensorflow_text` before; `check` does."""

RESTORING = _names(
    """
    AssignVariableOp Const HashTableV2 Identity LookupTableImportV2 NoOp Placeholder RestoreV2
    StatefulPartitionedCall VarHandleOp
    """
)
"""Operations that may run when a server loads the model: variables are read from its own files, and
tables of words are filled from constants in the graph."""

SAVING = RESTORING | _names(
    """
    DisableCopyOnRead MergeV2Checkpoints Pack PartitionedCall ReadVariableOp SaveV2 Select
    ShardedFilename StaticRegexFullMatch StringJoin
    """
)
"""Operations of the part that TensorFlow adds to every SavedModel to save it again."""

# Objects that TensorFlow's Python loader would build, with the classes that it may look up.
_OBJECT_KINDS = frozenset(
    {"user_object", "function", "bare_concrete_function", "constant", "variable", "resource"}
)
_OBJECT_CLASSES = frozenset({"_generic_user_object", "signature_map", "trackable_list_wrapper"})

# The collection and the signature that name what to run after restoring: it fills tables of words.
_START, _START_SIGNATURE = "saved_model_main_op", "__saved_model_init_op"


class OperationError(UserError):
    """A SavedModel holds something that no exported model holds."""


def check(version_directory: PathLike, trust: bool = False) -> Any:
    """Rejects a SavedModel with anything but permitted operations, without loading it.

    If it needs TensorFlow Text, that is imported.

    Args:
        version_directory: the version folder.
        trust: whether to accept other operations, too.

    Returns:
        The `SavedModel` message that was checked.

    Example:

    >>> folder = export.save(model, "exported")
    >>> saved_model = export.check(folder)                 # raises OperationError otherwise
    """
    version_directory = pathlib.Path(version_directory)
    saved_model = _read(version_directory / "saved_model.pb")
    wrong, needed = [], set()
    for meta_graph in saved_model.meta_graphs:
        found = operations(meta_graph)
        needed |= found["serving"]
        wrong += [
            f"{name} in {part}"
            for part, used in found.items()
            for name in sorted(used - _PERMITTED[part])
        ]
        wrong += _foreign_objects(meta_graph)
    if (wrong and not trust) or not saved_model.meta_graphs:
        raise OperationError(
            f"{version_directory}: expected only operations of the closed list of exported "
            f"models, received {', '.join(wrong) or 'no graph'}. Load it with trust=True (`s2d "
            "serve --trust`) only if you trust whoever wrote it."
        )
    if needed & TEXT:
        try:  # TensorFlow knows these operations once the package is imported.
            importlib.import_module("tensorflow_text")
        except ImportError as error:
            raise OperationError(
                f"{version_directory}: expected TensorFlow Text, whose operations the model uses, "
                f"received {error}. Run pip install 's2d_tf[text]'."
            ) from None
    return saved_model


def operations(meta_graph: Any) -> dict[str, set[str]]:
    """Dict of part ("serving", "restoring", "saving") to the set of operation names in it."""
    graph = _Graph(meta_graph.graph_def)
    setup = _setup_functions(meta_graph.object_graph_def)
    outputs = {
        name: [tensor.name for tensor in signature.outputs.values()]
        for name, signature in meta_graph.signature_def.items()
    }
    start = [*meta_graph.collection_def[_START].node_list.value, *outputs.pop(_START_SIGNATURE, [])]
    serving = graph.reach(
        [name for names in outputs.values() for name in names],
        set(meta_graph.object_graph_def.concrete_functions) - setup,
    )
    restoring = graph.reach([meta_graph.saver_def.restore_op_name, *start], setup)
    saving = graph.reach(graph.nodes, graph.functions) - serving - restoring
    parts = {"serving": serving, "restoring": restoring, "saving": saving}
    return {part: {operation for _, operation in nodes} for part, nodes in parts.items()}


_PERMITTED = {"serving": SERVING | TEXT, "restoring": RESTORING, "saving": SAVING}


def _read(path):
    from google.protobuf import message
    from tensorflow.core.protobuf import saved_model_pb2

    if not path.is_file():
        raise OperationError(
            f"{path.parent}: expected a SavedModel, received no {path.name}. Export the "
            "model again."
        )
    try:
        return saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except message.DecodeError as error:
        raise OperationError(
            f"{path}: expected a SavedModel, received damaged content ({error}). Export the "
            "model again."
        ) from None


class _Graph:
    """A graph and its functions as nodes, `((function or "", node name), operation)`."""

    def __init__(self, graph_def: Any) -> None:
        self.functions = {f.signature.name: f.node_def for f in graph_def.library.function}
        self.nodes = {node.name: node for node in graph_def.node}

    def reach(self, tensor_names, function_names=()):
        """What must run for these tensors and functions."""
        found: set[tuple] = set()
        entered: set[str] = set()
        pending = [self._node(name) for name in tensor_names if name]
        pending += self._bodies(function_names, entered)
        while pending:
            (function, name), node = pending.pop()
            if ((function, name), node.op) in found:
                continue
            found.add(((function, name), node.op))
            if not function:
                pending += [self._node(each) for each in node.input]
            pending += self._bodies(_called(node, self.functions), entered)
        return {item for item in found if item[1] not in self.functions}

    def _node(self, tensor_name):
        name = tensor_name.lstrip("^").partition(":")[0]
        if name not in self.nodes:
            raise OperationError(
                f"graph: expected a node {name!r}, received none. Export the model again."
            )
        return ("", name), self.nodes[name]

    def _bodies(self, names, entered):
        """The nodes of functions that were not `entered` before."""
        for name in set(names) - entered:
            entered.add(name)
            if name not in self.functions:
                raise OperationError(
                    f"graph: expected a function {name!r}, received none. Export the model again."
                )
            yield from (((name, node.name), node) for node in self.functions[name])


def _called(node, functions):
    """Functions that a node may call: by its attributes, or because its operation is one."""
    names = [node.op] if node.op in functions else []
    for value in node.attr.values():
        names += [value.func.name] if value.HasField("func") else []
        names += [func.name for func in value.list.func]
    return names


def _setup_functions(object_graph):
    """Names of the functions that make and fill tables when the model is loaded."""
    children = [
        object_graph.nodes[child.node_id]
        for node in object_graph.nodes
        if node.WhichOneof("kind") == "resource"
        for child in node.children
    ]
    return {name for child in children for name in child.function.concrete_functions}


def _foreign_objects(meta_graph):
    """Objects that exported models do not have, such as files of words."""
    found = []
    for node in meta_graph.object_graph_def.nodes:
        kind = node.WhichOneof("kind")
        if kind not in _OBJECT_KINDS:
            found.append(f"an object of kind {kind}")
        elif kind == "user_object" and node.user_object.identifier not in _OBJECT_CLASSES:
            found.append(f"an object of class {node.user_object.identifier}")
    collections = sorted(set(meta_graph.collection_def) - {_START})
    return found + [f"the collection {name}" for name in collections]
