"""Chooses from which uncertainty on a model should say "I don't know".

    python choose_threshold.py RUN --max_risk=0.05 [--uncertainty=total] [--data_dir=DIR]

RUN is a run directory that was trained with --split=train_without_validation, so that the images of
the validation split are new to it. Prints the threshold, how many answers it leaves and how many of
those will be wrong at most.
"""

import argparse
import sys

from scipy import stats


def choose(scores, errors, max_risk, confidence=0.95):
    """The largest threshold at which answers are wrong no more often than `max_risk`.

    The error rate seen on some hundred images is luck in part. The bound used here (Clopper and
    Pearson, for each threshold by itself) holds for new images of the same kind with the given
    confidence.

    Args:
        scores: uncertainties `[n]`; answers with a larger one than the threshold are refused.
        errors: whether each answer is wrong `[n]`.
        max_risk: the highest error rate among the answers given.
        confidence: of the bound.

    Returns:
        (threshold, coverage, bound), or None if no threshold is good enough.
    """
    from s2d_tf import metrics

    curve = metrics.risk_coverage_curve(scores, errors)
    accepted = (curve.coverage * len(scores)).round()
    wrong = (curve.generalized_risk * len(scores)).round()
    bounds = stats.beta.ppf(confidence, wrong + 1, accepted - wrong)
    bounds[wrong == accepted] = 1.0
    good = (bounds <= max_risk).nonzero()[0]
    if not len(good):
        return None
    best = good[-1]
    return float(curve.threshold[best]), float(curve.coverage[best]), float(bounds[best])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="run directory")
    parser.add_argument("--max_risk", type=float, required=True, help="error rate to stay below")
    parser.add_argument("--uncertainty", choices=["total", "data", "knowledge"], default="total")
    parser.add_argument("--data_dir", help="TFDS folder")
    arguments = parser.parse_args()
    from s2d_tf import data, storage

    run = storage.Run.open(arguments.run)
    if run.split != "train_without_validation":
        sys.exit(
            "choose_threshold: error: expected a run that was trained with "
            f"--split=train_without_validation, received one with --split={run.split}"
        )
    images, labels = data.load_arrays(run.recipe.source_dataset, "validation", arguments.data_dir)
    answers = run.predictor().predict_uncertainty(images)
    errors = answers["probs"].argmax(axis=-1) != labels
    print(f"{len(labels)} validation images, {errors.mean():.1%} of the answers are wrong")
    found = choose(answers[arguments.uncertainty], errors, arguments.max_risk)
    if found is None:
        sys.exit(
            "choose_threshold: no threshold keeps to this risk: take a higher one, or more images"
        )
    threshold, coverage, bound = found
    print(
        f"refuse above {arguments.uncertainty} uncertainty {threshold:.4g} nats: {coverage:.1%} of "
        f"the images are answered, at most {bound:.1%} of those wrongly (95% confidence)"
    )


if __name__ == "__main__":
    main()
