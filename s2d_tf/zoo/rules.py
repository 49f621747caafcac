"""What the numbers of a recipe may be. Needs no TensorFlow, so that a mistake is told at once."""

import numbers

from s2d_tf import _choices

MAX_SIDE = 1024
SCHEDULES = ("steps", "cosine", "linear", "constant")
OPTIMIZERS = ("sgd", "muon", "adam")
LEARNS = ("labels", "self", "teachers")
DRAWS = ("point", "dropout", "swag", "ensemble")
OBJECTIVES = {
    "soft_cross_entropy": ("SoftCrossEntropy", "temperature", "scale_student"),
    "dirichlet_negative_log_likelihood": ("DirichletNegativeLogLikelihood", "temperature"),
    "dirichlet_kl_divergence": ("DirichletKLDivergence", "reverse", "concentration_temperature"),
    "dirichlet_fisher_distance": ("DirichletFisherDistance", "teacher_kind", "temperature"),
    "normal_kl_divergence": ("NormalKLDivergence", "teacher_kind", "detach_scale"),
    "normal_negative_log_likelihood": (
        *("NormalNegativeLogLikelihood", "teacher_kind", "detach_scale"),
    ),
}
"""What students learn by: a class of `losses`, and the numbers of the recipe that it takes."""


def _numbers(values, low, above=False):
    values = values if isinstance(values, tuple) else (values,)
    plain = all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in values)
    return bool(values) and plain and all(v > low if above else v >= low for v in values)


def _one_of(names):
    return lambda value: value in names, f"one of {', '.join(names)}"


_COUNT = (lambda value: value >= 1, "at least 1")
_POSITIVE = (lambda value: _numbers(value, 0, above=True), "above 0")
_NOT_NEGATIVE = (lambda value: _numbers(value, 0), "not below 0")
_FRACTIONS = (lambda value: all(0 < part < 1 for part in value), "in (0, 1)")
_FRACTION = (lambda value: 0 <= value < 1, "in [0, 1)")

_OWN_DATA = (
    lambda value: (
        len(value.image_shape) == 3
        and all(1 <= size <= MAX_SIDE for size in value.image_shape)
        and len(value.mean) == len(value.stddev) == value.image_shape[-1]
        and len(set(value.class_names)) == len(value.class_names)
    ),
    f"three sizes from 1 to {MAX_SIDE}, statistics of each channel, and different class names",
)

RULES = {
    "own_data": _OWN_DATA,
    "num_classes": (lambda value: value >= 2, "at least 2"),
    "num_members": _COUNT,
    "heads": _COUNT,
    "learns": _one_of(LEARNS),
    "draws": _one_of(DRAWS),
    "objective": _one_of(OBJECTIVES),
    "detection_score": _one_of(("confidence", "total", "data", "knowledge")),
    "data.mean": (lambda value: value == () or _numbers(value, float("-inf")), "numbers"),
    "data.stddev": (lambda value: value == () or _numbers(value, 0, above=True), "above 0"),
    "data.batch_size": _COUNT,
    "data.augmentation": _one_of(("none", *_choices.AUGMENTATIONS)),
    "data.padding": _one_of(_choices.PADDINGS),
    "data.max_shift": _NOT_NEGATIVE,
    "data.held_out": _NOT_NEGATIVE,
    "data.resolutions": _FRACTIONS,
    "data.resolution_milestones": _FRACTIONS,
    "training.epochs": _COUNT,
    "training.learning_rate": _POSITIVE,
    "training.schedule": _one_of(SCHEDULES),
    "training.milestones": (lambda value: not value or _numbers(value, 0, above=True), "above 0"),
    "training.factor": _POSITIVE,
    "training.warmup": _NOT_NEGATIVE,
    "training.momentum": _FRACTION,
    "training.optimizer": _one_of(OPTIMIZERS),
    "training.sgd_ratio": _POSITIVE,
    "training.muon_momentum": _FRACTION,
    "training.weight_decay": _NOT_NEGATIVE,
    "model.dropout": _FRACTION,
    "model.num_samples": _COUNT,
    "model.noise_stddev": _NOT_NEGATIVE,
    "model.temperature": (
        lambda value: value == "auto" or _numbers(value, 0, above=True),
        "above 0, or 'auto'",
    ),
    "model.student_weight": _NOT_NEGATIVE,
    "model.proxy": _one_of(_choices.FIT_METHODS),
    "model.student_loss": _one_of(_choices.STUDENT_LOSSES),
    "model.num_draws": _COUNT,
    "model.initial_scale": _POSITIVE,
    "model.student_draws": _one_of(_choices.DRAWS_OF_A_GAUSSIAN),
    "model.teacher_kind": _one_of(_choices.TEACHER_KINDS),
    "model.distribution_weight": _NOT_NEGATIVE,
    "model.concentration_temperature": _POSITIVE,
    "start": (lambda value: 0 < value.at <= 1, "at in (0, 1]"),
}
