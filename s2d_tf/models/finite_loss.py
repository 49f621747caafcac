"""A loss that is no number stops training before the weights are lost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import keras


def broken_parts(logs: Mapping[str, float]) -> str:
    """Names of what is NaN or infinite in Keras' logs; "loss" only where none of its parts is."""
    broken = {name for name, value in logs.items() if not math.isfinite(value)}
    return ", ".join(sorted(broken - {"loss"} or broken))


class FiniteLoss(keras.callbacks.Callback):
    """Raises a `ValueError` when the loss is NaN or infinite, with the weights from before.

    The logged loss is a mean over the epoch, which stays NaN once it is: looking at it now and then
    does not slow the steps. Weights and optimizer are kept at the start of each epoch.

    A callback with the attribute `requires_finite_loss` does this itself; then it is left to it.
    """

    EVERY = 10
    """Steps between looks, besides the end of each epoch."""

    requires_finite_loss = True

    @classmethod
    def added_to(cls, callbacks: Any) -> Any:
        """The callbacks for `fit`, with this one first, so that no other saves what is lost."""
        if isinstance(callbacks, keras.callbacks.CallbackList):
            return callbacks
        given = keras.tree.flatten(callbacks) if callbacks is not None else []
        if any(getattr(callback, "requires_finite_loss", False) for callback in given):
            return given
        return [cls(), *given]

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        self._variables = [*self.model.variables, *self.model.optimizer.variables]
        self._kept = [keras.ops.convert_to_numpy(variable) for variable in self._variables]

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if (batch + 1) % self.EVERY == 0:
            self._check(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._check(logs)

    def _check(self, logs):
        # Any metric may be no number; only the loss tells that the weights are lost.
        if math.isfinite((logs or {}).get("loss", 0.0)):
            return
        for variable, value in zip(self._variables, self._kept, strict=True):
            variable.assign(value)
        raise ValueError(
            f"loss: expected a number, received NaN or infinity in epoch {self._epoch + 1} (in "
            f"{broken_parts(logs)}). The weights are those before that epoch. Try a lower learning "
            "rate or student weight."
        )
