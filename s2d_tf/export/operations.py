"""Which operations an exported model may hold: a closed list, checked before anything is loaded.

A SavedModel is a program. Lists of forbidden operations are bypassed; this is a list of permitted
ones, over the graph and all functions, apart for what answers requests, what runs on loading
(restoring variables) and what never runs in a server (saving them).
"""

import importlib
import pathlib
from collections.abc import Iterable
from typing import Any

from s2d_tf._types import PathLike
from s2d_tf.errors import UserError


def _names(text):
    return frozenset(text.split())


SERVING = _names(
    """
    Abs Acos Acosh AddN AddV2 All Angle Any ArgMax ArgMin AsString Asin Asinh Assert Atan Atan2
    Atanh AvgPool AvgPool3D BatchMatMulV2 BatchToSpaceND BiasAdd Bincount BroadcastArgs
    BroadcastTo Bucketize Case Cast Ceil CheckNumerics ClipByValue Complex ComplexAbs ConcatV2
    Conj Const Conv2D Conv2DBackpropInput Conv3D Conv3DBackpropInputV2 Cos Cosh Cumprod Cumsum
    CumulativeLogsumexp DecodeJpeg DecodePng DecodeRaw DenseBincount DepthToSpace
    DepthwiseConv2dNative Digamma DivNoNan Einsum Elu EmptyTensorList EnsureShape Equal Erf Erfc
    Erfinv Exp ExpandDims Expm1 ExtractImagePatches ExtractJpegShape FFT Fill Floor FloorDiv
    FloorMod FusedBatchNormV3 GatherNd GatherV2 Greater GreaterEqual HashTableV2 IFFT IRFFT
    Identity IdentityN If Imag InvertPermutation IsFinite IsInf IsNan L2Loss LRN LeakyRelu Less
    LessEqual Lgamma LinSpace Log Log1p LogSoftmax LogicalAnd LogicalNot LogicalOr
    LookupTableFindV2 MatMul MatrixBandPart MatrixDiagV3 Max MaxPool MaxPool3D Maximum Mean Min
    Minimum MirrorPad Mod Mul MulNoNan Neg NoOp NotEqual OneHot OnesLike Pack Pad PadV2
    PartitionedCall Placeholder Pow Prod RFFT RaggedGather RaggedRange RaggedTensorToTensor
    Range Rank ReadVariableOp Real RealDiv Reciprocal Relu Relu6 Reshape ResizeArea
    ResizeBicubic ResizeBilinear ResizeNearestNeighbor ReverseSequence ReverseV2 Rint Round
    Rsqrt ScaleAndTranslate ScatterNd Select SelectV2 Selu Shape Sigmoid Sign Sin Sinh Size
    Slice Softmax Softplus Softsign SpaceToBatchND SpaceToDepth SparseCross SparseToDense Split
    SplitV Sqrt Square SquaredDifference Squeeze StatefulPartitionedCall StatelessCase
    StatelessIf StatelessWhile StaticRegexReplace StopGradient StridedSlice StringJoin
    StringLower StringSplitV2 StringToHashBucketFast StringToHashBucketStrong Sub Substr Sum Tan
    Tanh TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather
    TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListReserve
    TensorListResize TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2 Transpose
    TruncateDiv TruncateMod Unpack UnsortedSegmentMax UnsortedSegmentSum VarHandleOp Where While
    Xdivy Xlogy ZerosLike
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
    from google.protobuf import message
    from tensorflow.core.protobuf import saved_model_pb2

    path = pathlib.Path(version_directory) / "saved_model.pb"
    try:
        saved_model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except message.DecodeError as error:
        raise OperationError(
            f"{path}: expected a SavedModel, received damaged content ({error}). Export the "
            "model again."
        ) from None
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
    OperationError.unless(
        (trust or not wrong) and saved_model.meta_graphs,
        f"{version_directory}: expected only operations of the closed list of exported "
        f"models, received {', '.join(wrong) or 'no graph'}. Load it with trust=True (`s2d "
        "serve --trust`) only if you trust whoever wrote it.",
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
    objects = meta_graph.object_graph_def
    # Functions that make and fill tables when the model is loaded.
    setup = {
        name
        for node in objects.nodes
        if node.WhichOneof("kind") == "resource"
        for child in node.children
        for name in objects.nodes[child.node_id].function.concrete_functions
    }
    outputs = {
        name: [tensor.name for tensor in signature.outputs.values()]
        for name, signature in meta_graph.signature_def.items()
    }
    start = [*meta_graph.collection_def[_START].node_list.value, *outputs.pop(_START_SIGNATURE, [])]
    parts = bodies(meta_graph.graph_def)
    answered = [name for names in outputs.values() for name in names]
    serving = reach(parts, answered, set(objects.concrete_functions) - setup)
    restoring = reach(parts, [meta_graph.saver_def.restore_op_name, *start], setup)
    used = {
        "serving": serving,
        "restoring": restoring,
        "saving": set(parts) - serving - restoring,
    }
    return {
        part: {node.op for item in items for node in parts[item]}
        - {name for kind, name in parts if kind == "function"}
        for part, items in used.items()
    }


_PERMITTED = {"serving": SERVING | TEXT, "restoring": RESTORING, "saving": SAVING}


def bodies(graph_def: Any) -> dict[tuple[str, str], Any]:
    """Nodes of functions by `("function", name)`, and each of the graph by `("node", name)`."""
    functions = {("function", each.signature.name): each for each in graph_def.library.function}
    return {key: each.node_def for key, each in functions.items()} | {
        ("node", node.name): [node] for node in graph_def.node
    }


def reach(
    bodies: dict[tuple[str, str], Any],
    tensor_names: Iterable[str],
    function_names: Iterable[str] = (),
) -> set[tuple[str, str]]:
    """The nodes and functions that must run for these tensors and functions."""
    pending = [("node", name) for name in tensor_names if name]
    pending += [("function", name) for name in function_names]
    found: set[tuple[str, str]] = set()
    while pending:
        kind, name = pending.pop()
        item = kind, name.lstrip("^").partition(":")[0] if kind == "node" else name
        OperationError.unless(
            item in bodies,
            f"graph: expected a {kind} {name!r}, received none. Export the model again.",
        )
        if item in found:
            continue
        found.add(item)
        for node in bodies[item]:
            if kind == "node":
                pending += [("node", each) for each in node.input]
            called = [value.func.name for value in node.attr.values() if value.HasField("func")]
            called += [func.name for value in node.attr.values() for func in value.list.func]
            called += [node.op] if ("function", node.op) in bodies else []
            pending += [("function", each) for each in called]
    return found


def _foreign_objects(meta_graph):
    """Objects that exported models do not have, such as files of words."""
    nodes = meta_graph.object_graph_def.nodes
    kinds = {node.WhichOneof("kind") for node in nodes} - _OBJECT_KINDS
    classes = {node.user_object.identifier for node in nodes if node.HasField("user_object")}
    found = [f"an object of kind {kind}" for kind in sorted(map(str, kinds))]
    found += [f"an object of class {name}" for name in sorted(classes - _OBJECT_CLASSES)]
    collections = sorted(set(meta_graph.collection_def) - {_START})
    return found + [f"the collection {name}" for name in collections]
