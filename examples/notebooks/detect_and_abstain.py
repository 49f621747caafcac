# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Detecting unknown inputs, and abstaining
#
# Two questions for every classifier in use: *is this input anything I was trained for?* and
# *should I answer at all?* We ask them of the flagship of the zoo, which classifies the 100
# classes of CIFAR-100, and of its plain twin.
#
# The notebook needs CIFAR-100 and the SVHN test images, which TFDS downloads on first use.

# %%
import matplotlib.pyplot as plt
import numpy as np

from s2d_tf import data, metrics, posthoc, zoo

COUNT = 1500  # more images: smoother curves, longer waiting

model = zoo.load("fast_resnet.s2d.cifar100_plus")
images, labels = (x[: 2 * COUNT] for x in data.load_arrays("cifar100", "test"))
numbers = data.load_arrays("svhn_cropped", "test")[0][:COUNT]  # house numbers: nothing it knows

# %% [markdown]
# Half of the images choose thresholds, the other half shows what they are worth.

# %%
choose, show = slice(None, COUNT), slice(COUNT, None)
known = model.predict_uncertainty(images[show])
unknown = model.predict_uncertainty(numbers)
known.plot(images[show], labels[show], count=6)

# %%
unknown.plot(numbers, count=6)

# %% [markdown]
# The first picture shows classes it knows, the second house numbers. It has to name one of its
# hundred classes for each and is confident about some of them. The orange part, knowledge
# uncertainty, is hardly visible: in this network it is a thousandth of a nat. Its size says
# little, but its rank says a lot, as the next curve shows.
#
# ## Detection
#
# A detector is one number per input and a threshold. The ROC curve shows every threshold at once:
# how many unknown images are caught, against how many known ones are rejected by mistake.

# %%
figure, axis = plt.subplots(figsize=(4.6, 4.2))
for key in ("total", "data", "knowledge"):
    curve = metrics.roc_curve(known[key], unknown[key])
    area = metrics.auroc(known[key], unknown[key])
    axis.plot(100 * curve[0], 100 * curve[1], label=f"{key}: {100 * area:.1f}%")
axis.plot([0, 100], [0, 100], ":", color="gray")
axis.set(xlabel="% of known images rejected", ylabel="% of unknown images caught")
axis.legend(title="AUROC by")
plt.show()

# %% [markdown]
# ## Without retraining
#
# `posthoc` fits detectors on a trained network, plain or S2D. A nearest-neighbor detector compares
# features with those of training images; it needs those images, and memory for their features.

# %%
train_images, train_labels = (x[:5000] for x in data.load_arrays("cifar100", "train"))
knn = posthoc.KNN(k=10).fit(model, (train_images, train_labels))
print(f"KNN: {100 * metrics.auroc(knn.score(images[show]), knn.score(numbers)):.1f}%")

# %% [markdown]
# ## Abstaining at a chosen risk
#
# Say that at most 10% of the answers may be wrong. `SelectiveClassifier` finds the uncertainty
# above which the model should not answer, with a bound that holds for 95% of all draws of the
# calibration images.

# %%
safe = posthoc.SelectiveClassifier(max_risk=0.1).fit(model, (images[choose], labels[choose]))
answers = safe.predict_uncertainty(images[show])
wrong = answers["label"] != labels[show]
given = ~answers["abstain"]
print(f"all answers:   {100 * wrong.mean():.1f}% wrong")
print(f"answers given: {100 * wrong[given].mean():.1f}% wrong, {100 * given.mean():.0f}% of all")
print(f"house numbers: {100 * safe.predict_uncertainty(numbers)['abstain'].mean():.0f}% rejected")

# %% [markdown]
# The curve shows the whole trade: how the error rate falls as the model is allowed to decline more
# often. The dashed line is what a score without information would give.

# %%
figure, axis = plt.subplots(figsize=(5.6, 3.6))
for title, key in (("total uncertainty", "total"), ("knowledge uncertainty", "knowledge")):
    order = np.argsort(known[key], kind="stable")
    risk = np.cumsum(wrong[order]) / np.arange(1, len(order) + 1)
    axis.plot(100 * np.arange(1, len(order) + 1) / len(order), 100 * risk, label=title)
axis.axhline(100 * wrong.mean(), ls="--", color="gray")
axis.plot(100 * given.mean(), 100 * wrong[given].mean(), "ko", label="chosen threshold")
axis.set(xlabel="% of images answered", ylabel="% of answers wrong", ylim=(0, None))
axis.legend()
plt.show()

# %% [markdown]
# Total uncertainty is the better score here: a known image can be misclassified because it is
# ambiguous, and that is data uncertainty. Use knowledge uncertainty to find unknown inputs, total
# uncertainty to find wrong answers.
#
# ## Prediction sets
#
# Instead of declining, the model can name several classes, so that the right one is among them in
# 90% of the cases:

# %%
sets = posthoc.ConformalSets(coverage=0.9).fit(model, (images[choose], labels[choose]))
found = sets.predict_sets(images[show])
covered = found[np.arange(len(found)), labels[show]]
print(f"{100 * covered.mean():.1f}% covered with {found.sum(-1).mean():.1f} classes on average")
