"""Draws answers.png, the picture of the README: `python docs/images/answers.py`.

A rule chooses the images: of the first 2,000 of each set, four by a seeded generator, and the four
with the most knowledge uncertainty. Under each are the predicted class, and the share of the known
images that have less knowledge uncertainty.
"""

import pathlib

import numpy as np
from matplotlib import pyplot as plt

from s2d_tf import data, zoo

NAME = "fast_resnet.s2d.cifar100_plus"
SETS = {
    "cifar100": "CIFAR-100\nknown",
    "cifar10": "CIFAR-10\nnear",
    "tiny_imagenet_resize": "Tiny ImageNet\nnear",
    "svhn_cropped": "SVHN\nfar",
}
NUM_IMAGES = 2000
NUM_SHOWN = 4


def main():
    model = zoo.load(NAME)
    widths = [1.0] * NUM_SHOWN + [0.2] + [1.0] * NUM_SHOWN
    figure, grid = plt.subplots(len(SETS), len(widths), figsize=(9, 5.5), width_ratios=widths)
    known = None
    for row, (name, title) in zip(grid, SETS.items(), strict=True):
        images = data.load_arrays(name, "test")[0][:NUM_IMAGES]
        found = model.predict_uncertainty(images)
        known = np.sort(found["knowledge"]) if known is None else known
        shares = np.searchsorted(known, found["knowledge"]) / NUM_IMAGES
        chosen = np.random.default_rng(0).choice(NUM_IMAGES, NUM_SHOWN, replace=False)
        most = np.argsort(-found["knowledge"])[:NUM_SHOWN]
        row[NUM_SHOWN].axis("off")
        for axes, i in zip(np.delete(row, NUM_SHOWN), [*chosen, *most], strict=True):
            draw(axes, images[i], model.class_names[found["label"][i]], shares[i])
        title = f"{title}\nmedian {np.median(shares):.0%}"
        row[0].set_ylabel(title, fontsize=10, rotation=0, ha="right", va="center", labelpad=6)
    for column, title in ((0, "random images"), (NUM_SHOWN + 1, "most knowledge uncertainty")):
        grid[0, column].set_title(title, fontsize=11, loc="left")
    figure.subplots_adjust(0.135, 0.06, 0.995, 0.95, 0.12, 0.4)
    path = pathlib.Path(__file__).with_name("answers.png")
    figure.savefig(path, dpi=150, facecolor="white", metadata={"Software": None})


def draw(axes, image, label, share):
    """An image, a bar for its share, and its class."""
    axes.imshow(image)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    where = {"transform": axes.transAxes, "clip_on": False}
    for width, color in ((0.6, "#e5e5e5"), (0.6 * share, "#D55E00")):
        axes.add_patch(plt.Rectangle((0, -0.14), width, 0.1, color=color, linewidth=0, **where))
    axes.text(1, -0.09, f"{share:.0%}", ha="right", va="center", fontsize=8, **where)
    axes.text(0, -0.18, label.replace("_", " "), va="top", fontsize=8, **where)


if __name__ == "__main__":
    main()
