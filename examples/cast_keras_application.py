"""Convert a classifier from keras.applications to S2D and fine-tune it."""

import keras
import numpy as np

from s2d_tf import data, models

images, labels = data.load_arrays("digits", "train")
images = np.repeat(images.repeat(4, axis=1).repeat(4, axis=2), 3, axis=-1)  # 32x32, three channels
images = keras.applications.mobilenet_v2.preprocess_input(images.astype("float32"))

# With weights="imagenet" this would be a trained network; random weights need no download.
application = keras.applications.MobileNetV2(
    input_shape=(32, 32, 3), alpha=0.35, weights=None, classes=8
)
for layer in application.layers:
    if isinstance(layer, keras.layers.BatchNormalization):
        layer.momentum = 0.9  # so that statistics adapt during short fine-tuning

model = models.S2DClassifier.from_classifier(application, student_weight=1e-3)
model.compile(keras.optimizers.Adam(2e-3))
model.fit(images, labels, batch_size=32, epochs=30, verbose=2)

answer = model.predict_uncertainty(images[:5])
for row in range(5):
    print(
        f"image {row}: class {answer['label'][row]}, "
        f"confidence {answer['confidence'][row]:.2f}, data {answer['data'][row]:.2f}, "
        f"knowledge {answer['knowledge'][row]:.2f}"
    )
