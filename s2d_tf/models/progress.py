"""The progress of `fit` and `evaluate` in a terminal, a notebook or a log file.

Keras' own bar writes backspaces and colors also into files and saved notebooks.
"""

from __future__ import annotations

import sys
from typing import Any

import keras

from s2d_tf import _progress


class ProgressBar(keras.callbacks.ProgbarLogger):
    """Keras' progress bar with one line for each epoch, and no control codes outside a terminal.

    `verbose=2` and `verbose=0` are Keras' own.
    """

    async_safe = True  # as Keras' own bar: it only reads the logs
    progbar: Any
    target: Any

    def __init__(self) -> None:
        super().__init__()
        self._screen: _progress.Screen | None = None
        self._title = ""

    @classmethod
    def added_to(cls, callbacks: Any, verbose: str | int = "auto") -> Any:
        """The callbacks for `fit`, with this one in place of Keras' own where that would write."""
        if isinstance(callbacks, keras.callbacks.CallbackList) or verbose not in ("auto", 1, True):
            return callbacks
        given = keras.tree.flatten(callbacks) if callbacks is not None else []
        if any(isinstance(each, keras.callbacks.ProgbarLogger) for each in given):
            return given
        return [*given, cls()]

    def on_train_begin(self, logs: dict | None = None) -> None:
        super().on_train_begin(logs)
        self._screen = None

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        if self.verbose != 1:
            return super().on_epoch_begin(epoch, logs)
        self._title = f"Epoch {epoch + 1}/{self.epochs}" if self.epochs > 1 else ""
        self._reset_progbar()
        self._maybe_init_progbar()

    def _maybe_init_progbar(self):
        if self.verbose != 1:
            return super()._maybe_init_progbar()
        if self.progbar is None:
            self._screen = self._screen or _progress.make_screen(sys.stdout)
            self.progbar = _progress.Bar(self.target, "step", self._title, screen=self._screen)

    def _update_progbar(self, batch, logs=None):
        if self.verbose != 1:
            return super()._update_progbar(batch, logs)
        self._maybe_init_progbar()
        self.seen = batch + 1
        self.progbar.update(self.seen - self.progbar.count, _metrics(logs))

    def _finalize_progbar(self, logs):
        if self.verbose != 1:
            return super()._finalize_progbar(logs)
        self.target = self.target or self.seen
        self.progbar.total = self.target
        self.progbar.update(self.target - self.progbar.count, _metrics(logs))
        self.progbar.close()


def _metrics(logs):
    """Metrics in a stable order, the loss first."""
    names = sorted(logs or {}, key=lambda name: (name != "loss", name.startswith("val_")))
    return ", ".join(f"{name}={float(logs[name]):.4g}" for name in names)
