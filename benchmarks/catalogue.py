"""The suites, in the order in which they are run and shown."""

import difflib

from benchmarks.records import Suite

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "step",
            "What does an S2D training step cost beyond a plain one?",
            "training_step",
            "On the large networks the extra work is far below the noise of a whole step. So it "
            "is timed alone (the model's loss and gradient from precomputed features, S2D or "
            "H2D minus plain) and divided by the plain step. Compact networks are also timed as "
            "whole steps. The parts of the extra work are timed one by one.",
        ),
        Suite(
            "predict",
            "What do uncertainties cost beyond a softmax, and beyond the exported model?",
            "prediction",
            "As in `step`: whole predictions if the difference is measurable, otherwise the "
            "difference alone, divided by the whole prediction. Then `predict_uncertainty`, warm, "
            "divided by the SavedModel of the same network, called by TensorFlow alone: here that "
            "of version 0.1.0 (`--exported=DIR`), whose exports also folded batch norms into "
            "convolutions. Each runs in its own process on all cores, in turns. Memory is the "
            "peak above what the process used after importing its framework.",
        ),
        Suite(
            "fit",
            "How fast and accurate is the fit of the proxy Dirichlet?",
            "proxy_fit",
            "Throughput in fits per second. The competitors fit one Dirichlet at a time and are "
            "timed on a few rows. Ours fits the whole batch; small batches are fitted several "
            "times per call, so that the overhead of calling the graph from Python does not "
            "count. `error` is the largest violation of the likelihood equations psi(a_k) - "
            "psi(a_0) = t_k by any class of those rows, computed with scipy.",
        ),
        Suite(
            "backbones",
            "How fast are the networks compared with plain Keras?",
            "backbone_speed",
            "Each variant runs in its own process, because oneDNN is chosen when TensorFlow is "
            "imported; the processes take turns. `plain` is the same network from stock Keras "
            "layers with TensorFlow's defaults. PyTorch, if installed, runs eagerly and "
            "channels-last. Memory is the peak above what the process used before building the "
            "network. The time of the multiplications alone limits every speedup: a result of "
            "0.8 leaves at most a factor of 1.25 to gain from fusing or sharing other work.",
        ),
        Suite(
            "fast",
            "How fast is the network designed for CPUs?",
            "fast_network",
            "Training steps at full resolution, compared with the time that the convolutions' "
            "multiplications alone would take (three forward passes) at the speed of a large "
            "matrix product in the same precision, and with the same network in PyTorch with "
            "the same optimizer. Minutes are the training time of the fastest run in `--runs` "
            "whose test accuracy reaches the goal.",
        ),
        Suite(
            "startup",
            "How long does the command take to start?",
            "start_up",
            "Seconds from the start of a process to its end.",
        ),
    )
}


def find(names):
    """The suites of these names, all if there are none."""
    for name in names:
        if name not in SUITES:
            near = difflib.get_close_matches(name, SUITES, n=2, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(SUITES)}."
            raise ValueError(f"Expected the name of a suite, received {name!r}: {hint}")
    return [SUITES[name] for name in names or SUITES]
