"""A model as a function from examples to answers."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from s2d_tf import posthoc, zoo
from s2d_tf._types import PathLike, Shape
from s2d_tf.data import archives, image_files
from s2d_tf.export import answers, encoded_images, reading
from s2d_tf.models import inputs
from s2d_tf.models.contract import PIXELS

if TYPE_CHECKING:
    from s2d_tf.models import Predictor

    from . import sources


class Scorer:
    """Answers for batches of examples, with the names that an exported model has.

    Args:
        function: from a batch of inputs to a dict of arrays, see `export.save`.
        image_shape: height, width and channels of a model of images, else `None` for text.
        class_names: one for each class, where they are known.
        sha256: identifies the model.
        name: for people.

    Example:

    >>> scorer = prediction.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> scorer.name, scorer.image_shape
    ('wrn_10_2_s2.s2d.digits', (8, 8, 1))
    >>> sorted(scorer(np.zeros([2, 8, 8, 1], np.float32)))[:2]
    ['confidence', 'data_uncertainty']
    """

    def __init__(
        self,
        function: Callable,
        image_shape: Shape | None,
        class_names: Sequence[str] | None,
        sha256: str,
        name: str,
    ) -> None:
        self.image_shape: Any = image_shape
        self.class_names = tuple(class_names) if class_names else None
        self.sha256 = sha256
        self.name = name
        self._function = function
        if image_shape:
            spec = [tf.TensorSpec([None], tf.string)]
            self._decode = tf.function(
                lambda files: encoded_images.decode_batch(files, image_shape), input_signature=spec
            )
            # To resize an image to its own size, with all checks, takes three times as long.
            self._decode_same_size = tf.function(
                lambda files: tf.map_fn(
                    lambda file: archives.decode_picture(file, image_shape[-1]),
                    files,
                    fn_output_signature=tf.TensorSpec(image_shape, tf.uint8),
                ),
                input_signature=spec,
            )

    def inputs(
        self, examples: Sequence[sources.Example]
    ) -> tuple[np.ndarray, list, list[tuple[str, str]]]:
        """What a model takes of some examples.

        Returns:
            The batch, the examples that are in it, and pairs of name and reason of the others.
        """
        damaged = [(each.name, each.error) for each in examples if each.error]
        held = [each for each in examples if not each.error]
        if self.image_shape is None:
            texts = [each.content for each in held]
            texts = [text.encode() if isinstance(text, str) else text for text in texts]
            return np.array(texts, object), held, damaged
        good, encoded = [], []
        for example in held:
            try:
                encoded.append(self._checked(example))
                good.append(example)
            except ValueError as error:
                damaged.append((example.name, str(error)))
        pixels, wrong = self._pixels(encoded)
        damaged += [(good[i].name, reason) for i, reason in wrong.items()]
        return pixels, [each for i, each in enumerate(good) if i not in wrong], damaged

    def __call__(self, inputs: np.ndarray) -> dict[str, np.ndarray]:
        return {name: np.asarray(value) for name, value in self._function(inputs).items()}

    def _checked(self, example):
        """The bytes of a file, or pixels of the model's shape."""
        content = example.content
        if isinstance(content, bytes):
            is_file = content.startswith((archives.PNG_START, archives.JPEG_START))
            if not is_file and len(content) == np.prod(self.image_shape):
                return np.frombuffer(content, np.uint8).reshape(self.image_shape)
            size = image_files.check(content, encoded_images.MAX_PIXELS)
            return _SameSize(content) if size == self.image_shape[:2] else content
        pixels = np.asarray(content)
        if pixels.size != np.prod(self.image_shape) or pixels.dtype.kind not in "uif":
            raise ValueError(
                f"expected an image file or {self.image_shape} pixels, received {pixels.dtype} "
                f"{pixels.shape}"
            )
        if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 255):
            raise ValueError("expected pixels in [0, 255], received others")
        return pixels.reshape(self.image_shape)

    def _pixels(self, contents):
        """Pixels of all that can be decoded, and what is wrong with the others."""
        wrong, rows = {}, dict(enumerate(contents))
        for decode in (self._decode_same_size, self._decode):
            kind = _SameSize if decode is self._decode_same_size else bytes
            at = [i for i, each in rows.items() if type(each) is kind]
            try:
                if at:
                    decoded = decode(tf.constant([rows[i] for i in at], tf.string)).numpy()
                    rows |= zip(at, decoded, strict=True)
            except tf.errors.InvalidArgumentError:
                for i in at:
                    try:
                        rows[i] = self._decode(tf.constant([rows[i]])).numpy()[0]
                    except tf.errors.InvalidArgumentError as error:
                        wrong[i] = _reason(error)
        good = [row for i, row in rows.items() if i not in wrong]
        pixels = np.empty([len(good), *self.image_shape], np.float32)
        for i, row in enumerate(good):
            pixels[i] = row
        return pixels, wrong


class _SameSize(bytes):
    """A file of an image that has the model's size."""


def open_scorer(where: PathLike, steps: Sequence[PathLike] = ()) -> Scorer:
    """Opens a model to score with.

    Args:
        where: the name of a zoo entry, a run directory, the folder or address of an entry, or a
            folder that `s2d export` wrote.
        steps: paths of fitted post-hoc steps that the model does not carry yet, in the order in
            which they were fitted.

    Example:

    >>> scorer = prediction.open_scorer("run")             # or a zoo name, or an exported version
    >>> len(scorer.class_names)
    8
    """
    if not zoo.is_run(where) and reading.is_exported(where):
        given = {"step": list(map(str, steps))}
        for name, value in given.items():
            if value:
                raise ValueError(
                    f"{name}: expected none for an exported model, received {value}. Export the "
                    "model with it."
                )
        return _exported(reading.Version(where))
    opened = zoo.open_model(pathlib.Path(where) if zoo.is_run(where) else where)
    return of_model(opened.predictor, steps, opened.name)


def of_model(model: Predictor, steps: Sequence[PathLike] = (), name: str = "model") -> Scorer:
    """A `Scorer` of a `models.Predictor`."""
    for path in steps:
        model = posthoc.load(path, model)
    model.check_fitted()
    contract, image = model.contract, model.contract.image
    of_texts = [tensor.dtype for tensor in contract.tensors] == ["string"]
    of_images = (
        image is not None
        and image.shape[-1] in encoded_images.CHANNELS
        and image.range in (None, PIXELS)
    )
    if not (of_images or of_texts):
        taken = [(tensor.name, tensor.shape, tensor.range) for tensor in contract.tensors]
        raise ValueError(
            "model: expected one of texts or of gray or RGB images with pixels from 0 to 255, "
            f"received one of {taken}. Use `predict_uncertainty`."
        )
    # `reject` would fail a whole batch for one answer that is not a number.
    compute = model.traced("answers", answers.answer_function(model, reject=False))

    def function(batch):
        batch = tf.constant(batch) if of_texts else batch
        return compute(inputs.cast(batch, contract))

    sha256 = posthoc.saving.model_sha256(model)
    return Scorer(function, model.image_shape, model.class_names, sha256, name)


def _exported(version):
    (key, spec), *others = version.inputs.items()
    of_texts = spec.dtype == tf.string
    signature = version.signatures.get("serving_default" if of_texts else "serve_float")
    if others or signature is None:
        raise ValueError(
            f"{version.folder}: expected a model of texts or of raw pixels, received one of "
            f"{sorted(version.inputs)}. Call its signature `serving_default`."
        )
    shape = None if of_texts else tuple(spec.shape[1:])

    def function(batch, _keep=version):
        return signature(**{key: tf.constant(batch)})

    return Scorer(function, shape, version.class_names, version.sha256, str(version.folder))


def _reason(error):
    """The line of TensorFlow's message that says what is wrong with a file."""
    text = str(error.message).split("\n")[0]
    return text.rpartition("}} ")[2][:300] or "the file is damaged"
