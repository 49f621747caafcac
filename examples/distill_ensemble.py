"""Distill an ensemble of S2D models into one network that predicts its uncertainty in one pass."""

import keras

from s2d_tf import backbones, data, losses, metrics, models

images, labels = data.load_arrays("digits", "train")
test_images, test_labels = data.load_arrays("digits", "test")
common = {"num_classes": 8, "mean": [78.0], "stddev": [96.0], "weight_decay": 5e-4}


def backbone(seed):
    return backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1, seed=seed)


def fit(model, seed, rate=0.05):
    epochs = 20
    model.compile(keras.optimizers.SGD(rate, momentum=0.9, nesterov=True))
    train = data.train_pipeline(images, labels, batch_size=32, seed=seed, epochs=epochs)
    model.fit(train, epochs=epochs, steps_per_epoch=5, verbose=0)
    return model


members = [
    fit(models.S2DClassifier(backbone(seed), seed=seed, **common), seed) for seed in range(3)
]
ensemble = models.Ensemble(members)

# Cross-entropy with the ensemble's mean prediction, plus a term for how certain its members are.
objective = losses.WithSoftCrossEntropy(losses.DirichletFisherDistance(), weight=0.1)
student = models.Student(backbone(0), objective=objective, **common)
student.warm_start(members[0]).learn_from(ensemble)
fit(student, seed=0)

others, _ = data.load_arrays("digits_heldout", "test")  # 8 and 9, which no model has seen
for name, model in (("member", members[0]), ("ensemble", ensemble), ("student", student)):
    known, unknown = (model.predict_uncertainty(x) for x in (test_images, others))
    print(
        f"{name:8} accuracy {metrics.accuracy(known['probs'], test_labels):.3f}, "
        f"NLL {metrics.negative_log_likelihood(known['probs'], test_labels):.3f}, "
        f"AUROC of unknown digits {metrics.auroc(known['knowledge'], unknown['knowledge']):.3f}"
    )
