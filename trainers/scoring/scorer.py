"""A model as a function from examples to the columns of a table."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import tensorflow as tf

from s2d_tf import export, posthoc, zoo
from s2d_tf.data import image_files
from s2d_tf.errors import UserError

from .example_files import Example

if TYPE_CHECKING:
    from s2d_tf.models import Predictor

SCORES = ("confidence", "total_uncertainty", "data_uncertainty", "knowledge_uncertainty")
_NAMES = {"probs": "probabilities"} | {name.removesuffix("_uncertainty"): name for name in SCORES}
_PIXELS = (0.0, 255.0)


@dataclasses.dataclass(frozen=True)
class Scorer:
    """Predictions for batches of examples.

    Attributes:
        function: from a batch of inputs to a dict of arrays, named as an exported model names them.
        image_shape: height, width and channels of an image model; `None` for a text model.
        class_names: one per class, if known.
        sha256: identifies the model.
        name: for people.

    Example:

    >>> scorer = scoring.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> scorer.name, scorer.image_shape
    ('wrn_10_2_s2.s2d.digits', (8, 8, 1))
    """

    function: Callable
    image_shape: Any
    class_names: Sequence[str] | None
    sha256: str
    name: str

    def inputs(
        self, examples: Sequence[Example]
    ) -> tuple[np.ndarray, list[Example], list[tuple[str, str]]]:
        """What the model takes of some examples.

        Returns:
            The batch, the examples in it, and pairs of name and reason for the others.
        """
        with concurrent.futures.ThreadPoolExecutor() as pool:
            values, errors = zip(*pool.map(self._input, examples), strict=True)
        good = [i for i, error in enumerate(errors) if not error]
        kind = np.float32 if self.image_shape else object
        batch = np.array([values[i] for i in good], kind)
        skipped = [(example.name, e) for example, e in zip(examples, errors, strict=True) if e]
        return batch, [examples[i] for i in good], skipped

    def columns(
        self, batch: np.ndarray, examples: Sequence[Example], top_k: int
    ) -> tuple[pyarrow.Table, list[tuple[str, str]]]:
        """Predicts a batch.

        Returns:
            A table with one row per example, and pairs of name and reason for examples whose
            prediction is not finite.
        """
        outputs = {name: np.asarray(value) for name, value in self.function(batch).items()}
        finite = np.isfinite(outputs["probabilities"]).all(axis=-1)
        outputs = {name: value[finite] for name, value in outputs.items()}
        kept, wrong = (
            [examples[int(i)] for i in np.flatnonzero(is_one)] for is_one in (finite, ~finite)
        )
        probabilities, labels = outputs.pop("probabilities"), outputs.pop("label")
        table: dict[str, Any] = {
            "input": pyarrow.array([example.name for example in kept], pyarrow.string()),
            "label": labels,
        }
        if self.class_names:
            names = [self.class_names[int(label)] for label in labels]
            table["class"] = pyarrow.array(names, pyarrow.string())
        table |= {name: outputs.pop(name) for name in SCORES}
        # Stable, so that ties go to the lower class, as with `argmax`.
        order = np.argsort(-probabilities, axis=-1, kind="stable")[:, :top_k]
        most = np.take_along_axis(probabilities, order, axis=-1)
        for rank in range(order.shape[1]):
            table[f"top_{rank + 1}_label"] = order[:, rank]
            table[f"top_{rank + 1}_probability"] = most[:, rank]
        for name, values in outputs.items():  # what fitted steps add; sets as class numbers
            sets = [" ".join(map(str, np.flatnonzero(row))) for row in values]
            table[name] = values if values.ndim == 1 else pyarrow.array(sets, pyarrow.string())
        targets = [self._target(example.label, probabilities.shape[1]) for example in kept]
        with np.errstate(divide="ignore"):
            log_probs = np.log(probabilities.astype(np.float64))
        own = [None if t is None else row[t] for t, row in zip(targets, log_probs, strict=True)]
        table["target"] = pyarrow.array(targets, pyarrow.int64())
        table["target_log_probability"] = pyarrow.array(own, pyarrow.float64())
        return pyarrow.table(table), [(each.name, "the prediction is not finite") for each in wrong]

    def _input(self, example):
        """What the model takes of one example, and the reason if there is none."""
        content = example.content
        if example.error or isinstance(content, str):
            return content, example.error
        try:
            return (self._pixels(content) if self.image_shape else content.decode()), ""
        except tf.errors.InvalidArgumentError:
            return None, "the file is damaged"
        except ValueError as error:
            return None, str(error)

    def _pixels(self, content):
        """Pixels of a file, or of nothing but pixels."""
        is_file = content.startswith((image_files.PNG_START, image_files.JPEG_START))
        if not is_file and len(content) == np.prod(self.image_shape):
            return np.frombuffer(content, np.uint8).reshape(self.image_shape)
        if image_files.check(content, image_files.MAX_PIXELS) == self.image_shape[:2]:
            return image_files.decode(content, self.image_shape[-1]).numpy()
        return image_files.decode_batch(tf.constant([content]), self.image_shape).numpy()[0]

    def _target(self, label, num_classes):
        if isinstance(label, str):
            names = self.class_names or ()
            return names.index(label) if label in names else None
        return label if label is not None and 0 <= label < num_classes else None


def open_scorer(where: str | os.PathLike, steps: Sequence[str | os.PathLike] = ()) -> Scorer:
    """Opens a model.

    Args:
        where: the name of a zoo entry, a run directory, the folder or URL of an entry, or a folder
            that `s2d export` wrote.
        steps: files of fitted post-hoc steps to add, in the order in which they were fitted.

    Example:

    >>> scorer = scoring.open_scorer("run")             # or a zoo name, or an exported version
    >>> len(scorer.class_names)
    8
    """
    if not zoo.is_run(where) and export.is_exported(where):
        UserError.unless(
            not steps,
            f"step: expected none for an exported model, received {[*map(str, steps)]}. Export "
            "the model with its steps.",
        )
        return _of_version(export.load(where))
    opened = zoo.open_model(pathlib.Path(where) if zoo.is_run(where) else where)
    return of_model(opened.predictor, steps, opened.name)


def of_model(
    model: Predictor, steps: Sequence[str | os.PathLike] = (), name: str = "model"
) -> Scorer:
    """Returns the `Scorer` of a `models.Predictor`; arguments as for `open_scorer`."""
    for path in steps:
        model = posthoc.load(path, model)
    contract, image = model.contract, model.contract.image
    of_texts = [tensor.dtype for tensor in contract.tensors] == ["string"]
    of_images = image and image.shape[-1] in (1, 3) and image.range in (None, _PIXELS)
    if not (of_images or of_texts):
        taken = [(tensor.name, tensor.shape, tensor.range) for tensor in contract.tensors]
        raise ValueError(
            "model: expected one of texts or of gray or RGB images with pixels from 0 to 255, "
            f"received one of {taken}. Use `predict_uncertainty`."
        )
    names, wrapper = dict(_NAMES), model
    while isinstance(wrapper, posthoc.StepPredictor):
        names |= {wrapper.step.name: wrapper.step.served or wrapper.step.name}
        wrapper = wrapper.model

    def function(batch):
        found = model.predict_uncertainty(batch, len(batch))
        return {names.get(key, key): value for key, value in found.items()}

    shape = tuple(image.shape) if image and of_images else None
    return Scorer(function, shape, model.class_names, posthoc.model_sha256(model), name)


def _of_version(version):
    (key, spec), *others = version.inputs.items()
    of_texts = spec.dtype == tf.string
    signature = version.signatures.get("serving_default" if of_texts else "serve_float")
    UserError.unless(
        not others and signature is not None,
        f"{version.folder}: expected a model of texts or of raw pixels, received one of "
        f"{sorted(version.inputs)}. Call its signature `serving_default`.",
    )

    def function(batch, _keep=version):
        return signature(**{key: tf.constant(batch)})

    shape = None if of_texts else tuple(spec.shape[1:])
    return Scorer(function, shape, version.class_names, version.sha256, str(version.folder))
