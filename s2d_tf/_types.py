"""Types that signatures share, and the names that arguments and recipes choose from.

Types are for readers and type checkers: nothing is imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy.typing as npt
    import tensorflow as tf

# A NumPy array, and anything that `np.asarray` takes.
Array: TypeAlias = "npt.NDArray[Any]"
ArrayLike: TypeAlias = "npt.ArrayLike"

# A TensorFlow tensor, and anything that `tf.convert_to_tensor` takes.
Tensor: TypeAlias = "tf.Tensor"
TensorLike: TypeAlias = "tf.Tensor | npt.ArrayLike"

# What a model takes: one tensor or array, or a dict, list or tuple of them.
Inputs: TypeAlias = Any

# What `fit` takes: inputs, `(inputs, labels)`, a `tf.data.Dataset`, a `PyDataset`, a generator.
Data: TypeAlias = Any

# Integers, and None where a size is not fixed.
Shape: TypeAlias = tuple[Any, ...]

PathLike: TypeAlias = "str | os.PathLike[str]"

# Choices of data, of numerics.fit_dirichlet and models.S2DClassifier, and of losses.
AUGMENTATIONS = ("mirror_shift", "alternating_mirror_shift")
PADDINGS = ("mean", "reflect")
FIT_METHODS = ("newton", "mean_precision")
STUDENT_LOSSES = ("balanced_kl", "kl", "reverse_kl", "log_likelihood")
TEACHER_KINDS = ("dirichlet", "categorical")
