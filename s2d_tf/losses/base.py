"""What all distillation losses share."""

import keras


class DistillationLoss(keras.losses.Loss):
    """A loss whose targets are teacher predictions `[batch, members, classes]`.

    Args:
        reduction, name, dtype: as for `keras.losses.Loss`; unlike Keras' own losses it keeps the
            `dtype` in its config.
    """

    student = "categorical"
    """What a student with this loss predicts: "categorical", "dirichlet" or "gaussian"."""

    needs_concentrations = False
    """Whether the targets must be log-concentrations: Dirichlet teachers, not categorical ones."""

    def get_config(self):
        return {**super().get_config(), "dtype": self.dtype}
