"""Draws answers.png, the picture of the README: what the flagship says of several images."""

import pathlib

import numpy as np
from matplotlib import pyplot as plt

from s2d_tf import data, zoo

NAME = "fast_resnet.s2d.cifar100_plus"
SETS = {"Tiny ImageNet": "tiny_imagenet_resize", "SVHN": "svhn_cropped"}
PLACES = [400, 1500, 1850]
COLORS = {"data": "#56B4E9", "knowledge": "#D55E00"}


def main():
    model = zoo.load(NAME)
    images, labels = (x[:2000] for x in data.load_arrays("cifar100", "test"))
    known = model.predict_uncertainty(images)
    names = [name.replace("_", " ") for name in model.class_names]
    # Known images from low, medium and high total uncertainty; of the others simply the first.
    rows = [
        (images[i], known, i, f"is {names[labels[i]]}") for i in np.argsort(known["total"])[PLACES]
    ]
    for title, name in SETS.items():
        others = data.load_arrays(name, "test")[0][:2]
        found = model.predict_uncertainty(others)
        rows += [(others[i], found, i, f"image from {title}") for i in range(2)]
    figure, axes = plt.subplots(
        len(rows), 3, figsize=(9, 0.62 * len(rows) + 0.7), width_ratios=(1.3, 3, 6)
    )
    for line, (image, found, i, truth) in zip(axes, rows, strict=True):
        line[0].imshow(image)
        said = names[found["probs"][i].argmax()]
        below = "" if truth == f"is {said}" else f"\n{truth}"
        said = f"{said}, {found['confidence'][i]:.0%}{below}"
        line[1].text(0, 0.5, said, va="center", fontsize=10)
        for height, key in ((0.68, "data"), (0.32, "knowledge")):
            share = (known[key] < found[key][i]).mean()
            line[2].barh(height, 100 * share, 0.26, color=COLORS[key])
            line[2].text(100 * share + 1, height, f"{100 * share:.0f}%", va="center", fontsize=8)
        line[2].set(xlim=(0, 108), ylim=(0, 1))
        for panel in line:
            panel.axis("off")
    bars = [plt.Rectangle((0, 0), 1, 1, color=color) for color in COLORS.values()]
    meanings = [f"more {key} uncertainty than this share of test images" for key in COLORS]
    figure.legend(bars, meanings, loc="upper right", ncols=1, frameon=False, fontsize=9)
    figure.subplots_adjust(0.01, 0.01, 0.99, 1 - 0.6 / figure.get_figheight(), 0.02, 0.08)
    path = pathlib.Path(__file__).with_name("answers.png")
    figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main()
