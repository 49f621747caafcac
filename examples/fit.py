"""Train an S2D model with plain `fit` on a tf.data pipeline and print its uncertainty."""

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import backbones, data, models

train = data.load("digits", "train").shuffle(160, seed=0).batch(32, drop_remainder=True)
test = data.load("digits", "test").batch(256)
photographs = data.load("digits_photos", "test").batch(256)

backbone = backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=2, seed=0)
model = models.S2DClassifier(
    backbone, num_classes=8, mean=[78.0], stddev=[96.0], weight_decay=5e-4, seed=0
)
schedule = keras.optimizers.schedules.CosineDecay(0.05, decay_steps=30 * 5)
model.compile(keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True))
model.fit(train.prefetch(tf.data.AUTOTUNE), validation_data=test, epochs=30, verbose=2)

for name, images in (("digits", test), ("photographs", photographs)):
    answer = model.predict_uncertainty(images)
    parts = ", ".join(f"{k} {np.mean(answer[k]):.3f}" for k in ("total", "data", "knowledge"))
    print(f"{name:12} confidence {np.mean(answer['confidence']):.3f}, uncertainty in nats: {parts}")
