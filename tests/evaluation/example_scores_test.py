"""Detectors in an evaluation: other code's scores, features computed once, steps of the model."""

import itertools

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import sklearn.neighbors
import sklearn.preprocessing

from s2d_tf import data, evaluation, metrics, models, posthoc
from s2d_tf.evaluation.example_scores import choose_detectors

OOD = ("digits_heldout", "digits_photos")
RANKINGS = ("auroc", "aupr", "fpr_at_95_recall")


@pytest.fixture(scope="module")
def s2d(network):
    return network(models.S2DClassifier)


@pytest.fixture(scope="module")
def found(s2d, cache):
    return evaluation.evaluate(s2d, "digits", OOD, cache_dir=cache, detectors="all")


def test_every_detector_has_its_keys_beside_those_without(s2d, cache, found):
    for place in itertools.product(OOD, RANKINGS, posthoc.detectors()):
        assert 0 <= found["/".join(place)] <= 1
    assert {f"digits/{m}/vim" for m in ("aurc", "augrc", "risk_at_80_coverage")} <= set(found)
    plain = evaluation.evaluate(s2d, "digits", OOD, cache_dir=cache)
    assert plain.items() <= found.items()
    assert not [key for key in plain if key.endswith(("/knn", "/msp"))]


def test_knn_and_energy_are_those_of_other_code(s2d, found):
    def vectors(name, split="test"):
        images = data.load_arrays(name, split)[0].astype(np.float32)
        vectors = s2d.backbone.predict((images - 78.0) / 96.0, verbose=0)
        return vectors, sklearn.preprocessing.normalize(vectors)

    near = sklearn.neighbors.NearestNeighbors(n_neighbors=50).fit(vectors("digits", "train")[1])
    kernel, bias = s2d.head.kernel.numpy()[0], s2d.head.bias.numpy()[0]
    scores = {}
    for name in ("digits", *OOD):
        plain, normal = vectors(name)
        energy = -scipy.special.logsumexp(plain @ kernel + bias, axis=-1)
        scores[name] = {"knn": near.kneighbors(normal)[0][:, -1], "energy": energy}
    for ood in OOD:
        truth = np.repeat([0, 1], [len(scores["digits"]["knn"]), len(scores[ood]["knn"])])
        for name in ("knn", "energy"):
            joined = np.concatenate([scores["digits"][name], scores[ood][name]])
            expected = sklearn.metrics.roc_auc_score(truth, joined)
            assert found[f"{ood}/auroc/{name}"] == pytest.approx(expected, abs=2e-4)


def test_features_are_computed_once_and_survive_damage(s2d, cache, found, monkeypatch):
    kept = sorted(cache.glob("*.features.*.npy"))
    sets = ["digits.test", "digits.train", "digits_heldout.test", "digits_photos.test"]
    assert [path.name.split(".features.")[0] for path in kept] == sets
    kept[0].write_bytes(b"damaged")
    collect, passes = posthoc.collect, []

    def counted(network, data, **options):
        passes.append(len(data[0]))
        return collect(network, data, **options)

    monkeypatch.setattr(posthoc, "collect", counted)
    again = evaluation.evaluate(s2d, "digits", OOD, cache_dir=cache, detectors="all")
    assert again == found
    assert passes == [1283]  # only the damaged file
    uncached = evaluation.evaluate(s2d, "digits", OOD, detectors=["knn"])
    assert uncached["digits_photos/auroc/knn"] == pytest.approx(found["digits_photos/auroc/knn"])


def test_an_ensemble_has_the_detectors_that_read_predictions(s2d, network):
    ensemble, lines = models.Ensemble([network(models.Classifier, s) for s in range(2)]), []
    assert choose_detectors("all", ensemble) == ["msp", "max_logit", "energy", "gen"]
    assert choose_detectors("knn,gen", ensemble, lines.append) == ["gen"]
    assert lines == ["skipped knn: they need the features of a single network"]
    with pytest.raises(ValueError, match="detectors: expected ones that read the prediction alone"):
        choose_detectors("knn", ensemble)
    with pytest.raises(ValueError, match=r"detectors: expected 'all' or some of msp.*'knnn'"):
        choose_detectors("knnn", s2d)
    found = evaluation.evaluate(ensemble, "digits", OOD[1:], detectors="all")
    by = {name: found[f"digits_photos/auroc/{name}"] for name in ("msp", "confidence")}
    assert by["msp"] == pytest.approx(by["confidence"], abs=1e-3)


def test_the_steps_of_a_model_are_evaluated(s2d, cache):
    train, test = (data.load_arrays("digits", split) for split in ("train", "test"))
    model = posthoc.KNN(k=7).fit(s2d, train)
    model = posthoc.Energy(temperature=3.0, name="warm_energy").fit(model)
    model = posthoc.SelectiveClassifier(0.9, score="knn").fit(model, train)
    model = posthoc.ConformalSets(0.7).fit(model, train)
    found = evaluation.evaluate(model, "digits", OOD, cache_dir=cache, detectors="knn,gen")
    answers = {name: model.predict_uncertainty(data.load_arrays(name, "test")[0]) for name in OOD}
    known = model.predict_uncertainty(test[0])
    for name in OOD:
        for score in ("knn", "warm_energy"):
            expected = metrics.auroc(known[score], answers[name][score])
            assert found[f"{name}/auroc/{score}"] == pytest.approx(expected, abs=1e-4)
    sets, answered = known["prediction_set"], ~known["abstain"]
    wrong = known["probs"].argmax(axis=1) != test[1]
    for key, expected in {
        "set_coverage/prediction_set": sets[np.arange(len(test[1])), test[1]].mean(),
        "set_size/prediction_set": sets.sum(axis=1).mean(),
        "answered/abstain": answered.mean(),
        "answered_errors/abstain": wrong[answered].mean(),
    }.items():
        assert found[f"digits/{key}"] == pytest.approx(expected), key


def test_rank_correlation_of_data_and_knowledge(s2d, found, network):
    for name in ("digits", *OOD):
        answer = s2d.predict_uncertainty(data.load_arrays(name, "test")[0])
        expected = scipy.stats.spearmanr(answer["data"], answer["knowledge"]).statistic
        assert found[f"{name}/rank_correlation"] == pytest.approx(expected, abs=1e-4)
    plain = evaluation.evaluate(network(models.Classifier), "digits")
    assert not [key for key in plain if "rank_correlation" in key]
