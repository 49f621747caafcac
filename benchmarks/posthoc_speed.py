"""Seconds that post-hoc detectors take on cached features; nothing is trained or downloaded.

    python benchmarks/posthoc_speed.py [--examples=60000] [--width=384] [--classes=100]

Fits each detector on 50,000 random feature vectors and scores `--examples`, then times KNN with
10,000 queries alone.
"""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

TRAINING = 50_000
QUERIES = 10_000


def detectors(posthoc):
    made = [each() for each in posthoc.detectors().values()]
    return [*made, posthoc.Uncertainty("knowledge")]


def network(width, classes):
    """An S2D network whose features are its inputs."""
    import keras

    from s2d_tf import models

    inputs = keras.Input([1, 1, width])
    backbone = keras.Model(inputs, keras.layers.Flatten()(inputs))
    return models.S2DClassifier(backbone, classes, seed=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--examples", type=int, default=60_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--classes", type=int, default=100)
    arguments = parser.parse_args()

    import numpy as np

    from s2d_tf import posthoc

    model = network(arguments.width, arguments.classes)
    random = np.random.default_rng(0)
    kernel, bias = model.head.kernel[0].numpy(), model.head.bias[0].numpy()
    centers = random.gamma(1.0, 1.0, [arguments.classes, arguments.width]).astype(np.float32)

    def outputs(count):
        labels = np.arange(count) % arguments.classes
        noise = random.standard_normal([count, arguments.width], np.float32)
        features = np.maximum(centers[labels] + noise, 0.0)
        return posthoc.Outputs(features @ kernel + bias, features, labels)

    training, new = outputs(TRAINING), outputs(arguments.examples)
    totals = np.zeros(2)
    for step in detectors(posthoc):
        fit, fitted = timed(lambda step=step: step.fit(model, training))
        score, _ = timed(lambda fitted=fitted: fitted.score(new))
        totals += fit + score
        print(f"{step.name:22} fit {shown(fit)}   score {shown(score)}", flush=True)
    print(f"{'all':22} {shown(totals)} for {arguments.examples} vectors [{arguments.width}]")
    knn = posthoc.KNN().fit(model, training)
    seconds, _ = timed(lambda: knn.score(new.rows(0, QUERIES)))
    print(f"KNN, {QUERIES} queries against {TRAINING}: {shown(seconds)}")


def timed(function):
    """Wall-clock and processor seconds, and the result."""
    import numpy as np

    start = np.array([time.perf_counter(), time.process_time()])
    result = function()
    return np.array([time.perf_counter(), time.process_time()]) - start, result


def shown(seconds):
    return f"{seconds[0]:6.2f} s ({seconds[1]:6.2f} s CPU)"


if __name__ == "__main__":
    main()
