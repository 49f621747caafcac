"""Member predictions of a model on any data, computed once and kept; and how long they take.

A file is named after the dataset, the split and a hash of all that decides its content: the
weights, how members are drawn, and the inputs with their order. Whatever changes, the old file is
no longer found. Outputs are kept in float32, as the network gave them, so that metrics from the
cache are those of a fresh pass to the last bit. An ensemble keeps one file per member, which
the evaluation of that member reuses; a Gaussian student keeps its two outputs, not its draws.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf import data, files, models, zoo
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.models import inputs as inputs_lib
from s2d_tf.zoo.runs import MEMBER, PREDICTIONS

# Raised when networks or draws answer differently for the same weights.
FORMAT = 1
# Some megabytes with all temporaries, which stay in the processor's cache.
CHUNK_ELEMENTS = 2**18
# Arrays are one batch: their labels are all checked before the first forward pass.
_ALL = 2**62


@dataclasses.dataclass(frozen=True)
class Source:
    """Examples under a name, read from the beginning as often as needed.

    Attributes:
        name: begins the keys of the metrics.
        split: of a registered dataset or a folder; "" of others.
        data: what `models.inputs.examples` takes.
        contract: what the model takes.
        batch_size: of the batches of an unbatched `tf.data.Dataset`.
    """

    name: str
    split: str
    data: Any
    contract: Any
    batch_size: int = 256

    def batches(self) -> Iterator[tuple]:
        """A pass over `(inputs, labels)`: NumPy arrays, or lists and dicts of them, and int64 class
        numbers, -1 where there is none."""
        size = self.batch_size if isinstance(self.data, tf.data.Dataset) else _ALL
        for parts, labels in inputs_lib.examples(self.data, self.contract, size):
            numbers = inputs_lib.class_numbers(labels, len(parts[0]), f"{self.name}, labels")
            yield self.contract.pack(map(np.asarray, parts)), numbers


def open_source(
    model: models.Predictor,
    dataset: Any,
    name: str,
    split: str = "test",
    data_dir: PathLike | None = None,
    batch_size: int = 256,
    labeled: bool = False,
    limit: int | None = None,
) -> Source:
    """Makes a `Source` of anything that can be evaluated.

    Args:
        model: what the data is for.
        dataset: the name of a registered dataset; `(x, y)`; inputs alone, for out-of-distribution
            data; or a `tf.data.Dataset` of `(x, y)` or of inputs, batched or not. As in Keras
            several inputs are a dict or a list, and a tuple is `(x, y)`. Labels are class numbers
            or one-hot rows. A `pathlib.Path` is a folder of images, see `data.open_folder`.
        name: begins the keys of the metrics.
        split: of a registered dataset or a folder.
        data_dir: TFDS folder.
        batch_size: size of the batches of an unbatched `tf.data.Dataset`.
        labeled: whether a folder has a subfolder for each class; else all images in it are taken.
        limit: take this many examples of arrays, evenly spread; `None`: all.
    """
    if isinstance(dataset, Source):
        return dataset
    UserError.unless(
        isinstance(name, str) and name and "/" not in name,
        f"name: expected a text without '/', since keys are 'name/metric', received {name!r}."
        " Choose another.",
    )
    UserError.unless(
        not hasattr(dataset, "__next__"),
        f"{name}: expected data that can be read more than once, received "
        f"{type(dataset).__name__}. Pass arrays or a tf.data.Dataset.",
    )
    shape: Any = model.image_shape
    UserError.unless(
        not isinstance(dataset, pathlib.Path) or (shape and None not in shape),
        f"{name}: expected a model of images of a fixed size for the folder {dataset}, "
        f"received one of the image shape {shape}. Pass arrays or a tf.data.Dataset.",
    )
    if isinstance(dataset, str):
        dataset = data.load_arrays(dataset, split, data_dir)
    elif isinstance(dataset, pathlib.Path) and labeled:
        folder = data.open_folder(
            dataset, image_shape=shape, class_names=tuple(model.class_names or ()) or None
        )
        dataset = folder.load_arrays(split)
    else:
        split = ""
        if isinstance(dataset, pathlib.Path):
            dataset = data.load_images(dataset, shape)
    if limit is not None:
        size = len(tf.nest.flatten(dataset)[0])
        rows = np.linspace(0, size - 1, min(limit, size)).astype(int)
        dataset = tf.nest.map_structure(lambda part: part[rows], dataset)
    return Source(name, split, dataset, model.contract, batch_size)


@dataclasses.dataclass(frozen=True)
class Predictions:
    """What a model predicted on one split of a dataset; `evaluation.predict` makes it.

    Attributes:
        kind: "categorical" or "dirichlet".
        parts: for each network its raw outputs, float32 `[outputs, n, classes]`, and the function
            from any range of them, `[outputs, m, classes]`, to members `[members, m, classes]`; one
            after the other they are the whole stack.
        labels: int64 `[n]`, -1 where unknown.
        dataset: the data's name.
        fingerprint: the data's, whatever its order.
        inputs: hash of the inputs in their order.
        seconds: time of the forward passes; 0 where all came from the cache.

    Example:

    >>> predictions = evaluation.predict(model, (images, labels))
    >>> len(predictions), predictions.kind
    (40, 'dirichlet')
    """

    kind: str
    parts: tuple[tuple[np.ndarray, Callable], ...]
    labels: np.ndarray
    dataset: str
    fingerprint: str
    inputs: str
    seconds: float

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """All members for a range of examples, `[members, stop - start, classes]`."""
        return np.concatenate([members(raw[:, start:stop]) for raw, members in self.parts])

    def chunks(self) -> Iterator[np.ndarray]:
        """The whole stack in pieces of bounded size, in the order of the examples."""
        step = max(1, CHUNK_ELEMENTS // self.rows(0, 1).size)
        for start in range(0, len(self), step):
            yield self.rows(start, min(start + step, len(self)))


def predict(
    predictor: models.Predictor,
    dataset: Any,
    split: str = "test",
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    name: str = "data",
    limit: int | None = None,
    watch: Callable[..., Any] = lambda batches, **_: batches,
) -> Predictions:
    """Predicts a dataset, from the cache where its predictions are in it.

    Args:
        predictor: the model.
        dataset: as for `evaluation.evaluate`. A `tf.data.Dataset` is streamed: only labels and
            predictions stay in memory.
        split: split of a registered dataset or a folder.
        data_dir: TFDS folder.
        cache_dir: folder to look in and to write to; None keeps nothing.
        batch_size: examples per forward pass.
        name: of the data.
        limit: predict this many examples of arrays, evenly spread; `None`: all.
        watch: passes the batches of arrays on, such as `tqdm`; it gets their number as `total`, and
            the `name` as `desc`.

    Example:

    >>> predictions = evaluation.predict(model, (images, labels), name="mine")
    >>> predictions.rows(0, 10).shape
    (1, 10, 3)
    """
    source = open_source(predictor, dataset, name, split, data_dir, batch_size, True, limit)
    began, parts = time.monotonic(), predictor.cached_predictors
    content: Any = read(source)[0] if cache_dir else None
    paths: list[Any] = [cache_dir and _path(cache_dir, source, each, content) for each in parts]
    raw: list[Any] = [
        read_array(path, (len(content), part.num_classes)) if path else None
        for path, part in zip(paths, parts, strict=True)
    ]
    missing = [i for i, held in enumerate(raw) if held is None]
    if missing:
        seen, made = read(source, [parts[i] for i in missing], batch_size, watch)
        UserError.unless(
            not content or content.inputs == seen.inputs,
            f"{source.name}: expected the same examples in the same order in every pass, "
            "received a different order in the second. Remove the shuffling, or evaluate "
            "without a cache.",
        )
        content = seen
        for i, array in zip(missing, made, strict=True):
            raw[i] = array
            if paths[i]:
                files.write_array(paths[i], array)
    return Predictions(
        kind=predictor.kind,
        parts=tuple((r, p.members_from_raw) for r, p in zip(raw, parts, strict=True)),
        labels=content.labels,
        dataset=source.name,
        fingerprint=content.fingerprint,
        inputs=content.inputs,
        seconds=time.monotonic() - began if missing else 0.0,
    )


def read(
    source: Source,
    parts: Sequence[models.Predictor] = (),
    batch_size: int = 256,
    watch: Callable[..., Any] = lambda batches, **_: batches,
) -> tuple[data.Content, list[np.ndarray]]:
    """The hashes and labels of all examples, and the raw outputs of each part, from one pass."""
    content = data.Content()
    made: list[list[np.ndarray]] = [[] for _ in parts]
    for inputs, labels in source.batches():
        content.update(inputs, labels)
        watched = functools.partial(watch, desc=source.name, total=-(-len(labels) // batch_size))
        for part, outputs in zip(parts, made, strict=True):
            outputs.append(part.predict_raw(inputs, batch_size, watched))
    UserError.unless(
        len(content),
        f"{source.name}: expected at least one example, received none. Check the data.",
    )
    return content, [np.concatenate(outputs, axis=1) for outputs in made]


def weights_hash(predictor: models.Predictor) -> str:
    """SHA-256 of all weights of a model and of how it draws members.

    Example:

    >>> len(evaluation.weights_hash(model))
    64
    """
    digest = hashlib.sha256()
    for part in predictor.cached_predictors:
        digest.update(repr((FORMAT, *part.member_settings)).encode())
        for variable in part.weights:
            value = np.ascontiguousarray(variable.numpy())
            digest.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    return digest.hexdigest()


def cache_directory(model: zoo.Run | zoo.TrainedModel) -> pathlib.Path:
    """Where a model's predictions are: an ensemble and its members share those of the ensemble.

    Example:

    >>> evaluation.cache_directory(zoo.Run.open("run")).name
    'predictions'
    """
    run: Any = getattr(model, "run", model)
    if run is None:
        return data.cache_dir() / PREDICTIONS / model.recipe.name
    home = run.home.resolve()
    is_member = home.name.startswith(MEMBER) and zoo.is_run(home.parent)
    return (home.parent if is_member else home) / PREDICTIONS


def read_array(path: pathlib.Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Stored float32 outputs `[outputs, *shape]`; None where missing, damaged or of another shape.

    The file stays on disk: what is read of the array is read when it is used.
    """
    try:
        raw = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return None
    return raw if raw.shape[1:] == shape and raw.dtype == np.float32 else None


def _path(cache_dir, source, part, content):
    """Where a part's outputs are, under whatever name of the data, or where they will be."""
    key = hashlib.sha256((weights_hash(part) + content.inputs).encode()).hexdigest()[:20]
    stem = f"{source.name}.{source.split}" if source.split else source.name
    folder = pathlib.Path(cache_dir)
    return next(folder.glob(f"*.{key}.npy"), folder / f"{stem}.{key}.npy")


def inference_time(
    predictor: models.Predictor,
    reference: models.Predictor,
    batch_size: int = 64,
    repetitions: int = 10,
) -> tuple[float, float]:
    """Milliseconds per example, and how many times those of a reference model.

    The two take turns, so that whatever else the machine does slows both; each repetition gives
    one ratio and the median is taken.
    """
    contract = predictor.contract
    inputs = tf.nest.map_structure(
        lambda values, spec: tf.constant(values, spec.dtype),
        contract.sample(batch_size),
        contract.specs(),
    )
    functions = [tf.function(model.member_logits) for model in (predictor, reference)]
    calls = [functools.partial(lambda f: f(inputs).numpy(), each) for each in functions]
    # The first repetition traces the graphs.
    rounds = range(1 + repetitions)
    times = [[timeit.timeit(call, number=1) for call in calls] for _ in rounds][1:]
    own = float(np.median([each for each, _ in times]))
    return 1000.0 * own / batch_size, float(np.median([each / other for each, other in times]))
