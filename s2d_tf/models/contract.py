"""What a model takes: the type, shape and range of each of its input tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Inputs
from s2d_tf.numerics.tensor_checks import BAD_INPUT, require

PIXELS = (0.0, 255.0)
"""Range of raw pixels."""

_IMAGE_RANGES = ((0.0, 1.0), (-1.0, 1.0), PIXELS)
"""Ranges to which people scale pixels; the first that holds all seen pixels is taken."""

_MADE_UP_NAME = re.compile(r"(keras_tensor|input_layer)(_\d+)?")
"""Names that Keras gives, which differ from one process to the next."""


@dataclasses.dataclass(frozen=True)
class InputTensor:
    """One input tensor, without its batch axis.

    Attributes:
        name: the key in a dict of inputs, or the name of the `keras.Input`.
        shape: sizes, `None` where they are free.
        dtype: as the network takes it. Floating inputs also take whole numbers, such as uint8.
        range: lowest and highest value; `None` if unknown.
        bounded: whether a value outside the range is wrong. Ranges that were only seen in
            training, such as those of a table's columns, are no bounds.
    """

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    range: tuple[float, float] | None = None
    bounded: bool = False

    @property
    def is_image(self) -> bool:
        """Whether it has a height, a width and channels of numbers."""
        return len(self.shape) == 3 and (self.is_float or self.dtype == "uint8")

    @functools.cached_property
    def is_float(self) -> bool:
        return tf.as_dtype(self.dtype).is_floating

    @functools.cached_property
    def network_dtype(self) -> tf.DType:
        """The type in which a batch enters the network."""
        return tf.float32 if self.is_float else tf.as_dtype(self.dtype)

    def excludes(self, low: float, high: float) -> bool:
        """Whether values from `low` to `high` are clearly outside of a known range."""
        lowest, highest = self.range or (low, high)
        margin = (highest - lowest) * (0.1 if self.bounded else 10.0)
        # Pixels that were divided by 255, or standardized (which are negative, too), before they
        # came. Black pictures are black either way.
        scaled = self.bounded and lowest == 0 and 0 < high <= highest / (255 if low >= 0 else 20)
        return scaled or low < lowest - margin or high > highest + margin

    def learned(self, low: float, high: float) -> InputTensor:
        """The same with the range that the lowest and the highest value seen suggest."""
        if self.is_image:
            for lowest, highest in _IMAGE_RANGES:
                if lowest <= low and highest / 2 < high <= highest:  # not just any small numbers
                    return dataclasses.replace(self, range=(lowest, highest), bounded=True)
        return dataclasses.replace(self, range=(float(low), float(high)), bounded=False)


@dataclasses.dataclass(frozen=True)
class Contract:
    """The input tensors of a model, and how they are nested.

    Attributes:
        tensors: one for each input, in the order in which Keras flattens the structure.
        structure: 0 for a single tensor; else a list, tuple or dict of positions in `tensors`.
    """

    tensors: tuple[InputTensor, ...]
    structure: Any = 0

    @classmethod
    def of(cls, backbone: keras.Model, input_range: Any = None, num_heads: int = 1) -> Contract:
        """The contract of a functional or sequential network.

        Args:
            backbone: the network.
            input_range: `(low, high)` of all floating inputs.
            num_heads: images that a MIMO network sees stacked along the channels.
        """
        inputs = input_structure(backbone)
        paths, flat = zip(*keras.tree.flatten_with_path(inputs), strict=True)
        require(
            max(map(len, paths)) <= 1,
            "backbone: expected one input, or a dict, list or tuple of them, received nested ones "
            f"{paths}. Flatten them.",
        )
        tensors = [
            InputTensor(_name(path, tensor, i, len(flat)), tuple(tensor.shape[1:]), tensor.dtype)
            for i, (path, tensor) in enumerate(zip(paths, flat, strict=True))
        ]
        found = [tensor.name for tensor in tensors]
        wrong = [name for name in found if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)]
        require(  # TensorFlow rejects or changes others, in some of its loaders only.
            not wrong and len({*found}) == len(found),
            "backbone: expected inputs with different names of letters, digits and '_', which an "
            f"exported model can have, received {wrong or found}. Name each keras.Input so.",
        )
        if num_heads > 1:
            tensors = [_one_of_stacked(tensor, num_heads, len(flat)) for tensor in tensors]
        ranges = [
            _declared_range(tensor, input_range) or vocabulary
            for tensor, vocabulary in zip(tensors, _vocabularies(backbone, flat), strict=True)
        ]
        bounded = tuple(
            dataclasses.replace(tensor, range=bounds, bounded=True) if bounds else tensor
            for tensor, bounds in zip(tensors, ranges, strict=True)
        )
        return cls(bounded, keras.tree.pack_sequence_as(inputs, list(range(len(flat)))))

    @property
    def image(self) -> InputTensor | None:
        """The only input, if it is an image."""
        return self.tensors[0] if len(self.tensors) == 1 and self.tensors[0].is_image else None

    @property
    def takes_raw_pixels(self) -> bool:
        """Whether the only input is an image as cameras and files give it."""
        return self.image is not None and self.image.range == PIXELS and self.image.bounded

    @property
    def unknown(self) -> list[int]:
        """Positions of the inputs whose range is to be learned."""
        return [i for i, each in enumerate(self.tensors) if each.is_float and each.range is None]

    def fits(self, other: Contract) -> bool:
        """Whether the same inputs can go into both, whatever their ranges; free sizes fit all."""
        nested = [keras.tree.lists_to_tuples(each.structure) for each in (self, other)]
        return nested[0] == nested[1] and all(
            (own.name, own.dtype) == (its.name, its.dtype)
            and tf.TensorShape(own.shape).is_compatible_with(its.shape)
            for own, its in zip(self.tensors, other.tensors, strict=True)
        )

    def specs(self) -> Any:
        """The structure of `tf.TensorSpec` of a batch."""
        return self.pack(
            [
                tf.TensorSpec([None, *each.shape], each.network_dtype, each.name)
                for each in self.tensors
            ]
        )

    def pack(self, tensors: Iterable[Any]) -> Inputs:
        """The structure of inputs from one tensor for each."""
        return keras.tree.pack_sequence_as(self.structure, list(tensors))

    def flatten(self, x: Inputs) -> list:
        """One tensor for each input; a `ValueError` if their names or number do not match."""
        structure = self.structure
        if structure == 0 and not isinstance(x, (dict, list, tuple)):
            return [x]
        names = [tensor.name for tensor in self.tensors]
        keys = sorted(structure) if isinstance(structure, dict) else names
        if isinstance(x, dict) and set(x) == set(keys):
            return [x[key] for key in keys]
        listed = isinstance(structure, (list, tuple)) and isinstance(x, (list, tuple))
        if listed and len(x) == len(structure):
            return list(x)
        kind = f"a {type(structure).__name__} of {names}" if structure else "one array or tensor"
        received = sorted(map(str, x)) if isinstance(x, dict) else type(x).__name__
        raise ValueError(f"x: expected {kind}, received {received}. Pass the inputs in this form.")

    def learned(self, ranges: dict[int, tuple[float, float]]) -> Contract:
        """The same with ranges seen in training, by position."""
        tensors = [
            each.learned(*ranges[i]) if i in ranges else each for i, each in enumerate(self.tensors)
        ]
        return dataclasses.replace(self, tensors=tuple(tensors))

    def sample(self, batch_size: int, free_size: int = 32, seed: int = 0) -> Inputs:
        """Random inputs that the model takes, as NumPy arrays in its structure."""
        random = np.random.RandomState(seed)

        def draw(tensor):
            shape = [batch_size, *(free_size if size is None else size for size in tensor.shape)]
            dtype = tf.as_dtype(tensor.dtype)
            low, high = tensor.range or (0, 1)
            if dtype == tf.string:
                return np.full(shape, "a few words", object)
            if tensor.is_float and tensor.range != PIXELS:
                return random.uniform(low, high, shape).astype(dtype.as_numpy_dtype)
            return random.randint(int(low), int(high) + 1, shape).astype(dtype.as_numpy_dtype)

        return self.pack([draw(tensor) for tensor in self.tensors])

    def to_dict(self) -> dict:
        """Plain values for JSON; `from_dict` reads them."""
        values = json.loads(json.dumps(dataclasses.asdict(self)))  # JSON has no tuples
        return {name: values[name] for name in ("structure", "tensors")}

    @classmethod
    def from_dict(cls, values: dict) -> Contract:
        tensors: list[dict[str, Any]] = [
            {name: tuple(v) if isinstance(v, list) else v for name, v in each.items()}
            for each in values["tensors"]
        ]
        return cls(tuple(InputTensor(**each) for each in tensors), values["structure"])


def input_structure(model: keras.Model) -> Any:
    """The symbolic inputs of a functional or sequential model; a list of one is that one."""
    inputs = model.inputs if isinstance(model, keras.Sequential) else model.input
    return inputs[0] if isinstance(inputs, (list, tuple)) and len(inputs) == 1 else inputs


def check_backbone(backbone: Any) -> None:
    """Rejects a network that does not end in a feature vector."""
    require(
        isinstance(backbone, keras.Model) and getattr(backbone, "inputs", None),
        "backbone: expected a functional keras.Model or a Sequential that starts with keras.Input, "
        f"received {type(backbone).__name__}. Build it from keras.Input.",
    )
    outputs = [(tuple(each.shape), each.dtype) for each in backbone.outputs]
    shape, dtype = outputs[0]
    require(
        len(outputs) == 1 and len(shape) == 2 and shape[1] and tf.as_dtype(dtype).is_floating,
        "backbone: expected one output, floating-point feature vectors [batch, features] of a "
        f"fixed size, received outputs of shapes and types {outputs}. Pool or flatten them.",
    )


def pixel_statistics(
    name: str, values: Sequence[float] | None, contract: Contract
) -> tuple[float, ...] | None:
    """One number for each channel of an image model, or `None`."""
    if values is None:
        return None
    values = tuple(float(value) for value in np.atleast_1d(values))
    channels = contract.image.shape[-1] if contract.image else 0
    positive = "positive " if name == "stddev" else ""
    require(
        len(values) == channels and np.isfinite(values).all() and (not positive or min(values) > 0),
        f"{name}: expected one {positive}number for each of {channels} channels, received "
        f"{values}. Compute them from the training images; for other inputs, add "
        "keras.layers.Normalization to the backbone.",
    )
    return values


def _name(path, tensor, index, count):
    if count == 1 and len(tensor.shape) == 4:
        return "images"
    if path and isinstance(path[-1], str):
        return path[-1]
    if not _MADE_UP_NAME.fullmatch(tensor.name):
        return tensor.name
    return f"input_{index}" if count > 1 else "inputs"


def _one_of_stacked(tensor, num_heads, count):
    channels = tensor.shape[-1] if tensor.shape else None
    require(
        count == 1 and tensor.is_image and channels and channels % num_heads == 0,
        f"num_heads: expected 1, or a backbone of images [height, width, {num_heads} * channels], "
        f"which a MIMO network sees at once, received {num_heads} and an input of shape "
        f"{tensor.shape}. Pass num_heads=1, or stack the images.",
    )
    return dataclasses.replace(tensor, shape=(*tensor.shape[:2], channels // num_heads))


def _vocabularies(backbone, inputs):
    """The range of the numbers that an embedding looks up, for inputs that go into one."""
    ranges: dict[int, tuple[float, float]] = {}
    for layer in backbone._flatten_layers():
        if isinstance(layer, keras.layers.Embedding):
            for node in layer._inbound_nodes:
                ranges |= {id(tensor): (0, layer.input_dim - 1) for tensor in node.input_tensors}
    return [ranges.get(id(tensor)) for tensor in inputs]


def _declared_range(tensor, input_range):
    if isinstance(input_range, dict):
        input_range = input_range.get(tensor.name)
    elif not tensor.is_float:
        return PIXELS if tensor.is_image else None
    if input_range is None:
        return None
    low, high = map(float, input_range)
    require(
        low < high,
        f"input_range: expected (low, high) with low below high, received {input_range!r}. Pass "
        "two numbers in this order.",
    )
    return low, high


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turns what a check found inside a graph into a `ValueError` of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(re.escape(BAD_INPUT) + r"(.*)\[end\]", str(error.message))
        if not found:
            raise
        raise ValueError(re.sub(r"\] \[", " ", found.group(1)).strip(" []")) from None
