"""Notices that variables have changed, so that no answer comes from old weights."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf


class Watch:
    """Compares variables with what they were, without reading their content as a rule.

    TensorFlow updates a variable in place only while nobody else holds its buffer. This does, so
    every update goes to another address. A variable that is copied on every read (TensorFlow does
    that after sparse updates) is compared by content.

    Args:
        variables: `tf.Variable`s, or Keras' ones.
    """

    def __init__(self, variables: Iterable) -> None:
        variables = list(variables)
        read = tf.function(lambda: [tf.convert_to_tensor(v) for v in variables], autograph=False)
        self._read = read.get_concrete_function()
        self._held = self._read()
        self._addresses = _addresses(self._held)

    def changed(self) -> bool:
        """Whether any variable has another value than when this was made."""
        if not self._held:
            return False
        now = self._read()
        found = _addresses(now)
        return found != self._addresses and any(
            one != other and not np.array_equal(old, new)
            for one, other, old, new in zip(found, self._addresses, self._held, now, strict=True)
        )


def _addresses(tensors):
    return [np.asarray(tensor).__array_interface__["data"][0] for tensor in tensors]
