"""The suites, in the order in which they are run and shown."""

import difflib

from benchmarks.records import Suite

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "step",
            "What does a training step cost beyond the plain one?",
            "training_step",
            "On the large networks the extra work is far below the noise of a whole step. It is "
            "timed alone (the model's own loss and gradient from precomputed features, S2D or H2D "
            "minus plain) and set in proportion to the plain step. Compact networks are also timed "
            "as whole steps. The parts of the extra work are timed one by one.",
        ),
        Suite(
            "predict",
            "What do uncertainties cost beyond a softmax, and how fast are other runtimes?",
            "prediction",
            "As in `step`: whole predictions where the difference can be seen, and the difference "
            "alone over the whole prediction where it cannot. Then `predict_uncertainty` as it is "
            "called by default, warm, over the fastest of the other ways to run the same exported "
            "network with all uncertainties; each in a process of its own, all on all cores, in "
            "turns. Start-up is from the start of the process to the first answer; memory is the "
            "peak beyond what the process held with its framework imported.",
        ),
        Suite(
            "fast",
            "How fast is the network that is meant for CPUs?",
            "fast_network",
            "Training steps at full resolution, set against what the convolutions' multiplications "
            "alone would take (three times the forward pass) at the rate of a large matrix product "
            "in the same precision, and against the same network in PyTorch with the same "
            "optimizer. Minutes are the training time of the quickest of the runs given by "
            "`--runs` whose test accuracy reaches the mark.",
        ),
        Suite(
            "fit",
            "How fast and how exact is the fit of the proxy Dirichlet?",
            "proxy_fit",
            "Throughput in fits per second. The competitors fit one Dirichlet at a time and are "
            "timed on a few of the rows; ours fits the whole batch, a small one several times in a "
            "call, so that the way from Python into the graph does not count. `error` is the "
            "largest violation of the likelihood equations psi(a_k) - psi(a_0) = t_k by any class "
            "of those rows, computed by scipy.",
        ),
        Suite(
            "pipeline",
            "Does the input pipeline keep up with training?",
            "input_pipeline",
            "Images a second of the augmented CIFAR-100 pipeline by itself, over images a second "
            "of a training step of WRN-10-2 at 32x32.",
        ),
        Suite(
            "checkpoints",
            "What does it cost to lose nothing?",
            "checkpointing",
            "Seconds of one checkpoint, fsync included, as often as `s2d train` writes them, over "
            "the steps of an epoch of CIFAR-100.",
        ),
        Suite(
            "metrics",
            "Is evaluating a model more than running it?",
            "evaluating",
            "Scores of 10,000 known and 26,032 unknown images; then the share of forward passes in "
            "the evaluation of a compact model on 10,000 known images and three unknown sets.",
        ),
        Suite(
            "backbones",
            "How fast are the networks beside plain Keras ones?",
            "backbone_speed",
            "Each variant runs in a process of its own, because oneDNN is chosen when TensorFlow "
            "is imported; the processes take turns. `plain` is the same network from stock Keras "
            "layers as TensorFlow runs it by default; PyTorch, where it is installed, runs eagerly "
            "and channels last. Memory is the peak of the process beyond "
            "what it held before the network was built. What the multiplications alone would take "
            "bounds every speed-up: a result of 0.8 there leaves at most a factor of 1.25 to be "
            "won, whatever is fused or shared around the convolutions.",
        ),
        Suite(
            "ensemble",
            "What does an ensemble cost, and what does one S2D model save?",
            "ensembles",
            "Five members as one graph against five calls in turn, and against one S2D network.",
        ),
        Suite(
            "serving",
            "What do exported models cost, and what does S2D save a server?",
            "serving",
            "Calls of SavedModels as `s2d export` writes them. An ensemble is one SavedModel.",
        ),
        Suite(
            "startup",
            "How long until the command answers?",
            "start_up",
            "Seconds from the start of a process to its end.",
        ),
        Suite(
            "scale",
            "How do costs grow, and what will the full recipes need on a GPU?",
            "scaling",
            "Slopes are of the logarithm of time over the logarithm of size: 1 is proportional. "
            "The rows marked as predicted were not run: they follow from counted multiplications "
            "and bytes and the stated peak rates of the device.",
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
