"""The same weights as another method, or with fewer members."""

import shutil

import numpy as np
import pytest

from s2d_tf import zoo
from s2d_tf.trainers import studies
from s2d_tf.trainers.studies import views


@pytest.fixture(scope="module")
def run(evaluated, evaluate, tmp_path_factory):
    """An ensemble of three tiny networks, as itself, as two of them and a member as MC dropout."""
    (ensemble, _), _ = evaluated
    run = zoo.Run.open(shutil.copytree(ensemble, tmp_path_factory.mktemp("views") / "run"))
    evaluate(views.view(run, members=2).write().directory)
    evaluate(views.view(run.members[1], "mc", members=3).write().directory)
    return run


def metrics(directory):
    (result,) = [r for r in studies.collect([directory]) if r.directory == directory]
    return result.metrics


def test_an_individual_run_as_monte_carlo_ensemble(run):
    folder = run.member_directory(1) / "as_mc_3"
    found = metrics(folder)
    assert found["run/name"] == "wrn_10_2_s2.mc.digits"
    assert found["run/num_members"] == 3
    assert "digits_photos/auroc/knowledge" in found
    view = zoo.Run.open(folder)
    assert view.recipe.draws == "dropout"
    assert view.recipe.arguments == run.recipe.arguments, "the run's, not the named recipe's"


def test_the_first_members_of_an_ensemble(run):
    whole, part = metrics(run.directory), metrics(run.directory / "as_ensemble_2")
    assert (whole["run/num_members"], part["run/num_members"]) == (3, 2)
    assert zoo.Run.open(run.directory / "as_ensemble_2").finished
    viewed = views.view(run, members=2).predictor()
    members = [member.predictor() for member in run.members[:2]]
    images = np.random.default_rng(0).integers(0, 256, [5, 8, 8, 1]).astype("float32")
    received = viewed.member_logits(images)
    expected = np.concatenate([member.member_logits(images) for member in members])
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)
    assert part["time/forward_seconds"] == 0.0, "the members' predictions are kept"


def test_tables_find_views(run):
    variants = studies.results.by_variant(studies.collect([run.directory]))
    assert {name: len(part) for name, part in variants.items()} == {
        "individual": 3,
        "mc_3": 1,
        "ensemble_2": 1,
        "ensemble_3": 1,
    }


@pytest.mark.parametrize(
    ("member", "arguments", "message"),
    [
        (None, {"members": 4}, "members: expected a number from 1 to 3 .*received 4"),
        (None, {"method": "mc"}, "method: expected ensemble or .*received 'mc'"),
        (0, {"method": "s2d_mc"}, "method: expected individual or .*received 's2d_mc'"),
    ],
)
def test_what_a_run_cannot_be(run, member, arguments, message):
    run = run if member is None else run.members[member]
    with pytest.raises(ValueError, match=message):
        views.view(run, **arguments)
