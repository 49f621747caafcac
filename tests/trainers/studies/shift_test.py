"""Metrics under shift: against the metrics of each condition by itself, and from outside."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from s2d_tf import data, evaluation, models
from s2d_tf.evaluation import intervals
from s2d_tf.trainers.studies import Shift, evaluate_shift, shift_intervals
from s2d_tf.trainers.studies.shift import ExampleScores

SEVERITIES = (1, 2, 3)


@pytest.fixture(scope="module")
def conditions():
    """Digits with noise and darkness of rising severity."""
    images, labels = data.load_arrays("digits", "test")
    images, labels = images[:120], labels[:120]
    rng = np.random.default_rng(0)
    made = {"clean": (images, labels)}
    for level in SEVERITIES:
        noise = rng.normal(0, 40 * level, images.shape)
        made[f"noise_{level}"] = np.clip(images + noise, 0, 255).astype(np.uint8), labels
        made[f"dark_{level}"] = images // 2**level, labels
    return made


@pytest.fixture(scope="module")
def model(network):
    return network(models.S2DClassifier)


@pytest.fixture(scope="module")
def shift(model, conditions):
    return evaluate_shift(model, conditions)


class TestMetrics:
    def test_each_condition_has_the_metrics_of_evaluate(self, model, conditions, shift):
        found = shift.metrics()
        for name, (images, labels) in conditions.items():
            expected = evaluation.evaluate(model, (images, labels), name="x")
            for metric in ("accuracy", "nll", "ece"):
                own = pytest.approx(expected[f"x/{metric}"], rel=1e-4)
                assert found[f"shift.{name}/{metric}"] == own, (name, metric)

    def test_wrong_answers_are_the_positives(self, model, conditions, shift):
        images, labels = conditions["noise_2"]
        answer = model.predict_uncertainty(images)
        wrong = answer["probs"].argmax(-1) != labels
        for name in ("total", "data", "knowledge"):
            expected = sklearn_metrics.roc_auc_score(wrong, answer[name])
            found = shift.metrics()[f"shift.noise_2/error_auroc/{name}"]
            assert found == pytest.approx(expected, abs=1e-3)
            mean = shift.metrics()[f"shift.noise_2/uncertainty/{name}"]
            assert mean == pytest.approx(answer[name].mean(), rel=1e-4)

    def test_means(self, shift):
        found = shift.metrics()
        both = [found[f"shift.{name}_2/nll"] for name in ("noise", "dark")]
        assert found["shift.severity_2/nll"] == pytest.approx(np.mean(both))
        own = [found[f"shift.{n}_{s}/nll"] for n in ("noise", "dark") for s in SEVERITIES]
        assert found["shift/nll"] == pytest.approx(np.mean(own))
        assert "shift.severity_0/nll" not in found

    def test_the_correlation_is_over_all_conditions(self, shift):
        found = shift.metrics()
        names = list(shift.answers)
        assert names[0] == "clean"
        errors = [1 - found[f"shift.{name}/accuracy"] for name in names]
        for score in ("confidence", "total", "data", "knowledge"):
            values = [found[f"shift.{name}/uncertainty/{score}"] for name in names]
            expected = stats.spearmanr(values, errors).statistic
            assert found[f"shift/shift_correlation/{score}"] == pytest.approx(expected)

    def test_published_means_are_over_the_main_corruptions(self, shift):
        clean, other = shift.answers["clean"], shift.answers["noise_3"]
        named = Shift("c", {"clean": clean, "fog_1": clean, "spatter_1": other})
        assert named.metrics()["c/nll"] == clean.metrics()["nll"]
        assert named.averaged == ["fog_1"]


class TestSubsetAndCache:
    def test_a_stopped_evaluation_continues(self, model, conditions, shift, tmp_path, passes):
        few = {name: conditions[name] for name in ("clean", "dark_1", "dark_2")}
        broken = few | {"dark_2": (few["dark_2"][0], np.full(120, 99))}
        with pytest.raises(ValueError, match="labels: expected"):
            evaluate_shift(model, broken, cache_dir=tmp_path)
        done = len(passes)
        again = evaluate_shift(model, few, cache_dir=tmp_path).metrics()
        assert len(passes) <= done + 1
        assert again["shift.dark_1/nll"] == pytest.approx(shift.metrics()["shift.dark_1/nll"])
        done = len(passes)
        assert evaluate_shift(model, few, cache_dir=tmp_path).metrics() == again
        assert len(passes) == done


class TestIntervals:
    def test_resamples_are_of_images_with_all_their_versions(self, shift):
        """Against metrics of the drawn images, condition by condition."""
        drawn = next(iter(list(intervals.draw_counts(120, 3, (7, 0), 64))[1:]))
        rows = [np.repeat(np.arange(120), counts.astype(int)) for counts in drawn]
        expected = []
        for chosen in rows:
            taken = {
                name: ExampleScores(
                    own.correct[chosen],
                    own.log_prob[chosen],
                    {score: values[chosen] for score, values in own.scores.items()},
                )
                for name, own in shift.answers.items()
            }
            expected.append(Shift("shift", taken).metrics())
        for key, values in shift.metrics(drawn).items():
            np.testing.assert_allclose(values, [own[key] for own in expected], err_msg=key)

    def test_a_clear_difference_is_found_and_has_its_sign(self, shift):
        better = {
            name: ExampleScores(np.ones(120, bool), own.log_prob + 1, own.scores)
            for name, own in shift.answers.items()
        }
        found = shift_intervals(Shift("shift", better), shift, num_resamples=50)
        assert found["shift/accuracy"]["low"] > 0
        assert found["shift/nll"]["high"] < 0
        assert found["shift/nll"]["estimate"] == pytest.approx(-1.0)
        assert {"shift/accuracy", "shift/ece"} <= set(found)
        # All right: it has no AUROC of errors to compare.
        assert "shift/error_auroc/total" not in found


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ("digits", "conditions: expected a dataset with conditions, .*'digits'"),
        ("cifar100_c_generated", "model: expected 100 classes .*received 8"),
        ({"clean": ([], []), "fog": ([], [])}, "names that end in their severity.*'fog'"),
        ({}, "expected at least one besides the clean one"),
    ],
)
def test_errors(model, conditions, message):
    with pytest.raises(ValueError, match=message):
        evaluate_shift(model, conditions)
