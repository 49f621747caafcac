"""Chooses the uncertainty above which a model should abstain.

    python choose_threshold.py RUN --max_risk=0.05 [--uncertainty=total] [--data_dir=DIR]

RUN is a run directory trained with --split=train_without_validation, so the validation images are
new to it. Prints the threshold, the share of images that get a prediction, and a 95% bound on the
error rate of these predictions.
"""

import argparse
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="run directory")
    parser.add_argument("--max_risk", type=float, required=True, help="highest error rate")
    parser.add_argument("--uncertainty", choices=["total", "data", "knowledge"], default="total")
    parser.add_argument("--data_dir", help="dataset folder")
    arguments = parser.parse_args()
    from s2d_tf import data, posthoc, zoo

    run = zoo.Run.open(arguments.run)
    if run.split != "train_without_validation":
        sys.exit(
            "choose_threshold: error: expected a run that was trained with "
            f"--split=train_without_validation, received one with --split={run.split}"
        )
    images, labels = data.load_arrays(run.recipe.source_dataset, "validation", arguments.data_dir)
    answers = run.predictor().predict_uncertainty(images)
    errors = answers["label"] != labels
    print(f"{len(labels)} validation images, {errors.mean():.1%} of the predictions are wrong")
    found = posthoc.choose_threshold(answers[arguments.uncertainty], errors, arguments.max_risk)
    if found is None:
        sys.exit("choose_threshold: no threshold meets this risk: raise it, or use more images")
    threshold, coverage, bound = found
    print(
        f"abstain above {arguments.uncertainty} uncertainty {threshold:.4g} nats: "
        f"{coverage:.1%} of the images are answered, at most {bound:.1%} of those wrongly "
        "(95% confidence)"
    )


if __name__ == "__main__":
    main()
