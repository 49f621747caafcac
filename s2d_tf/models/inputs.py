"""Reads and checks inputs and labels: for `fit`, `evaluate`, predictions and post-hoc steps.

The only place that tells kinds of data apart. What a model takes is its `Contract`; anything else
is rejected before hours are spent on it, with one line that says what to do.
"""

from __future__ import annotations

import contextlib
import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import ArrayLike, Data, Inputs
from s2d_tf.models.contract import Contract, InputTensor

LABEL_SUM_TOLERANCE = 1e-3
"""How far the sum of a soft label may be from one (float16 rounds so)."""

_MARK = "bad input: "


def batches(
    x: Data, contract: Contract, batch_size: int = 256, labels: ArrayLike | None = None
) -> Iterator[tuple]:
    """Pairs of checked inputs, as the network takes them, and their labels or `None`.

    Args:
        x: inputs as arrays, nested as the model takes them, or a tuple of these and their labels;
            or anything else that `fit` takes, with labels in it or without: a `tf.data.Dataset`,
            batched or not, a `PyDataset`, a generator, a loader.
        contract: what the model takes.
        batch_size: examples to hold at once.
        labels: of arrays.

    Example:

    >>> from s2d_tf.models import inputs
    >>> [len(batch) for batch, _ in inputs.batches(images, model.contract, batch_size=32)]
    [32, 8]
    """
    empty = True
    for batch, targets in examples(x, contract, batch_size, labels):
        tensors = []
        for part, declared in zip(contract.flatten(batch), contract.tensors, strict=True):
            tensor = tf.convert_to_tensor(part)
            _check_tensor(tensor, declared)
            tensors.append(_as_network_takes(tensor, declared))
        yield contract.pack(tensors), targets
        empty = False
    if empty:
        raise ValueError("x: expected at least one example, received none. Check the data.")


def examples(
    x: Data, contract: Contract, batch_size: int = 256, labels: ArrayLike | None = None
) -> Iterator[tuple]:
    """Pairs of inputs and labels as `batches` has them, but unchecked and as they came."""
    if isinstance(x, tuple) and labels is None:
        x, labels = split_labels(x, contract)
    if not _is_arrays(x):
        dataset = x if isinstance(x, tf.data.Dataset) else _adapter(x).get_tf_dataset()
        spec, _ = split_labels(dataset.element_spec, contract)
        dataset = dataset.batch(batch_size) if _is_one_example(spec, contract) else dataset
        yield from (split_labels(element, contract) for element in dataset)
        return
    if contract.structure == 0 and isinstance(x, list):  # of rows
        x = np.asarray(x)
    arrays = list(map(np.asarray, contract.flatten(x)))
    for start in range(0, _num_examples(arrays, labels), batch_size):
        rows = slice(start, start + batch_size)
        batch = contract.pack([array[rows] for array in arrays])
        yield batch, None if labels is None else labels[rows]


def split_labels(element: Any, contract: Contract) -> tuple:
    """Inputs and labels of `(inputs, labels, ...)`; anything else is inputs alone."""
    if not isinstance(element, (tuple, list)):
        return element, None
    # The two inputs of a model, without labels, are nested once less.
    several = isinstance(contract.structure, (list, tuple))
    if several and not isinstance(element[0], (tuple, list)):
        return element, None
    return element[0], element[1] if len(element) > 1 else None


def class_numbers(labels: Any, num_examples: int, name: str = "labels") -> np.ndarray:
    """Labels as int64 class numbers `[num_examples]`; -1 for every example if there are none.

    Args:
        labels: class numbers, one-hot rows or `None`.
        num_examples: how many there must be.
        name: begins the error message.
    """
    if labels is None:
        return np.full([num_examples], -1, np.int64)
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] > 1:
        if not (np.isin(labels, (0, 1)).all() and (labels.sum(axis=-1) == 1).all()):
            raise ValueError(
                f"{name}: expected class numbers or one-hot rows, received other rows of "
                f"{labels.shape[1]} numbers. Choose a class for each, such as labels.argmax(-1)."
            )
        labels = labels.argmax(axis=-1)
    labels = labels.reshape(-1) if labels.shape[1:] == (1,) else labels
    if labels.shape != (num_examples,) or not (labels == np.round(labels)).all():
        raise ValueError(
            f"{name}: expected {num_examples} class numbers, one for each example, received "
            f"{labels.dtype} of shape {labels.shape}. Pass whole numbers, as many as examples."
        )
    return labels.astype(np.int64)


def check(x: Inputs, contract: Contract, num_heads: int = 1) -> None:
    """Rejects inputs of other names, types or shapes, NaN and infinity.

    Args:
        x: tensors of a batch, as the contract nests them.
        contract: what the model takes.
        num_heads: of a MIMO network, which also takes one image for each head.
    """
    for tensor, declared in zip(contract.flatten(x), contract.tensors, strict=True):
        _check_tensor(tensor, declared, num_heads)


def cast(x: Inputs, contract: Contract) -> Inputs:
    """Inputs as the network takes them: numbers in float32, all else in its own type."""
    pairs = zip(contract.flatten(x), contract.tensors, strict=True)
    return contract.pack([_as_network_takes(tensor, declared) for tensor, declared in pairs])


def _as_network_takes(tensor, declared):
    if declared.network_dtype != tf.string:
        tensor = tf.cast(tensor, declared.network_dtype)
    # A size of 1 may be left out, as in Keras.
    return tensor[:, None] if declared.shape == (1,) and len(tensor.shape) == 1 else tensor


def checked(x: Data, y: Any, check: Callable, arguments: dict[str, Any]) -> Data:
    """Data for `fit` in which every batch passes `check(inputs, labels)` before it is used.

    Arrays are checked at once. In all else the check runs in the input pipeline, beside the
    training step and not in it; what is distributed already is left as it is.

    Args:
        x, y: as for `fit`.
        check: function that raises an error.
        arguments: further ones of `fit`, from which those are taken that Keras' adapter of a
            `PyDataset`, generator or loader needs instead.
    """
    if isinstance(x, tf.data.Dataset):
        return _checked_dataset(x, check)
    if x is None or isinstance(x, tf.distribute.DistributedDataset):
        return x
    if not _is_arrays(x):
        options = {"shuffle": arguments.pop("shuffle", isinstance(x, keras.utils.PyDataset))}
        if "class_weight" in arguments:
            options["class_weight"] = arguments.pop("class_weight")
        adapter = _adapter(x, y, **options)
        make = adapter.get_tf_dataset
        adapter.get_tf_dataset = lambda: _checked_dataset(make(), check)
        return adapter
    x = keras.tree.map_structure(_strings_as_tensors, x)
    y = np.asarray(y) if isinstance(y, (list, tuple)) else y
    _num_examples(x, y)
    check(*(keras.tree.map_structure(tf.convert_to_tensor, part) for part in (x, y)))
    return x


def _checked_dataset(dataset, check):
    @tf.autograph.experimental.do_not_convert
    def pass_on(batch, *rest):
        check(batch, rest[0] if rest else None)
        return (batch, *rest)

    return dataset.map(pass_on, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


class SeenRanges:
    """The lowest and highest values in training of the inputs whose range nobody declared."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.ranges = dict.fromkeys(contract.unknown, (math.inf, -math.inf))

    def add(self, x: Inputs) -> None:
        """Looks at a batch of tensors, or traces looking at it."""
        flat = self.contract.flatten(x)
        bounds = [tf.cast(bound, tf.float32) for i in self.ranges for bound in _bounds(flat[i])]
        if tf.executing_eagerly():
            self._update(*bounds)
        elif bounds:
            tf.numpy_function(self._update, bounds, [], stateful=True)

    def _update(self, *bounds):
        for i, low, high in zip(self.ranges, bounds[::2], bounds[1::2], strict=True):
            lowest, highest = self.ranges[i]
            self.ranges[i] = min(lowest, float(low)), max(highest, float(high))


def warn_outside(x: Inputs, contract: Contract) -> bool:
    """Warns of inputs that are clearly not what the model was trained on; whether it did."""
    for tensor, declared in zip(contract.flatten(x), contract.tensors, strict=True):
        if declared.range is None or not declared.is_float:
            continue
        low, high = float(tf.reduce_min(tensor)), float(tf.reduce_max(tensor))
        if declared.is_clearly_outside(low, high):
            lowest, highest = declared.range
            warnings.warn(
                f"{declared.name}: expected values as in training, from {lowest:g} to {highest:g}, "
                f"received {low:g} to {high:g}. Scale them as for training, or the answers mean "
                "nothing.",
                UserWarning,
                stacklevel=4,
            )
            return True
    return False


def _bounds(tensor):
    return tf.reduce_min(tensor), tf.reduce_max(tensor)


def _is_arrays(x):
    return isinstance(x, (dict, list, tuple)) or hasattr(x, "__array__")


def _num_examples(x, labels):
    sizes = {len(part) for part in keras.tree.flatten((x, labels)) if hasattr(part, "shape")}
    if len(sizes) != 1 or sizes == {0}:
        raise ValueError(
            "x: expected inputs of the same length and as many labels, at least one, received "
            f"lengths {sorted(sizes)}. Pass one row of each for every example."
        )
    return sizes.pop()


def _strings_as_tensors(x):
    """Texts as Keras' adapter of arrays takes them."""
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    return tf.convert_to_tensor(x) if kind in ("U", "S", "O") else x


def _is_one_example(spec, contract):
    """Whether an element of a dataset is one example, not a batch."""
    pairs = zip(contract.flatten(spec), contract.tensors, strict=True)
    # A size of 1 may be left out, so these do not tell.
    telling = [pair for pair in pairs if pair[1].shape != (1,)]
    return any(each.shape.rank == len(declared.shape) for each, declared in telling)


def _adapter(x, y=None, **options):
    """What `fit` itself makes of all that is neither an array nor a `tf.data.Dataset`.

    Keras does not export it; arrays and `tf.data` do without it, should a release move it.
    """
    from keras.src.trainers import data_adapters
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    if isinstance(x, DataAdapter):
        return x
    if not (
        isinstance(x, keras.utils.PyDataset)
        or hasattr(x, "gi_frame")  # a generator
        or data_adapters.is_torch_dataloader(x)
        or data_adapters.is_grain_dataset(x)
    ):
        raise ValueError(
            "x: expected arrays, a tf.data.Dataset, a keras.utils.PyDataset, a generator or a "
            f"PyTorch DataLoader, received {type(x).__name__}. Convert it to one of these."
        )
    return data_adapters.get_data_adapter(x, y, **options)


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turns what a check found inside a graph into a `ValueError` of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(re.escape(_MARK) + r"(.*)\[end\]", str(error.message))
        if not found:
            raise
        raise ValueError(re.sub(r"\] \[", " ", found.group(1)).strip(" []")) from None


def _require(condition: tf.Tensor, *message: Any) -> None:
    """Rejects input, now or when the graph runs in which this is traced."""
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [_MARK + message[0], *message[1:], "end"])
    elif not condition:
        raise ValueError(" ".join(str(getattr(part, "numpy", part.__str__)()) for part in message))


def _check_tensor(tensor, declared: InputTensor, num_heads=1):
    received, expected = tf.as_dtype(tensor.dtype), tf.as_dtype(declared.dtype)
    whole = (received.is_integer or received.is_bool) and expected != tf.string
    both_floating = received.is_floating and expected.is_floating
    if not (whole or both_floating or received == expected):
        raise ValueError(
            f"{declared.name}: expected {expected.name}, received {received.name}. Convert the "
            "inputs first."
        )
    _check_shape(tensor, declared, num_heads)
    if received.is_floating:
        _require(
            tf.reduce_all(tf.math.is_finite(tensor)),
            f"{declared.expected}, received NaN or infinity. Clean the inputs before they reach "
            "the model.",
        )
    elif declared.bounded and expected.is_integer and not declared.is_image:
        low, high = declared.range
        lowest, highest = _bounds(tensor)
        _require(
            (tf.cast(lowest, tf.int64) >= int(low)) & (tf.cast(highest, tf.int64) <= int(high)),
            f"{declared.name}: expected numbers from {low:g} to {high:g}, received",
            lowest,
            "to",
            highest,
            "(the embedding has no others).",
        )


def _check_shape(tensor, declared, num_heads):
    received, accepted = tf.TensorShape(tensor.shape), [tuple(declared.shape)]
    accepted += [(num_heads, *declared.shape)] if num_heads > 1 else []
    accepted += [()] if declared.shape == (1,) else []
    fitting = [
        shape
        for shape in accepted
        if received.rank is not None and received[1:].is_compatible_with(shape)
    ]
    if not fitting:
        what = "images" if declared.is_image else declared.name
        shapes = " or ".join(str(("batch", *shape)).replace("'", "") for shape in accepted)
        hint = "Reshape them"
        if received.is_compatible_with(declared.shape):
            hint = "Batch the dataset first"
        elif declared.is_image and received[1:].is_compatible_with(
            [declared.shape[-1], *declared.shape[:-1]]
        ):
            hint = "Transpose them to channels last"
        raise ValueError(f"x: expected {what} {shapes}, received the shape {received}. {hint}.")
    if len(fitting) > 1 or received.is_fully_defined():
        return
    for i, size in enumerate(fitting[0], start=1):
        if size is not None and received[i] is None:  # known only when the batch comes
            _require(
                tf.equal(tf.shape(tensor)[i], size),
                f"{declared.name}: expected the size {size} in dimension {i}, received",
                tf.shape(tensor)[i],
                "(images are [batch, height, width, channels])." if declared.is_image else ".",
            )


def are_vectors(labels: tf.Tensor, num_classes: int, num_heads: int = 1) -> bool:
    """Whether labels are one-hot or soft, `[batch, classes]` or, for MIMO, with a head axis."""
    shape, dtype = tf.TensorShape(labels.shape), tf.as_dtype(labels.dtype)
    if shape.rank == 3:
        return True
    # Whole numbers for several heads are a class number for each.
    for_heads = num_heads > 1 and dtype.is_integer
    return shape.rank == 2 and shape[-1] == num_classes and not for_heads


def check_labels(labels: tf.Tensor, num_classes: int, num_heads: int = 1) -> None:
    """Rejects labels that are neither class numbers nor vectors that sum to one."""
    if are_vectors(labels, num_classes, num_heads):
        _check_vectors(labels, num_classes, num_heads)
        return
    dtype, shape = tf.as_dtype(labels.dtype), tf.TensorShape(labels.shape)
    if not dtype.is_integer:
        raise ValueError(
            f"y: expected integer labels in [0, {num_classes - 1}], or one vector of {num_classes} "
            f"probabilities for each example, received {dtype.name} of shape {shape}. Convert them."
        )
    if not any(shape.is_compatible_with(each) for each in ([None], [None, 1], [None, num_heads])):
        heads = "" if num_heads == 1 else f" or [batch, {num_heads}]"
        raise ValueError(
            f"y: expected labels [batch]{heads} (class numbers) or [batch, {num_classes}] "
            f"(one-hot or probabilities), received the shape {shape}. Reshape them."
        )
    lowest, highest = _bounds(labels)
    _require(
        (lowest >= 0) & (highest < num_classes),
        f"y: expected labels in [0, {num_classes - 1}], received values from",
        lowest,
        "to",
        highest,
        "(remove unlabeled examples, or raise num_classes).",
    )


def _check_vectors(labels, num_classes, num_heads):
    shape, accepted = labels.shape, ([None, num_classes], [None, num_heads, num_classes])
    if not any(shape.is_compatible_with(each) for each in accepted):
        raise ValueError(
            f"y: expected label vectors [batch, {num_classes}], received the shape {shape}. "
            "Reshape them."
        )
    values = tf.cast(labels, tf.float32)
    lowest, highest = _bounds(tf.reduce_sum(values, axis=-1))
    _require(
        # Written so that NaN fails it.
        (lowest >= 1 - LABEL_SUM_TOLERANCE)
        & (highest <= 1 + LABEL_SUM_TOLERANCE)
        & (tf.reduce_min(values) >= 0),
        "y: expected label vectors of numbers of at least 0 that sum to 1, received sums from",
        lowest,
        "to",
        highest,
        "and the lowest number",
        tf.reduce_min(values),
    )


def label_rows(
    labels: tf.Tensor, sample_weight: tf.Tensor | None, num_classes: int, num_heads: int
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Labels and sample weights with one row for each head of each example.

    One label for all heads is repeated.
    """
    vectors = are_vectors(labels, num_classes, num_heads)
    one_for_all = num_heads > 1 and (
        len(labels.shape) == (2 if vectors else 1) or labels.shape[-1] == 1
    )
    labels = tf.reshape(labels, [-1, num_classes] if vectors else [-1])
    if one_for_all:
        labels = tf.repeat(labels, num_heads, axis=0)
    if sample_weight is not None:
        sample_weight = tf.repeat(tf.reshape(sample_weight, [-1]), num_heads)
    return labels, sample_weight
