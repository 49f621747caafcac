"""Writes golden.npz and golden.json: scores of independent packages on small random features.

It never imports s2d_tf and runs in an environment of its own, once:

    python3 -m venv oracle
    oracle/bin/pip install torch pytorch-ood laplace-torch mapie crepes
    oracle/bin/python tests/posthoc/golden/make_golden.py

golden.json holds the options and the versions of the packages.
"""

import importlib.metadata
import json
import pathlib

import mapie.classification
import mapie.conformity_scores.sets.aps
import mapie.conformity_scores.sets.raps
import mapie.metrics.classification
import numpy as np
import torch
from crepes import ConformalClassifier
from crepes.extras import hinge
from laplace import Laplace
from pytorch_ood import detector as ood
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin

FOLDER = pathlib.Path(__file__).resolve().parent
PACKAGES = ("crepes", "laplace-torch", "mapie", "numpy", "pytorch-ood", "torch")
OPTIONS = {
    "ash": {"percentile": 0.65},
    "conformal": {"coverage": 0.8, "penalty": 0.05, "free_classes": 2},
    "energy": {"temperature": 2.0},
    "gen": {"gamma": 0.1, "num_top": 3},
    "knn": {"k": 7},
    "laplace": {"prior_precisions": [0.1, 1.0, 30.0]},
    "react": {"percentile": 0.9},
    "scale": {"percentile": 0.65},
    "vim": {"dimension": 5},
}
CLASSES, WIDTH = 5, 12


def inputs():
    """Training, calibration and test features of five overlapping classes, and a linear head."""
    random = np.random.default_rng(17)
    centers = random.gamma(1.0, 1.0, [CLASSES, WIDTH])

    def draw(count):
        labels = np.arange(count) % CLASSES
        features = np.maximum(centers[labels] + 0.7 * random.normal(size=[count, WIDTH]), 0.0)
        return features.astype(np.float32), labels

    kernel = (0.6 * centers.T + 0.1 * random.normal(size=[WIDTH, CLASSES])).astype(np.float32)
    bias = (-0.3 * (centers**2).sum(axis=1)).astype(np.float32)
    given = {"kernel": kernel, "bias": bias}
    for name, count in (("train", 240), ("calibration", 150), ("test", 50)):
        given[f"{name}_features"], given[f"{name}_labels"] = draw(count)
    given["test_features"][25:] *= random.gamma(1.0, 2.0, [25, WIDTH])
    return given


def logits_of(given, name):
    return given[f"{name}_features"] @ given["kernel"] + given["bias"]


def detectors(given):
    """pytorch-ood; its feature maps `[n, d, 1, 1]` are our feature vectors."""
    options = OPTIONS
    train, test = (torch.tensor(given[f"{name}_features"]) for name in ("train", "test"))
    labels = torch.tensor(given["train_labels"])
    logits = torch.tensor(logits_of(given, "test"))
    kernel, bias = torch.tensor(given["kernel"].T.copy()), torch.tensor(given["bias"])
    head = torch.nn.Linear(WIDTH, CLASSES)
    head.weight.data, head.bias.data = kernel, bias

    def on_maps(maps):
        return head(maps.flatten(1))

    maps, train_maps = test[:, :, None, None], train[:, :, None, None]
    energy = options["energy"]["temperature"]
    gen = options["gen"]
    fitted = {
        "knn": ood.KNN(None, k=options["knn"]["k"]),
        "mahalanobis": ood.Mahalanobis(None),
        "relative_mahalanobis": ood.RMD(None),
        "feature_density": ood.GMM(None),
        "vim": ood.ViM(None, options["vim"]["dimension"], kernel, bias),
        "fdbd": ood.fDBD(None, head),
    }
    found = {
        "msp": ood.MaxSoftmax.score(logits),
        "max_logit": ood.MaxLogit.score(logits),
        "energy": ood.EnergyBased.score(logits, t=energy),
        "gen": ood.GEN.score(logits, gamma=gen["gamma"]),
        "gen_top": ood.GEN.score(logits, gamma=gen["gamma"], M=gen["num_top"]),
        **{
            name: detector.fit_features(train, labels).predict_features(test)
            for name, detector in fitted.items()
        },
    }
    react = ood.ReAct(None, on_maps, percentile=options["react"]["percentile"])
    found["react"] = react.fit_feature_maps(train_maps, labels).predict_feature_maps(maps)
    for variant in ("s", "p", "b"):
        ash = ood.ASH(None, on_maps, f"ash-{variant}", options["ash"]["percentile"])
        found[f"ash_{variant}"] = ash.predict_feature_maps(maps)
    scale = ood.SCALE(None, on_maps, options["scale"]["percentile"])
    found["scale"] = scale.predict_feature_maps(maps)
    return {name: np.asarray(score.detach()) for name, score in found.items()}


def laplace(given):
    """laplace-torch on a network that is only a linear head, in one batch, in float64."""
    data = torch.tensor(given["train_features"], dtype=torch.float64)
    labels = torch.tensor(given["train_labels"])
    test = torch.tensor(given["test_features"], dtype=torch.float64)
    network = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Linear(WIDTH, CLASSES)).double()
    network[1].weight.data = torch.tensor(given["kernel"].T.copy(), dtype=torch.float64)
    network[1].bias.data = torch.tensor(given["bias"], dtype=torch.float64)
    dataset = torch.utils.data.TensorDataset(data, labels)
    loader = torch.utils.data.DataLoader(dataset, batch_size=len(labels))
    found = {}
    for name, structure in (("full", "full"), ("kronecker", "kron"), ("diagonal", "diag")):
        model = Laplace(
            network, "classification", subset_of_weights="last_layer", hessian_structure=structure
        )
        model.fit(loader)
        evidence, probs, variance = [], [], []
        for precision in OPTIONS["laplace"]["prior_precisions"]:
            model.prior_precision = precision
            evidence.append(model.log_marginal_likelihood().item())
            probs.append(model(test, pred_type="glm", link_approx="probit").numpy())
            _, covariance = model._glm_predictive_distribution(test)
            variance.append(covariance.diagonal(dim1=-2, dim2=-1).numpy())
        model.optimize_prior_precision(method="marglik", n_steps=3000, lr=0.02)
        found[f"laplace_{name}_best_evidence"] = np.array(model.log_marginal_likelihood().item())
        found[f"laplace_{name}_best_precision"] = np.array(model.prior_precision.item())
        found[f"laplace_{name}_evidence"] = np.array(evidence)
        found[f"laplace_{name}_probs"] = np.stack(probs).astype(np.float32)
        found[f"laplace_{name}_variance"] = np.stack(variance).astype(np.float32)
    return found


class Table(ClassifierMixin, BaseEstimator):
    """A fitted scikit-learn classifier whose inputs are its probabilities."""

    def __init__(self):
        self.classes_ = np.arange(CLASSES)
        self.n_features_in_ = CLASSES

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, x, y):
        return self

    def predict_proba(self, x):
        return np.asarray(x)

    def predict(self, x):
        return np.asarray(x).argmax(axis=1)


def conformal(given):
    """mapie: LAC, APS and RAPS; crepes: LAC for each class."""
    options = OPTIONS["conformal"]
    coverage = options["coverage"]
    known = softmax(logits_of(given, "calibration").astype(np.float64), axis=1)
    new = softmax(logits_of(given, "test").astype(np.float64), axis=1)
    labels = given["calibration_labels"]
    seed = 3
    # mapie draws one number for each example, anew from the seed in calibration and prediction.
    found = {
        "calibration_draws": np.random.RandomState(seed).uniform(size=len(known)),
        "test_draws": np.random.RandomState(seed).uniform(size=len(new)),
    }
    for name in ("lac", "aps"):
        model = mapie.classification.SplitConformalClassifier(
            Table(), confidence_level=coverage, conformity_score=name, prefit=True,
            random_state=seed,
        )  # fmt: skip
        model.conformalize(known, labels)
        arguments = {"include_last_label": "randomized"} if name == "aps" else {}
        _, sets = model.predict_set(new, conformity_score_params=arguments)
        found[f"{name}_sets"] = sets[:, :, 0]
        inner = model._mapie_classifier
        found[f"{name}_scores"] = np.asarray(inner.conformity_scores_).ravel()
        found[f"{name}_threshold"] = np.asarray(inner.quantiles_).ravel()
        if name == "aps":
            _, sets = model.predict_set(new, conformity_score_params={"include_last_label": False})
            found["aps_sets_from_threshold"] = sets[:, :, 0]
    aps = mapie.conformity_scores.sets.aps.APSConformityScore
    raps = mapie.conformity_scores.sets.raps.RAPSConformityScore
    sums, ranks = aps.get_true_label_cumsum_proba(labels, known, np.arange(CLASSES))
    found["aps_cumulative_scores"] = sums.ravel()
    found["raps_scores"] = raps._regularize_conformity_score(
        np.array([options["free_classes"]]), options["penalty"], sums, ranks
    ).ravel()

    scores = hinge(known, np.arange(CLASSES), labels)
    by_class = np.stack(
        [
            ConformalClassifier()
            .fit(scores[labels == c])
            .predict_set(hinge(new), confidence=coverage, smoothing=False)[:, c]
            for c in range(CLASSES)
        ],
        axis=1,
    )
    found["lac_sets_by_class"] = by_class.astype(bool)
    sets = found["lac_sets"][:, :, None]
    truth = given["test_labels"]
    metrics = mapie.metrics.classification
    found["lac_coverage"] = np.array(metrics.classification_coverage_score(truth, sets)).ravel()
    found["lac_mean_size"] = np.array(metrics.classification_mean_width_score(sets)).ravel()
    return found


def main():
    torch.manual_seed(0)
    given = inputs()
    found = {**given, **detectors(given), **laplace(given), **conformal(given)}
    np.savez_compressed(FOLDER / "golden.npz", **found)
    facts = {
        "classes": CLASSES,
        "options": OPTIONS,
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
    }
    (FOLDER / "golden.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print({name: value.shape for name, value in found.items()})


if __name__ == "__main__":
    main()
