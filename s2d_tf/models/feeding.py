"""Whatever Keras' `fit` takes, checked: arrays at once, all else in the input pipeline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import ArrayLike, Data, Inputs
from s2d_tf.models import inputs
from s2d_tf.models.contract import Contract

FIRST_BATCHES = 8
"""Batches of each epoch from which ranges that nobody declared are learned."""


class Observed:
    """Lowest and highest values of the inputs whose range a model's contract does not say."""

    def __init__(self, model: Any) -> None:
        self.model, self.contract = model, model.contract
        self.ranges = dict.fromkeys(self.contract.unknown, (math.inf, -math.inf))

    def learned(self) -> Contract:
        """The contract with what was seen."""
        return self.contract.learned(self.ranges)

    def add(self, batch: Inputs) -> None:
        """Looks at a batch of tensors, or traces looking at it."""
        bounds = inputs.ranges(batch, self.contract)
        flat = [tf.cast(bound, tf.float32) for i in self.ranges for bound in bounds[i]]
        if tf.executing_eagerly():
            self._update(*flat)
        else:
            tf.numpy_function(self._update, flat, [], stateful=True)

    def _update(self, *bounds):
        for i, low, high in zip(self.ranges, bounds[::2], bounds[1::2], strict=True):
            known = self.ranges[i]
            self.ranges[i] = (min(known[0], float(low)), max(known[1], float(high)))


def checked(
    x: Data, y: Any, check: Callable, observed: Observed | None = None, **options: Any
) -> Data:
    """Data for `fit` in which every batch passes `check(inputs, labels)` before it is used.

    Arrays are checked at once. In all else the check runs in the input pipeline, beside the
    training step and not in it; what is distributed already is left as it is.

    Args:
        x, y: as for `fit`.
        check: function that raises an error.
        observed: notes the ranges in the first batches.
        **options: see `adapter_options`.
    """
    if isinstance(x, tf.data.Dataset):
        return _checked_dataset(x, check, observed)
    if _needs_adapter(x):
        adapter = _adapter(x, y, **options)
        make = adapter.get_tf_dataset
        adapter.get_tf_dataset = lambda: _checked_dataset(make(), check, observed)
        return adapter
    if not _is_arrays(x):
        return x
    x = keras.tree.map_structure(_strings_as_tensors, x)
    y = np.asarray(y) if isinstance(y, (list, tuple)) else y
    sizes = [len(part) for part in keras.tree.flatten(x)]
    targets = [len(part) for part in keras.tree.flatten(y) if hasattr(part, "shape")]
    if min(sizes + targets) == 0 or len(set(sizes + targets)) > 1:
        received = ", ".join(map(str, dict.fromkeys(sizes)))
        raise ValueError(
            f"x: expected inputs and as many targets, at least one, received {received} inputs"
            + (f" and {', '.join(map(str, targets))} targets." if targets else ".")
            + " Pass one row of each for every example."
        )
    tensors = keras.tree.map_structure(tf.convert_to_tensor, x)
    check(tensors, keras.tree.map_structure(tf.convert_to_tensor, y))
    if observed:
        inputs.warn_outside(observed.model, tensors)
        observed.add(tensors)
    return x


def adapter_options(x: Data, arguments: dict) -> dict | None:
    """Takes those arguments of `fit` from a dict that Keras' adapter of `x` needs instead.

    Returns:
        Them, or `None` where `x` needs no adapter.
    """
    if not _needs_adapter(x):
        return None
    options = {name: arguments.pop(name) for name in ("class_weight",) if name in arguments}
    shuffle = arguments.pop("shuffle", isinstance(x, keras.utils.PyDataset))
    return {"shuffle": shuffle, **options}


def batches(
    data: Data, contract: Contract, batch_size: int, labels: ArrayLike | None = None
) -> Iterator[tuple]:
    """Pairs of checked inputs, as the network takes them, and labels, or `None` for labels.

    Arrays of numbers stay arrays: for a single image, making tensors of them takes longer than
    checking them.

    Args:
        data: inputs as arrays, or anything else that `fit` takes, with labels in it or without,
            in batches or, in a `tf.data.Dataset`, one by one.
        contract: what the model takes.
        batch_size: examples to hold at once.
        labels: of arrays.
    """
    if not isinstance(data, np.ndarray) and (
        isinstance(data, tf.data.Dataset) or not _is_arrays(data, or_lists=True)
    ):
        dataset = data if isinstance(data, tf.data.Dataset) else _adapter(data).get_tf_dataset()
        spec, _ = _split(dataset.element_spec, contract)
        dataset = dataset.batch(batch_size) if _is_single(spec, contract) else dataset
        pairs = (_split(element, contract) for element in dataset)
    else:
        pairs = _slices(_as_arrays(data, contract), labels, batch_size)
    for batch, targets in pairs:
        batch = keras.tree.map_structure(_numbers_or_tensor, batch)
        inputs.check_inputs(batch, contract)
        yield batch, targets


def _checked_dataset(dataset, check, observed):
    @tf.autograph.experimental.do_not_convert
    def pass_on(batch, *rest):
        check(batch, rest[0] if rest else None)
        return (batch, *rest)

    if observed and observed.ranges:
        dataset = _observed_dataset(dataset, observed)
    return dataset.map(pass_on, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _observed_dataset(dataset, observed):
    @tf.autograph.experimental.do_not_convert
    def look(index, element):
        batch = element[0] if isinstance(element, tuple) else element

        def add():
            observed.add(batch)
            return tf.constant(True)

        tf.cond(index < FIRST_BATCHES, add, lambda: tf.constant(False))
        return element

    cardinality = dataset.cardinality()
    dataset = dataset.enumerate().map(look)
    if cardinality == tf.data.INFINITE_CARDINALITY:  # of which the numbers make a finite one
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(cardinality))
    return dataset


def _needs_adapter(x):
    ready = (tf.data.Dataset, tf.distribute.DistributedDataset, type(None))
    return not (isinstance(x, ready) or _is_arrays(x) or _is_adapter(x))


def _is_adapter(x):
    return isinstance(x, _keras_adapters().data_adapter.DataAdapter)


def _adapter(x, y=None, **options):
    """Keras' adapter of a `PyDataset`, generator or loader, which `fit` takes in their place."""
    adapters = _keras_adapters()
    known = (
        isinstance(x, keras.utils.PyDataset)
        or hasattr(x, "gi_frame")  # a generator
        or adapters.is_torch_dataloader(x)
        or adapters.is_grain_dataset(x)
    )
    if _is_adapter(x):
        return x
    if not known:
        raise ValueError(
            "x: expected arrays, a tf.data.Dataset, a keras.utils.PyDataset, a generator or a "
            f"PyTorch DataLoader, received {type(x).__name__}. Convert it to one of these."
        )
    return adapters.get_data_adapter(x, y, **options)


def _keras_adapters():
    """What `fit` itself makes of all that is neither an array nor a `tf.data.Dataset`.

    Keras does not export it. Whoever feeds arrays or `tf.data` does without it.
    """
    try:
        from keras.src.trainers import data_adapters
        from keras.src.trainers.data_adapters import data_adapter  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"keras: expected a release with the data adapters of 3.15, received "
            f"{keras.__version__} ({error}). Pass a tf.data.Dataset."
        ) from None
    return data_adapters


def _is_arrays(x, or_lists=False):
    plain = (str, bytes, int, float, np.generic) if or_lists else ()
    return all(
        isinstance(leaf, (np.ndarray, tf.Tensor, *plain)) or hasattr(leaf, "__array__")
        for leaf in keras.tree.flatten(x)
    )


def _as_arrays(x, contract):
    """Lists of numbers or texts as arrays, in the structure of the inputs."""
    if isinstance(x, dict):
        return {name: _as_arrays(x[name], None) for name in x}
    if contract is not None and isinstance(contract.structure, (list, tuple)):
        return [_as_arrays(part, None) for part in x]
    return x if isinstance(x, tf.Tensor) else np.asarray(x)


def _strings_as_tensors(x):
    """Texts as Keras' adapter of arrays takes them."""
    kind = getattr(getattr(x, "dtype", None), "kind", None)
    return tf.convert_to_tensor(x) if kind in ("U", "S", "O") else x


def _numbers_or_tensor(x):
    is_numbers = isinstance(x, np.ndarray) and x.dtype.kind in "fiub"
    return x if is_numbers else tf.convert_to_tensor(x)


def _slices(arrays, labels, batch_size):
    sizes = {len(part) for part in keras.tree.flatten(arrays)}
    if len(sizes) > 1:
        raise ValueError(
            f"x: expected inputs of the same length, received {sorted(sizes)}. Pass one row of "
            "each for every example."
        )
    for start in range(0, max(sizes), batch_size):
        part = slice(start, start + batch_size)
        yield (
            keras.tree.map_structure(lambda array, part=part: array[part], arrays),
            None if labels is None else labels[part],
        )


def _split(element, contract):
    """Inputs and labels of a dataset's element."""
    if not isinstance(element, (tuple, list)):
        return element, None
    several = isinstance(contract.structure, (list, tuple))
    if several and not isinstance(element[0], (tuple, list)):
        return element, None
    return element[0], element[1] if len(element) > 1 else None


def _is_single(spec, contract):
    """Whether an element of a dataset is one example, not a batch."""
    pairs = zip(contract.flatten(spec), contract.tensors, strict=True)
    # A size of 1 may be left out, so that these do not tell.
    telling = [pair for pair in pairs if pair[1].shape != (1,)]
    return any(each.shape.rank == len(declared.shape) for each, declared in telling)
