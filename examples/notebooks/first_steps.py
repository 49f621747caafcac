# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # First steps
#
# A classifier answers every question, even one that makes no sense to it. A network trained with
# self-distribution distillation (S2D) answers and says, in the same forward pass, how uncertain it
# is and why:
#
# - **data uncertainty**: the input itself is ambiguous. Another network would hesitate too.
# - **knowledge uncertainty**: the network has not seen anything like it. More training data would
#   help.
# - **total uncertainty** is the sum of both.
#
# We load a small pretrained network that knows the digits 0 to 7 and show it things it knows and
# things it does not.

# %%
import matplotlib.pyplot as plt
import numpy as np

from s2d_tf import data, metrics, zoo

model = zoo.load("wrn_10_2_s2.s2d.digits")
images, labels = data.load_arrays("digits", "test")
answer = model.predict_uncertainty(images)
print(answer)

# %% [markdown]
# One row per image. The uncertainties are entropies in nats: 0 means certain, ln 8 = 2.08 means
# that all eight classes are equally likely. Most rows are close to 0. These are the images with
# the highest total uncertainty:

# %%
answer.plot(images, labels, count=8, by="total")

# %% [markdown]
# Wrong answers are marked. Look at how the bars divide: for a sloppy 5 that could be a 6, the data
# part dominates.
#
# ## Inputs that it has never seen
#
# The digits 8 and 9 were left out of training. Patches of photographs are not digits at all.

# %%
groups = {"digits 0 to 7": images}
groups["digits 8 and 9"], _ = data.load_arrays("digits_heldout", "test")
groups["photographs"], _ = data.load_arrays("digits_photos", "test")
answers = {name: model.predict_uncertainty(x) for name, x in groups.items()}

figure, panels = plt.subplots(1, 3, figsize=(12, 3.2), sharey=True)
for panel, kind in zip(panels, ("total", "data", "knowledge"), strict=True):
    top = max(found[kind].max() for found in answers.values())
    for name, found in answers.items():
        panel.hist(found[kind], np.linspace(0, top, 40), density=True, alpha=0.55, label=name)
    panel.set(title=f"{kind} uncertainty", xlabel="nats", yscale="log")
panels[0].set_ylabel("density (log scale)")
panels[2].legend()
plt.show()

# %% [markdown]
# Read the panels from left to right. Total uncertainty already separates the known digits from the
# rest. Knowledge uncertainty separates them best: it is near zero for what the network was trained
# on, whether or not an image is easy.
#
# The AUROC puts a number on it: the probability that an unknown image gets a higher uncertainty
# than a known one.

# %%
known = answers["digits 0 to 7"]
for name in ("digits 8 and 9", "photographs"):
    scores = {k: metrics.auroc(known[k], answers[name][k]) for k in ("total", "data", "knowledge")}
    print(f"{name:15}", ", ".join(f"{k} {100 * v:.1f}%" for k, v in scores.items()))

# %% [markdown]
# ## Training one
#
# S2D trains with plain `fit`. Any backbone that ends in a feature vector will do.

# %%
import keras  # noqa: E402

from s2d_tf import backbones, models  # noqa: E402

train_images, train_labels = data.load_arrays("digits", "train")
keras.utils.set_random_seed(0)
backbone = backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=2)
own = models.S2DClassifier(backbone, num_classes=8, mean=[78.0], stddev=[96.0], weight_decay=5e-4)
own.compile(keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True))
history = own.fit(train_images, train_labels, batch_size=32, epochs=30, verbose=0)

found = own.predict_uncertainty(images)
print(f"accuracy {metrics.accuracy(found['probs'], labels):.3f}")
print(
    f"expected calibration error {metrics.expected_calibration_error(found['probs'], labels):.3f}"
)

# %% [markdown]
# The teacher learns the labels from noisy features; the student learns how much the noisy passes
# of the same network disagree. That spread becomes knowledge uncertainty. The student's loss
# first rises, because its target moves: the more certain the teacher becomes, the sharper the
# distribution that the student has to match.

# %%
figure, left = plt.subplots(figsize=(6, 3.2))
left.plot(history.history["teacher_loss"], color="tab:blue", label="teacher: cross-entropy")
left.set(xlabel="epoch", ylabel="teacher loss")
right = left.twinx()
right.plot(history.history["student_loss"], color="tab:orange", label="student: KL divergence")
right.set_ylabel("student loss")
figure.legend(loc="upper right", bbox_to_anchor=(0.88, 0.86))
plt.show()
