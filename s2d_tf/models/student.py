"""A student of an ensemble: EnD, En2D, H2D-Dir and H2D-Gauss differ only in their loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import keras
import tensorflow as tf

from s2d_tf._types import Data, Inputs
from s2d_tf.layers import Head
from s2d_tf.losses import DistillationLoss, scale_from_log
from s2d_tf.models.classifier import Classifier
from s2d_tf.models.contract import require

if TYPE_CHECKING:
    from s2d_tf.models.predictor import Predictor

DRAWS_SEED = (2022, 0)
"""Of the draws of a Gaussian student: the same for all images, models and batches."""


@keras.saving.register_keras_serializable(package="s2d_tf")
class Student(Classifier):
    """A classifier that learns from teacher predictions instead of labels.

    What it predicts follows from its loss: class probabilities (`losses.SoftCrossEntropy`), a
    Dirichlet (`losses.DirichletKLDivergence`, `losses.DirichletNegativeLogLikelihood`), or a
    diagonal Gaussian over log-concentrations (`losses.NormalKLDivergence`),
    which needs a second head and is drawn from at prediction.

    `fit` takes `(inputs, {"labels": ..., "teacher_logits": [batch, members, classes]})`, or
    `(inputs, labels)` after `learn_from(teacher)`. Labels only feed the metrics.

    Args:
        backbone, num_classes, **kwargs: as for `Classifier`.
        objective: a `losses.DistillationLoss`.
        num_draws: members that a Gaussian student draws at prediction.
        initial_scale: the Gaussian's deviation before training; the second head starts there with
            zero weights.

    Example:

    >>> student = models.Student(backbone, num_classes=3, objective=losses.DirichletKLDivergence())
    >>> student = student.learn_from(model)                # a trained S2D model or ensemble
    >>> student.compile("sgd")
    >>> history = student.fit(images, labels, epochs=1, verbose=0)
    >>> student.kind
    'dirichlet'
    """

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        objective: DistillationLoss,
        num_draws: int = 50,
        initial_scale: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, **kwargs)
        require(
            isinstance(objective, DistillationLoss),
            f"objective: expected a losses.DistillationLoss, received {objective!r}. Pass one such "
            "as losses.DirichletKLDivergence().",
        )
        require(
            self.num_heads == 1,
            f"num_heads: expected 1 for a student, received {self.num_heads!r}. Leave it out.",
        )
        require(
            num_draws >= 1,
            f"num_draws: expected at least 1, received {num_draws!r}. The paper has 50.",
        )
        require(
            initial_scale > 0,
            f"initial_scale: expected a number above 0, received {initial_scale!r}. The default is "
            "0.5.",
        )
        self.objective = objective
        self.num_draws = num_draws
        self.initial_scale = initial_scale
        self.predicts = objective.student
        self.kind = self.predicts
        if self.predicts == "gaussian":
            self.kind = objective.teacher_kind or "dirichlet"
            self.scale_head = Head(
                num_classes,
                kernel_initializer="zeros",
                bias_initializer=keras.initializers.Constant(math.log(initial_scale)),
                name="scale_head",
            )
            self.scale_head.build((None, 1, 1, backbone.output_shape[-1]))
        self.trackers = {objective.name: keras.metrics.Mean(name=objective.name)}
        object.__setattr__(self, "_teacher", None)

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.num_draws if self.predicts == "gaussian" else 1

    def learn_from(self, teacher: Predictor) -> Self:
        """Lets a `Predictor` make the targets inside each training step (for augmented inputs).

        The teacher is not part of this model: neither its weights nor its decay or counts.
        """
        self.check_teacher(teacher)
        object.__setattr__(self, "_teacher", teacher)  # unseen by Keras' tracking
        return self

    def check_teacher(self, teacher: Predictor) -> None:
        """Raises a `ValueError` where a `Predictor` cannot be this student's teacher."""
        fits = self.contract.fits(teacher.contract)
        needed = {
            "num_classes": (self.num_classes, teacher.num_classes),
            "kind": (self.objective.teacher_kind or teacher.kind, teacher.kind),
            "inputs": (self.contract.tensors, (self if fits else teacher).contract.tensors),
        }
        for name, (expected, received) in needed.items():
            require(
                expected == received,
                f"teacher: expected {name} {expected!r}, as this student with "
                f"{self.objective.name} needs, received {received!r}. Choose another teacher or "
                "objective.",
            )

    def warm_start(self, model: Classifier) -> Self:
        """Copies the backbone and the head of a trained model; returns `self`."""
        self.backbone.set_weights(model.backbone.get_weights())
        self.head.set_weights(model.head.get_weights())
        return self

    @property
    def linear_layers(self) -> list[keras.layers.Layer]:
        return [self.head, self.scale_head] if self.predicts == "gaussian" else [self.head]

    def call(self, inputs: Inputs, training: bool = False) -> Any:
        features = self.features(inputs, training)[:, None, None, :]
        logits = self.head(features)[:, 0, 0]
        if self.predicts != "gaussian":
            return logits
        return {"loc": logits, "log_scale": self.scale_head(features)[:, 0, 0]}

    def member_logits(self, inputs: Inputs) -> tf.Tensor:
        return self.members_from_raw(self.raw_outputs(inputs))

    def raw_outputs(self, inputs: Inputs) -> tf.Tensor:
        outputs = self(inputs, training=False)
        return outputs[None] if self.predicts != "gaussian" else tf.stack(list(outputs.values()))

    def members_from_raw(self, raw: tf.Tensor) -> tf.Tensor:
        if self.predicts != "gaussian":
            return raw
        loc, log_scale = tf.unstack(raw)
        noise = tf.random.stateless_normal([self.num_draws, 1, self.num_classes], DRAWS_SEED)
        return loc + scale_from_log(log_scale) * noise

    def _check(self, x, targets, training=False):
        super()._check(x, targets)
        given = isinstance(targets, dict) and {"labels", "teacher_logits"} <= set(targets)
        require(
            given or self._teacher is not None or not training,
            'targets: expected {"labels": ..., "teacher_logits": ...}, received '
            f"{type(targets).__name__}. Pass such a dict, or call learn_from(teacher) first.",
        )
        if given:
            shape = tf.TensorShape(targets["teacher_logits"].shape)
            require(
                shape.is_compatible_with([None, None, self.num_classes]),
                f"teacher_logits: expected the shape [batch, members, {self.num_classes}], "
                f"received {tuple(shape)}. Put the members on axis 1.",
            )

    def train_step(self, data: Data) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if self._teacher is not None:
            members = tf.stop_gradient(self._teacher.member_logits(x))
            y = {"labels": y, "teacher_logits": tf.transpose(members, [1, 0, 2])}
        return super().train_step((x, y, sample_weight))

    def test_step(self, data: Data) -> dict[str, Any]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        return super().test_step((x, y["labels"] if isinstance(y, dict) else y, sample_weight))

    def compute_loss(
        self,
        x: Data | None = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        if not training:
            return super().compute_loss(x, y, self._point(y_pred), sample_weight, training=False)
        if self.predicts == "gaussian":
            y_pred = tf.concat([y_pred["loc"], y_pred["log_scale"]], axis=-1)
        loss = self.objective(y["teacher_logits"], y_pred, sample_weight)
        self._track(self.objective.name, loss, y_pred)
        return loss + self._decay()

    def compute_metrics(
        self, x: Data, y: Any, y_pred: Any, sample_weight: tf.Tensor | None = None
    ) -> dict[str, Any]:
        results = super().compute_metrics(x, y, self._point(y_pred), sample_weight)
        hidden = () if isinstance(y, dict) else self.trackers  # a dict only in training
        return {name: results[name] for name in results if name not in hidden}

    def _point(self, outputs):
        """The logits of the most probable prediction, without draws."""
        return outputs["loc"] if self.predicts == "gaussian" else outputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "objective": keras.saving.serialize_keras_object(self.objective),
            "num_draws": self.num_draws,
            "initial_scale": self.initial_scale,
        }
