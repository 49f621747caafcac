"""The flat dict against scikit-learn and NumPy, computed from the member logits alone."""

import numpy as np
import pytest
import scipy.special
from sklearn import metrics as sklearn_metrics

from s2d_tf import data, evaluation, models

OOD = ("digits_heldout", "digits_photos")


@pytest.fixture(scope="module")
def predictors(network):
    plain = [network(models.Classifier, seed) for seed in range(2)]
    s2d = network(models.S2DClassifier)
    return {"plain": plain[0], "s2d": s2d, "ensemble": models.Ensemble(plain)}


@pytest.fixture(scope="module")
def found(predictors, cache):
    options = {"ood": OOD, "cache_dir": cache}
    return {n: evaluation.evaluate(each, "digits", **options) for n, each in predictors.items()}


def oracle_scores(kind, logits):
    """Confidence, total, data and knowledge in NumPy and SciPy."""
    logits = logits.astype(np.float64)
    probs = scipy.special.softmax(logits, axis=-1)
    mean = probs.mean(axis=0)
    total = -(mean * np.log(mean)).sum(axis=-1)
    if kind == "categorical":
        expected = -(probs * np.log(probs)).sum(axis=-1).mean(axis=0)
    else:
        alpha = np.exp(logits)
        whole = alpha.sum(axis=-1, keepdims=True)
        terms = scipy.special.digamma(whole + 1) - scipy.special.digamma(alpha + 1)
        expected = (probs * terms).sum(axis=-1).mean(axis=0)
    confidence = -np.log(mean.max(axis=-1))
    scores = confidence, total, expected, total - expected
    return mean, dict(zip(("confidence", "total", "data", "knowledge"), scores, strict=True))


def binned_gap(probs, wrong, bins=15):
    """ECE by a loop over bins (lo, hi]."""
    confidence, gap = probs.max(axis=-1), 0.0
    for i in range(bins):
        inside = (confidence > i / bins) & (confidence <= (i + 1) / bins)
        if inside.any():
            gap += inside.mean() * abs((~wrong[inside]).mean() - confidence[inside].mean())
    return gap


@pytest.mark.parametrize("name", ["plain", "s2d", "ensemble"])
def test_every_metric_equals_its_oracle(predictors, found, name):
    predictor, values = predictors[name], found[name]
    images, labels = data.load_arrays("digits", "test")
    kind, logits = predictor.predict_members(images)
    probs, known = oracle_scores(kind, logits)
    wrong = probs.argmax(axis=-1) != labels
    for metric, expected in {
        "accuracy": 1 - wrong.mean(),
        "nll": sklearn_metrics.log_loss(labels, probs, labels=np.arange(8)),
        "brier": ((probs - np.eye(8)[labels]) ** 2).sum(axis=-1).mean(),
        "ece": binned_gap(probs, wrong),
    }.items():
        assert values[f"digits/{metric}"] == pytest.approx(expected, abs=1e-9), metric
    order = np.argsort(probs.max(axis=-1))
    gaps = [abs((~wrong[part]).mean() - probs[part].max(axis=-1).mean()) * len(part)
            for part in np.array_split(order, 15)]  # fmt: skip
    # Bins of equally many: where they cannot be, ours may cut elsewhere by an example.
    assert values["digits/adaptive_ece"] == pytest.approx(sum(gaps) / len(labels), abs=0.01)
    uncertainties = ["confidence", "total"] + (["data", "knowledge"] if name != "plain" else [])
    for uncertainty in uncertainties[:3]:
        errors = wrong[np.argsort(known[uncertainty], kind="stable")]
        risks = np.cumsum(errors) / np.arange(1, len(errors) + 1)
        assert values[f"digits/aurc/{uncertainty}"] == pytest.approx(risks.mean(), abs=1e-3)
        accepted = np.concatenate([[0.0], np.cumsum(errors) / len(errors)])
        area = (accepted[1:] + accepted[:-1]).sum() / (2 * len(errors))
        assert values[f"digits/augrc/{uncertainty}"] == pytest.approx(area, abs=1e-3)
        kept = errors[: round(0.8 * len(errors))]
        risk = values[f"digits/risk_at_80_coverage/{uncertainty}"]
        assert risk == pytest.approx(kept.mean(), abs=2e-3)
    for ood in OOD:
        others = predictor.predict_members(data.load_arrays(ood, "test")[0])[1]
        _, unknown = oracle_scores(kind, others)
        for uncertainty in uncertainties:
            scores = np.concatenate([known[uncertainty], unknown[uncertainty]])
            is_ood = np.repeat([0, 1], [len(labels), len(unknown[uncertainty])])
            # The oracle's knowledge is a difference with few digits left: a few pairs may swap.
            exact = 1e-6 if uncertainty != "knowledge" else 1e-4
            auroc = sklearn_metrics.roc_auc_score(is_ood, scores)
            assert values[f"{ood}/auroc/{uncertainty}"] == pytest.approx(auroc, abs=exact)
            aupr = sklearn_metrics.average_precision_score(is_ood, scores)
            assert values[f"{ood}/aupr/{uncertainty}"] == pytest.approx(aupr, abs=10 * exact)
            flagged, recall, _ = sklearn_metrics.roc_curve(is_ood, scores, drop_intermediate=False)
            fpr = values[f"{ood}/fpr_at_95_recall/{uncertainty}"]
            assert fpr == pytest.approx(flagged[recall >= 0.95].min(), abs=1e-3)


def test_values_are_fractions_and_only_some_models_decompose(found):
    for values in found.values():
        for key, value in values.items():
            smallest = -1 if key.endswith("/rank_correlation") else 0
            assert smallest <= value <= 1 or "/nll" in key or "/brier" in key, key
    for name, decomposed in (("plain", 0), ("s2d", 18), ("ensemble", 18)):
        kept = [key for key in found[name] if key.endswith(("/data", "/knowledge"))]
        assert len(kept) == decomposed


def test_missing_data_is_an_error_or_recorded(predictors, tmp_path):
    model, options = predictors["plain"], {"data_dir": tmp_path, "skip_missing": True}
    with pytest.raises(data.MissingDataError):
        evaluation.evaluate(model, "digits", ["svhn_cropped"], data_dir=tmp_path)
    scored = evaluation.score_datasets(model, "digits", ["svhn_cropped"], **options)
    assert list(scored.missing) == ["svhn_cropped"]
    assert scored.facts["digits"]["images"] == 1283
    with pytest.raises(data.MissingDataError):
        evaluation.score_datasets(model, "cifar100", **options)
