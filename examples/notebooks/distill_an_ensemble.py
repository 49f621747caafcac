# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Distilling an ensemble
#
# Several networks that were trained apart make a better prediction than one, and where they
# disagree they do not know. But an ensemble of five costs five forward passes. Hierarchical
# distillation (H2D) trains one student that predicts what the ensemble says *and* how much its
# members disagree.

# %%
import time

import keras
import matplotlib.pyplot as plt

from s2d_tf import backbones, data, losses, metrics, models

images, labels = data.load_arrays("digits", "train")
test_images, test_labels = data.load_arrays("digits", "test")
others, _ = data.load_arrays("digits_heldout", "test")  # 8 and 9, which no model has seen
common = {"num_classes": 8, "mean": [78.0], "stddev": [96.0], "weight_decay": 5e-4}


def backbone(seed):
    return backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1, seed=seed)


def fit(model, seed, rate=0.05, epochs=20):
    model.compile(keras.optimizers.SGD(rate, momentum=0.9, nesterov=True))
    train = data.train_pipeline(images, labels, batch_size=32, seed=seed, epochs=epochs)
    model.fit(train, epochs=epochs, steps_per_epoch=5, verbose=0)
    return model


# %% [markdown]
# ## Teachers
#
# Five S2D networks with different seeds. Each one predicts a Dirichlet distribution.

# %%
members = [
    fit(models.S2DClassifier(backbone(seed), seed=seed, **common), seed) for seed in range(5)
]
ensemble = models.Ensemble(members)

# %% [markdown]
# ## Students
#
# Three students of the same ensemble, which differ only in their loss. EnD learns the mean
# prediction alone. H2D-Dir is the paper's: the KL divergence to the members' Dirichlets. The third
# is this library's: a cross-entropy to the mean prediction, and a bounded distance to the members'
# distribution.

# %%
objectives = {
    "EnD": losses.SoftCrossEntropy(),
    "H2D-Dir": losses.DirichletKLDivergence(),
    "H2D (ours)": losses.WithSoftCrossEntropy(losses.DirichletFisherDistance(), weight=0.1),
}
rates = {"EnD": 0.05, "H2D-Dir": 5e-4, "H2D (ours)": 0.05}
students = {}
for name, objective in objectives.items():
    student = models.Student(backbone(0), objective=objective, **common)
    student.warm_start(members[0]).learn_from(ensemble)
    students[name] = fit(student, seed=0, rate=rates[name])

# %% [markdown]
# ## What they are worth
#
# Accuracy and NLL on the digits they know; detection of the digits 8 and 9 by the best uncertainty
# that each of them has: knowledge uncertainty, or total uncertainty for EnD, which does not
# decompose.

# %%
rows = {}
for name, model in {"one network": members[0], "ensemble of 5": ensemble, **students}.items():
    model.predict_uncertainty(test_images)  # so that the first call's set-up is not timed
    start = time.perf_counter()
    known = model.predict_uncertainty(test_images)
    seconds = time.perf_counter() - start
    key = "total" if name == "EnD" else "knowledge"
    unknown = model.predict_uncertainty(others)
    rows[name] = (
        metrics.accuracy(known["probs"], test_labels),
        metrics.negative_log_likelihood(known["probs"], test_labels),
        metrics.auroc(known[key], unknown[key]),
        seconds,
    )
base = rows["one network"][3]
for name, (accuracy, nll, auroc, seconds) in rows.items():
    print(
        f"{name:14} accuracy {100 * accuracy:5.1f}%  NLL {nll:.3f}  "
        f"AUROC {100 * auroc:5.1f}%  time {seconds / base:4.1f}x"
    )

# %% [markdown]
# Students cost what one network costs. On so few images one run proves little; results/README.md
# has the study.
#
# Does the student disagree where the ensemble does? Each dot is an image; a good student lies near
# the diagonal.

# %%
figure, panels = plt.subplots(1, 2, figsize=(9, 4.2), sharex=True, sharey=True)
target = ensemble.predict_uncertainty(test_images), ensemble.predict_uncertainty(others)
for panel, name in zip(panels, ("H2D-Dir", "H2D (ours)"), strict=True):
    for inputs, wanted, color in (
        (test_images, target[0], "tab:blue"),
        (others, target[1], "tab:orange"),
    ):
        found = students[name].predict_uncertainty(inputs)
        panel.plot(wanted["knowledge"], found["knowledge"], ".", ms=3, color=color, alpha=0.6)
    panel.axline((0, 0), slope=1, color="gray", ls=":")
    panel.set(title=name, xlabel="ensemble's knowledge uncertainty (nats)")
panels[0].set_ylabel("student's")
panels[0].legend(["digits it knows", "digits 8 and 9"])
plt.show()
