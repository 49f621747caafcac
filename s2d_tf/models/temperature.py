"""A teacher temperature that nobody chooses: it follows the calibration of held-out examples."""

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import metrics

LOWEST, HIGHEST = 0.2, 5.0
MAX_EXAMPLES = 2000


class FollowCalibration(keras.callbacks.Callback):
    """Keeps the teacher of an `S2DClassifier` calibrated on held-out examples.

    How much the teacher should be softened depends on how over-confident the network is, and that
    depends on its size and on how long it trains: long training without augmentation needs a
    temperature above 1, a few epochs with augmentation one below. After each epoch the teacher's
    temperature becomes the one that calibrates the network's predictions on the held-out examples
    (it minimizes their negative log-likelihood), so that the student learns from a teacher that is
    as certain as it should be.

    Args:
        held_out: `(inputs, labels)` arrays, or a batched `tf.data.Dataset` of such pairs; the first
            `MAX_EXAMPLES` are used. They must not be trained on.
    """

    def __init__(self, held_out):
        super().__init__()
        if isinstance(held_out, tf.data.Dataset):
            pairs = held_out.unbatch().take(MAX_EXAMPLES).batch(MAX_EXAMPLES)
            held_out = next(pairs.as_numpy_iterator())
        inputs, labels = held_out[:2]
        self.inputs = keras.tree.map_structure(lambda values: values[:MAX_EXAMPLES], inputs)
        self.labels = np.asarray(labels[:MAX_EXAMPLES]).reshape(-1)

    def on_epoch_end(self, epoch, logs=None):
        probs = self.model.predict_uncertainty(self.inputs)["probs"]
        # In float64 and above 0, so that one hopeless example does not decide.
        log_probs = np.log(np.maximum(probs.astype(np.float64), 1e-12))
        found = metrics.fit_temperature(log_probs, self.labels)
        self.model.teacher_temperature.assign(np.clip(found, LOWEST, HIGHEST))
        if logs is not None:
            logs["temperature"] = float(self.model.teacher_temperature)
