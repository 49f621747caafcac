"""Fold an ensemble of S2D models into one network (H2D-Gauss): its doubts in a single pass."""

import keras

from s2d_tf import backbones, data, losses, metrics, models

images, labels = data.load_arrays("digits", "train")
test_images, test_labels = data.load_arrays("digits", "test")
common = {"num_classes": 8, "mean": [78.0], "stddev": [96.0], "weight_decay": 5e-4}


def backbone(seed):
    return backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1, seed=seed)


def fit(model, rate, seed, epochs):
    model.compile(keras.optimizers.SGD(rate, momentum=0.9, nesterov=True))
    train = data.train_pipeline(images, labels, batch_size=32, seed=seed, epochs=epochs)
    model.fit(train, epochs=epochs, steps_per_epoch=5, verbose=0)
    return model


members = [
    fit(models.S2DClassifier(backbone(seed), seed=seed, **common), 0.05, seed, epochs=20)
    for seed in range(3)
]
ensemble = models.Ensemble(members)

student = models.Student(backbone(0), objective=losses.NormalKLDivergence(), **common)
student.warm_start(members[0]).learn_from(ensemble)
fit(student, 1e-3, seed=0, epochs=20)

for name, model in (("member", members[0]), ("ensemble", ensemble), ("student", student)):
    probs = model.predict_uncertainty(test_images)["probs"]
    print(
        f"{name:8} accuracy {metrics.accuracy(probs, test_labels):.3f}, "
        f"NLL {metrics.negative_log_likelihood(probs, test_labels):.3f}"
    )
