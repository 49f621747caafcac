"""Reads and checks inputs and labels: for `fit`, `evaluate`, predictions and post-hoc steps.

The only place that tells kinds of data apart. What a model takes is its `Contract`; anything else
is rejected before hours are spent on it, with one line that says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Data, Inputs
from s2d_tf.models.contract import Contract, InputTensor, require

ENDS = (tf.reduce_min, tf.reduce_max)


def examples(x: Data, contract: Contract, batch_size: int = 256) -> Iterator[tuple]:
    """Batches of unchecked inputs: a list with one array or tensor for each input of the contract,
    and the labels or `None`.

    Args:
        x: inputs as arrays, nested as the model takes them, or a tuple of these and their labels;
            or anything else that `fit` takes, with labels in it or without: a `tf.data.Dataset`,
            batched or not, a `PyDataset`, a generator, a loader.
        contract: what the model takes.
        batch_size: examples to hold at once.

    Example:

    >>> from s2d_tf.models import inputs
    >>> [len(batch) for (batch,), _ in inputs.examples(images, model.contract, batch_size=32)]
    [32, 8]
    """
    x, labels = split_labels(x, contract) if isinstance(x, tuple) else (x, None)
    if not (isinstance(x, (dict, list, tuple)) or hasattr(x, "__array__")):
        check_ends(x)
        dataset = x if isinstance(x, tf.data.Dataset) else _adapter(x).get_tf_dataset()
        spec, _ = split_labels(dataset.element_spec, contract)
        dataset = dataset.batch(batch_size) if _is_one_example(spec, contract) else dataset
        for element in dataset:
            batch, labels = split_labels(element, contract)
            yield contract.flatten(batch), labels
        return
    if contract.structure == 0 and isinstance(x, list):  # of rows
        x = np.asarray(x)
    arrays = list(map(np.asarray, contract.flatten(x)))
    for start in range(0, _num_examples(arrays, labels), batch_size):
        rows = slice(start, start + batch_size)
        yield [array[rows] for array in arrays], None if labels is None else labels[rows]


def check_ends(x: Any) -> None:
    """Rejects data that says of itself that it repeats without an end."""
    require(
        getattr(x, "cardinality", int)() != tf.data.INFINITE_CARDINALITY
        and not (isinstance(x, keras.utils.PyDataset) and x.num_batches is None),
        "x: expected a dataset that ends, received one that repeats forever. Use x.take(n), or "
        "pass the number of steps.",
    )


def split_labels(element: Any, contract: Contract) -> tuple:
    """Inputs and labels of `(inputs, labels, ...)`; anything else is inputs alone."""
    # The two inputs of a model, without labels, are nested once less.
    listed = isinstance(contract.structure, (list, tuple))
    if not isinstance(element, (tuple, list)) or (
        listed and not isinstance(element[0], (tuple, list, dict))
    ):
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
        require(
            np.isin(labels, (0, 1)).all() and (labels.sum(axis=-1) == 1).all(),
            f"{name}: expected class numbers or one-hot rows, received other rows of "
            f"{labels.shape[1]} numbers. Choose a class for each, such as labels.argmax(-1).",
        )
        labels = labels.argmax(axis=-1)
    labels = labels.reshape(-1) if labels.shape[1:] == (1,) else labels
    require(
        labels.shape == (num_examples,) and (labels == np.round(labels)).all(),
        f"{name}: expected {num_examples} class numbers, one for each example, received "
        f"{labels.dtype} of shape {labels.shape}. Pass whole numbers, as many as examples.",
    )
    return labels.astype(np.int64)


def check(x: Inputs, contract: Contract, num_heads: int = 1) -> None:
    """Rejects inputs with wrong names, types or shapes, NaN and infinity.

    Args:
        x: tensors of a batch, as the contract nests them.
        contract: what the model takes.
        num_heads: of a MIMO network, which also takes one image for each head.
    """
    for tensor, declared in zip(contract.flatten(x), contract.tensors, strict=True):
        check_tensor(tensor, declared, num_heads)


def check_tensor(tensor: tf.Tensor, declared: InputTensor, num_heads: int = 1) -> None:
    """`check` for one tensor."""
    received, expected = tf.as_dtype(tensor.dtype), tf.as_dtype(declared.dtype)
    whole = (received.is_integer or received.is_bool) and expected != tf.string
    both_floating = received.is_floating and expected.is_floating
    require(
        whole or both_floating or received == expected,
        f"{declared.name}: expected {expected.name}, received {received.name}. Convert the "
        "inputs first.",
    )
    if tensor.shape.rank is None or tuple(tensor.shape[1:]) != declared.shape:
        _check_shape(tensor, declared, num_heads)
    if received.is_floating:
        require(
            tf.reduce_all(tf.math.is_finite(tf.cast(tensor, declared.network_dtype))),
            f"{declared.name}: expected numbers, received NaN or infinity. Clean the inputs before "
            "they reach the model.",
        )
    elif declared.range and declared.bounded and expected.is_integer and not declared.is_image:
        low, high = declared.range
        lowest, highest = tf.reduce_min(tensor), tf.reduce_max(tensor)
        require(
            (tf.cast(lowest, tf.int64) >= int(low)) & (tf.cast(highest, tf.int64) <= int(high)),
            f"{declared.name}: expected numbers from {low:g} to {high:g}, received",
            lowest,
            "to",
            highest,
            "(the embedding has no others).",
        )


def cast(x: Inputs, contract: Contract) -> Inputs:
    """Inputs as the network takes them: numbers in float32, all else in its own type."""
    pairs = zip(contract.flatten(x), contract.tensors, strict=True)
    return contract.pack([as_network_takes(tensor, declared) for tensor, declared in pairs])


def as_network_takes(tensor: tf.Tensor, declared: InputTensor) -> tf.Tensor:
    """One tensor of `cast`."""
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
    if not (isinstance(x, (dict, list, tuple)) or hasattr(x, "__array__")):
        shuffle = arguments.pop("shuffle") and isinstance(x, keras.utils.PyDataset)
        class_weight = arguments.pop("class_weight", None)
        adapter = _adapter(x, y, shuffle=shuffle, class_weight=class_weight)
        make = adapter.get_tf_dataset
        adapter.get_tf_dataset = lambda: _checked_dataset(make(), check)
        return adapter
    x = keras.tree.map_structure(_strings_as_tensors, x)
    y = np.asarray(y) if isinstance(y, (list, tuple)) else y
    _num_examples(x, y)
    tensors = keras.tree.map_structure(tf.convert_to_tensor, (x,) if y is None else (x, y))
    check(tensors[0], None if y is None else tensors[1])
    return x


def _checked_dataset(dataset, check):
    @tf.autograph.experimental.do_not_convert
    def pass_on(batch, *rest):
        check(batch, rest[0] if rest else None)
        return (batch, *rest)

    return dataset.map(pass_on, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def compare_ranges(tensors: Sequence, model: Any, seen: dict | None) -> None:
    """Compares a batch with the ranges of a model's inputs and warns once of other values.

    Args:
        tensors: one for each input of the contract.
        model: the predictor.
        seen: of a fit, a dict that is empty before its first batch: ranges that nobody declared
            are learned. `None` in predictions.
    """
    for i, declared in enumerate(model.contract.tensors):
        if not declared.is_float:
            continue
        low, high = (float(tf.cast(end(tensors[i]), tf.float32)) for end in ENDS)
        if seen is not None and (i in seen or declared.range is None):
            lowest, highest = seen.get(i, (low, high))
            seen[i] = min(lowest, low), max(highest, high)
            model.contract = model.contract.learned(seen)
        elif declared.range is None:
            warn_unknown(model)
        elif declared.excludes(low, high):
            model.warn_once(
                "outside",
                f"{declared.name}: expected values as in training, in the range from "
                f"{declared.range[0]:g} to {declared.range[1]:g}, received {low:g} to "
                f"{high:g}. Scale them as for training, or the answers mean nothing.",
            )


def compare_ranges_of_batch(tensors: Sequence, model: Any, seen: dict | None) -> None:
    """`compare_ranges` in a graph, too: a batch's lowest and highest value stand for it."""
    pairs = [
        tf.stack([end(tensor) for end in ENDS]) if declared.is_float else tf.zeros([])
        for tensor, declared in zip(tensors, model.contract.tensors, strict=True)
    ]
    tf.numpy_function(lambda *found: compare_ranges(found, model, seen), pairs, [], stateful=True)


def warn_unknown(model: Any) -> None:
    """Warns once of images for a model that was neither told nor shown the range of its pixels."""
    if getattr(model.contract.image, "range", ()) is None:
        model.warn_once(
            "unknown",
            "images: expected a known range of pixels, received a model that has none yet. "
            "Pass input_range=(low, high), or fit it: pixels in another range get wrong answers.",
        )


def _num_examples(x, labels):
    sizes = {len(part) for part in keras.tree.flatten((x, labels)) if hasattr(part, "shape")}
    require(
        len(sizes) == 1 and sizes != {0},
        "x: expected inputs of the same length and as many labels, at least one, received "
        f"lengths {sorted(sizes)}. Pass one row of each for every example.",
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

    return data_adapters.get_data_adapter(x, y, **options)


def _check_shape(tensor, declared, num_heads):
    received, accepted = tf.TensorShape(tensor.shape), [declared.shape]
    accepted += [(num_heads, *declared.shape)] if num_heads > 1 else []
    accepted += [()] if declared.shape == (1,) else []
    ranked = received.rank is not None
    fitting = [each for each in accepted if ranked and received[1:].is_compatible_with(each)]
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
    for i, size in enumerate(fitting[0], start=1):
        if size is not None and received[i] is None:  # known only when the batch comes
            require(
                tf.equal(tf.shape(tensor)[i], size),
                f"{declared.name}: expected the size {size} in dimension {i}, received",
                tf.shape(tensor)[i],
                "(images are [batch, height, width, channels])." if declared.is_image else ".",
            )
