"""Self-distribution distillation: a Dirichlet learned from the model's own noisy predictions."""

from __future__ import annotations

import math
from typing import Any, Self

import keras
import tensorflow as tf

from s2d_tf import _types, losses, numerics
from s2d_tf._types import Data, Inputs
from s2d_tf.layers import MultiplicativeGaussianNoise, Noise
from s2d_tf.models.classifier import Classifier
from s2d_tf.models.contract import require

FLOOR_SHARPNESS = 5.0
"""The first author's softplus ln(1 + exp(5 x)) / 5 of log-concentrations, (1 + a^5)^(1/5) of a
concentration, which keeps a target from favoring the corners of the simplex."""


@keras.saving.register_keras_serializable(package="s2d_tf")
class S2DClassifier(Classifier):
    """One network that is its own teacher ensemble and its own student (section 3 of the paper).

    In training the features pass `num_samples` times through noise and the final linear layer: the
    teacher's predictions, trained on the labels. A proxy Dirichlet is fitted to them, softened by
    the temperature, and the noise-free pass, the student, learns it: its logits are
    log-concentrations. At prediction only the student runs, at the cost of a plain classifier.

    Args:
        backbone, num_classes, **kwargs: as for `Classifier`.
        num_samples: teacher passes (the paper's M).
        noise_stddev: deviation of the multiplicative Gaussian noise; a pair `(low, high)` draws it
            uniformly for each example and pass. The paper's WRN uses 0.1.
        temperature: softens the teacher predictions before the proxy is fitted (T).
        student_weight: weight of the student's loss (mu).
        proxy: how the proxy is fitted: "newton", the exact maximum of the likelihood, or
            "mean_precision", the first author's: the mean is that of the teacher, only the total
            concentration is fitted, and every concentration is then lifted above 1. (His code
            takes a few fixed-point steps and replaces totals that overflow by the batch's mean;
            here the total is fitted to convergence and is always finite.)
        student_loss: "kl" (to the proxy, the paper's), "balanced_kl" (ours, the default: the same,
            with no example weighing more than its label, see `balance`), "reverse_kl", or
            "log_likelihood" (equation 3 on the softened teacher predictions, no proxy).
        noise: a `layers.Noise` in place of `num_samples` and `noise_stddev`.

    Example:

    >>> model = models.S2DClassifier(backbone, num_classes=3, mean=[127.0], stddev=[64.0])
    >>> model.compile("sgd")
    >>> history = model.fit(images, labels, epochs=1, verbose=0)
    >>> answer = model.predict_uncertainty(images)
    >>> answer["knowledge"].shape
    (40,)
    """

    kind = "dirichlet"

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        num_samples: int = 5,
        noise_stddev: float | tuple[float, float] = (0.0, 0.5),
        temperature: float = 1.5,
        student_weight: float = 1.28e-4,
        proxy: str = "newton",
        student_loss: str = "balanced_kl",
        noise: Noise | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, **kwargs)
        require(
            not isinstance(temperature, str) and temperature > 0,
            f"temperature: expected a number above 0, received {temperature!r}. The paper has 1.5.",
        )
        require(
            student_weight >= 0,
            f"student_weight: expected at least 0, received {student_weight!r}. Pass 0 for the "
            "teacher alone.",
        )
        require(
            student_loss in _types.STUDENT_LOSSES,
            f"student_loss: expected one of {_types.STUDENT_LOSSES}, received {student_loss!r}. "
            "The paper has 'kl'.",
        )
        require(
            proxy in numerics.FIT_METHODS,
            f"proxy: expected one of {numerics.FIT_METHODS}, received {proxy!r}. The paper has "
            "'newton'.",
        )
        require(
            noise is None or isinstance(noise, Noise),
            f"noise: expected None or a layers.Noise, received {noise!r}. Pass noise_stddev for "
            "Gaussian noise.",
        )
        self.num_samples = num_samples
        self.noise_stddev = noise_stddev
        self.temperature = temperature
        self.student_weight = student_weight
        self.proxy = proxy
        self.student_loss = student_loss
        self.noise = noise or MultiplicativeGaussianNoise(
            noise_stddev, num_samples, seed=self.seed, name="noise"
        )
        self.noise.build((None, self.num_heads, backbone.output_shape[-1]))
        self.student_objective = (
            losses.DirichletNegativeLogLikelihood()
            if student_loss == "log_likelihood"
            else losses.DirichletKLDivergence(reverse=student_loss == "reverse_kl")
        )
        self.trackers = {
            name: keras.metrics.Mean(name=name)
            for name in ("teacher_loss", "student_loss", "log_concentration")
        }

    def head_only(self, fresh: bool = False, **changes: Any) -> Self:
        if type(self.noise) is MultiplicativeGaussianNoise and self.noise.name == "noise":
            changes.setdefault("noise", None)  # a new one, since settings may have changed
        return super().head_only(fresh, **changes)

    def call(self, inputs: Inputs, training: bool = False) -> Any:
        if not training:
            return super().call(inputs)
        features = tf.cast(self.features(inputs, training=True), tf.float32)
        features = tf.stack([features] * self.num_heads, axis=1)
        noisy = tf.cast(self.noise(features), tf.float32)
        # One product for the student and all teacher passes.
        logits = self.head(tf.concat([features[:, :, None], noisy], axis=2))
        # The gradient of a split is one concatenation, that of slices a padded copy for each.
        student_logits, teacher_logits = tf.split(logits, [1, noisy.shape[2]], axis=2)
        return {
            "student_logits": self._heads_first(tf.squeeze(student_logits, axis=2)),
            "teacher_logits": tf.cast(teacher_logits, tf.float32),
        }

    def compute_loss(
        self,
        x: Data | None = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        if not training:
            return super().compute_loss(x, y, y_pred, sample_weight, training=False)
        labels, student_logits, sample_weight = self._rows(
            y, y_pred["student_logits"], sample_weight
        )
        teacher_logits = y_pred["teacher_logits"]
        passes = teacher_logits.shape[2]
        teacher_logits = tf.reshape(teacher_logits, [-1, passes, self.num_classes])
        teacher_loss = keras.Model.compute_loss(
            self,
            x,
            tf.repeat(labels, passes, axis=0),
            tf.reshape(teacher_logits, [-1, self.num_classes]),
            None if sample_weight is None else tf.repeat(sample_weight, passes, axis=0),
            training=True,
        )
        # The one place where the target is cut off from the gradient: the student learns from
        # the teacher, never the teacher from the student.
        target = tf.stop_gradient(self.student_target(teacher_logits))
        student_loss = self.student_objective(
            target, student_logits, self.balance(student_logits, sample_weight)
        )
        self._track("teacher_loss", teacher_loss, student_logits)
        self._track("student_loss", student_loss, student_logits)
        self.trackers["log_concentration"].update_state(
            tf.reduce_logsumexp(student_logits, axis=-1)
        )
        objective = teacher_loss + self.student_weight * student_loss
        return self.num_heads * objective + self._decay()

    def student_target(self, teacher_logits: tf.Tensor) -> tf.Tensor:
        """What the student shall match, from teacher logits `[rows, passes, classes]`."""
        softened = teacher_logits / tf.cast(self.temperature, tf.float32)
        if self.student_loss == "log_likelihood":
            return softened
        proxy = numerics.fit_dirichlet(tf.nn.log_softmax(softened, axis=-1), method=self.proxy)
        log_concentrations = tf.math.log(proxy)
        if self.proxy == "mean_precision":
            log_concentrations = (
                tf.nn.softplus(FLOOR_SHARPNESS * log_concentrations) / FLOOR_SHARPNESS
            )
        return log_concentrations[:, None, :]

    def balance(
        self, student_logits: tf.Tensor, sample_weight: tf.Tensor | None = None
    ) -> tf.Tensor | None:
        """Sample weights of the student's loss under "balanced_kl"; else those that were given.

        Where a student with total concentration a_0 meets its target, the Hessian of the
        divergence in the logits is a_0 times that of the cross-entropy with the label. So with the
        weight mu the student's loss is a cross-entropy of weight mu a_0. That has no bound: with
        little noise the proxy is sharp, and an example of concentration 1e6 outweighs its label a
        hundred times, for which the learning rate is a hundred times too large. Dividing by mu a_0
        where that is above 1 lets no student's loss weigh more than its label; the other examples,
        nearly all under the paper's settings, are as they were.
        """
        if self.student_loss != "balanced_kl" or not self.student_weight:
            return sample_weight
        log_total = tf.stop_gradient(tf.reduce_logsumexp(student_logits, axis=-1))
        weight = tf.exp(-tf.nn.relu(log_total + math.log(self.student_weight)))
        return weight if sample_weight is None else weight * tf.cast(sample_weight, weight.dtype)

    def compute_metrics(
        self, x: Data, y: Any, y_pred: Any, sample_weight: tf.Tensor | None = None
    ) -> dict[str, Any]:
        if not isinstance(y_pred, dict):
            results = super().compute_metrics(x, y, y_pred, sample_weight)
            return {name: results[name] for name in results if name not in self.trackers}
        return super().compute_metrics(x, y, y_pred["student_logits"], sample_weight)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_samples": self.num_samples,
            "noise_stddev": self.noise_stddev,
            "temperature": self.temperature,
            "student_weight": self.student_weight,
            "proxy": self.proxy,
            "student_loss": self.student_loss,
            "noise": keras.saving.serialize_keras_object(self.noise),
        }
