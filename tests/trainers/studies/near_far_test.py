"""OpenOOD's means and SCOD from scores whose answers can be computed by hand."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from s2d_tf import metrics
from s2d_tf.evaluation.evaluator import Gathered
from s2d_tf.evaluation.scoring import Scored
from s2d_tf.trainers.studies.near_far import near_far_metrics

SIZES = {"cifar10": 60, "openood_tiny_imagenet": 40, "svhn_cropped": 50}


def scored(count, shift, seed):
    rng = np.random.default_rng(seed)
    log_probs = np.log(rng.dirichlet(np.ones(4), count))
    scores = {"total": rng.normal(shift, size=count), "confidence": -log_probs.max(axis=1)}
    return Scored(log_probs, scores, rng.integers(0, 4, count))


def gathered(dataset, sets):
    unknown = {name: scored(SIZES[name], 1.0, i + 1) for i, name in enumerate(sets)}
    return Gathered(dataset, scored(80, 0.0, 0), unknown, {}, {}, 0.0, 0.0, {}, {})


@pytest.fixture(scope="module")
def protocol():
    own = gathered("cifar100", SIZES)
    return own, near_far_metrics(own)


def test_means_are_over_the_sets_of_each_distance(protocol):
    own, found = protocol
    near = []
    for name in ("cifar10", "openood_tiny_imagenet"):
        truth = np.repeat([0, 1], [80, SIZES[name]])
        values = np.append(own.known.scores["total"], own.unknown[name].scores["total"])
        near.append(sklearn_metrics.roc_auc_score(truth, values))
    assert found["openood_near/auroc/total"] == pytest.approx(np.mean(near))
    assert found["openood_near/sets"] == 2


def test_what_is_missing_is_counted(protocol):
    own, found = protocol
    assert found["openood_far/sets"] == 1
    alone = own.metrics()["svhn_cropped/fpr_at_95_recall/confidence"]
    assert found["openood_far/fpr_at_95_recall/confidence"] == alone
    none = near_far_metrics(gathered("cifar100", ["svhn_cropped"]))
    assert none["openood_near/sets"] == 0
    assert "openood_near/auroc/total" not in none


def test_scod_of_every_set_and_the_auroc_of_errors(protocol):
    own, found = protocol
    known, errors = own.known, own.known.errors
    for name, unknown in own.unknown.items():
        expected = metrics.area_under_scod_risk_coverage(
            known.scores["total"], errors, unknown.scores["total"]
        )
        assert found[f"{name}/scod_aurc/total"] == expected
    expected = sklearn_metrics.roc_auc_score(errors, known.scores["confidence"])
    assert found["cifar100/error_auroc/confidence"] == pytest.approx(expected)
    near = [found[f"{name}/scod_aurc/total"] for name in ("cifar10", "openood_tiny_imagenet")]
    assert found["openood_near/scod_aurc/total"] == pytest.approx(np.mean(near))


def test_other_datasets_have_no_such_protocol():
    found = near_far_metrics(gathered("digits", ["svhn_cropped"]))
    assert not [key for key in found if key.startswith("openood")]
    assert "svhn_cropped/scod_aurc/total" in found
