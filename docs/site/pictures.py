"""Draws the pictures of the pages on concepts: `python docs/site/pictures.py [FOLDER]`.

All of them are computed: the Dirichlets' uncertainties by s2d_tf.uncertainty, the rest with a small
S2D network, trained here on points of three classes in the plane.
"""

import pathlib
import sys

import keras
import matplotlib

matplotlib.use("Agg")

import numpy as np
import tensorflow as tf
from matplotlib import pyplot as plt
from matplotlib import tri
from scipy import stats

from s2d_tf import models, numerics, posthoc, uncertainty

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "images"
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
KINDS = {
    "certain": (60.0, 3.0, 3.0),
    "data uncertainty": (22.0, 22.0, 22.0),
    "knowledge uncertainty": (1.2, 1.2, 1.2),
}
CENTERS = np.array([[-1.2, -0.7], [1.2, -0.7], [0.0, 1.4]])
COLORS = ("#0b6e99", "#c2410c", "#4d7c0f")
PARTS = ("total", "data", "knowledge")


def simplex(axes, concentrations, points=None):
    """Draws a Dirichlet's density over the triangle of class probabilities, and points in it."""
    grid = tri.UniformTriRefiner(tri.Triangulation(*CORNERS.T)).refine_triangulation(subdiv=7)
    places = np.stack([grid.x, grid.y, np.ones_like(grid.x)])
    probs = np.linalg.solve(np.vstack([CORNERS.T, np.ones(3)]), places)
    probs = np.clip(probs, 1e-3, None)
    density = stats.dirichlet(np.asarray(concentrations, float)).pdf(probs / probs.sum(axis=0))
    if np.ptp(density) > 0:
        axes.tricontourf(grid, density, levels=60, cmap="Blues")
    axes.add_patch(plt.Polygon(CORNERS, fill=False, color="#333333", linewidth=1))
    if points is not None:
        axes.scatter(*(np.asarray(points) @ CORNERS).T, s=14, color="#c2410c", alpha=0.7, zorder=3)
    for name, (x, y), below in zip("ABC", CORNERS, (True, True, False), strict=True):
        axes.text(x, y + (-0.09 if below else 0.03), name, ha="center", fontsize=11)
    axes.set(aspect="equal", xlim=(-0.1, 1.1), ylim=(-0.14, 1.0))
    axes.axis("off")


def parts_of(concentrations):
    """Total, data and knowledge uncertainty of one Dirichlet, in nats."""
    found = uncertainty.from_concentrations(np.array([concentrations], "float32"))
    return [float(found[part][0]) for part in PARTS]


def draw_kinds(path):
    """Three Dirichlets with the same classes and other uncertainties."""
    figure, row = plt.subplots(1, 3, figsize=(9, 3.5), layout="constrained")
    for axes, (name, concentrations) in zip(row, KINDS.items(), strict=True):
        simplex(axes, concentrations)
        values = ", ".join(
            f"{part} {value:.2f}"
            for part, value in zip(PARTS, parts_of(concentrations), strict=True)
        )
        axes.set_title(name, fontsize=12)
        axes.text(0.5, -0.24, values, ha="center", fontsize=10)
        axes.set_ylim(-0.3, 1.0)
    save(figure, path)


def draw_points(seed):
    """Points of three classes, and their labels."""
    labels = np.arange(600) % 3
    noise = np.random.default_rng(seed).normal(scale=0.75, size=[600, 2])
    return (CENTERS[labels] + noise).astype("float32"), labels


def plane():
    """An S2D network of three classes in the plane, with its training points."""
    keras.utils.set_random_seed(0)
    points, labels = draw_points(0)
    inputs = keras.Input([2])
    features = keras.layers.Dense(64, "relu")(keras.layers.Dense(64, "relu")(inputs))
    model = models.S2DClassifier(
        keras.Model(inputs, features), 3, noise_stddev=1.0, student_weight=1.0, seed=0
    )
    model.compile(keras.optimizers.Adam(3e-3))
    model.fit(points, labels, epochs=100, batch_size=50, verbose=0)
    return model, points, labels


def draw_plane(model, points, labels, path):
    """Maps of the three uncertainties over the plane, and of knowledge that knows the distance."""
    side = np.linspace(-6, 6, 121, dtype="float32")
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    found = model.predict_uncertainty(grid.reshape(-1, 2))
    maps = {f"{part} uncertainty": found[part] for part in PARTS}
    near = posthoc.KNN(k=10).fit(model, (points, labels))
    aware = posthoc.DistanceAwareness().fit(near, draw_points(1))
    maps["knowledge, with distance"] = aware.predict_uncertainty(grid.reshape(-1, 2))["knowledge"]
    figure, row = plt.subplots(1, 4, figsize=(12, 3.4), layout="constrained", sharey=True)
    for axes, (title, values) in zip(row, maps.items(), strict=True):
        values = values.reshape(len(side), -1)
        top = found["knowledge" if "knowledge" in title else "total"].max()
        levels = np.linspace(0, top, 31)
        drawn = axes.contourf(side, side, values, levels=levels, cmap="Purples", extend="max")
        for c, color in enumerate(COLORS):
            axes.scatter(*points[labels == c][:60].T, s=3, color=color)
        axes.set(title=title, xticks=[], yticks=[], aspect="equal")
        ticks = [0, float(f"{top / 2:.1g}")]
        figure.colorbar(drawn, ax=axes, orientation="horizontal", shrink=0.8, ticks=ticks)
    save(figure, path)


def draw_steps(model, path):
    """Noisy predictions, the Dirichlet fitted to them, and the one that the student predicts."""
    inputs = {"inside class A": CENTERS[0], "between A and B": CENTERS[:2].mean(axis=0)}
    figure, rows = plt.subplots(2, 3, figsize=(9, 6.4), layout="constrained")
    for line, (name, point) in zip(rows, inputs.items(), strict=True):
        x = tf.constant(np.repeat(point[None], 8, axis=0), tf.float32)
        called = model(x, training=True)
        passes = tf.reshape(called["teacher_logits"], [1, -1, 3]) / model.temperature
        probs = tf.nn.softmax(passes)[0].numpy()
        proxy = numerics.fit_dirichlet(tf.nn.log_softmax(passes))[0]
        student = np.exp(called["student_logits"][0])
        simplex(line[0], (1.0, 1.0, 1.0), probs)
        simplex(line[1], proxy.numpy())
        simplex(line[2], student)
        line[0].text(-0.04, 0.45, name, rotation=90, va="center", ha="center", fontsize=12)
    titles = ("1. noisy predictions", "2. a Dirichlet fitted to them", "3. the student's Dirichlet")
    for axes, title in zip(rows[0], titles, strict=True):
        axes.set_title(title, fontsize=12)
    save(figure, path)


def save(figure, path):
    figure.savefig(path, dpi=160, facecolor="white", metadata={"Software": None})
    plt.close(figure)


def main(folder):
    folder = pathlib.Path(folder)
    draw_kinds(folder / "kinds_of_uncertainty.png")
    model, points, labels = plane()
    draw_plane(model, points, labels, folder / "uncertainty_in_the_plane.png")
    draw_steps(model, folder / "s2d_steps.png")


if __name__ == "__main__":
    main(*sys.argv[1:] or [FOLDER])
