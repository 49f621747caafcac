"""The same weights as another method, or with fewer members."""

import numpy as np
import pytest

from s2d_tf import evaluation, paper, recipes, storage, training
from s2d_tf.evaluation import run_comparison, views

TINY = {"depth": 10, "width": 1, "stem_stride": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An ensemble of three tiny networks, two epochs each."""
    recipe = recipes.resolve("wrn_10_2_s2.ensemble.digits")
    recipe = recipe.replace(arguments=TINY, training={"epochs": 2}, num_members=3)
    folder = tmp_path_factory.mktemp("views") / "run"
    return training.train(recipe, folder, 0, training.Settings(verbose=0))


def test_an_individual_run_as_monte_carlo_ensemble(trained):
    folder = trained.member_directory(0)
    found = evaluation.evaluate_run(folder, log=lambda _: None, method="mc", members=3)
    assert found["run/name"] == "wrn_10_2_s2.mc.digits"
    assert found["run/num_members"] == 3
    assert "digits_photos/auroc/knowledge" in found
    view = storage.Run.open(folder / "as_mc_3")
    assert view.recipe.draws == "dropout"
    assert view.recipe.arguments == TINY, "the numbers of the run, not of the named recipe"


def test_the_first_members_of_an_ensemble(trained):
    whole = evaluation.evaluate_run(trained.directory, log=lambda _: None)
    part = evaluation.evaluate_run(trained.directory, log=lambda _: None, members=2)
    assert (whole["run/num_members"], part["run/num_members"]) == (3, 2)
    viewed = views.view(trained, members=2).predictor()
    members = [member.predictor() for member in trained.members[:2]]
    images = np.random.default_rng(0).integers(0, 256, [5, 8, 8, 1]).astype("uint8")
    received = viewed.predict_members(images)[1]
    expected = np.concatenate([member.predict_members(images)[1] for member in members])
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-5)
    assert part["time/forward_seconds"] == 0.0, "the members' predictions are kept"


def test_tables_find_views(trained):
    evaluation.evaluate_run(trained.directory, log=lambda _: None)
    evaluation.evaluate_run(trained.directory, log=lambda _: None, members=2)
    evaluation.evaluate_run(trained.member_directory(1), log=lambda _: None, method="mc", members=3)
    variants = evaluation.results.by_variant(evaluation.collect([trained.directory]))
    assert {"individual", "ensemble_3", "ensemble_2", "mc_3"} <= set(variants)
    assert len(variants["individual"]) == 3


def test_a_view_opens_as_a_run_and_draws_from_the_same_predictions(trained):
    evaluation.evaluate_run(trained.directory, log=lambda _: None, members=2)
    opened = storage.Run.open(trained.directory / "as_ensemble_2")
    assert opened.finished
    assert opened.predictor().num_members == 2
    gathered = run_comparison.gather_run(opened.directory)
    assert gathered.forward_seconds == 0.0


def test_views_are_kept_with_the_numbers_of_a_run(trained, tmp_path):
    evaluation.evaluate_run(trained.directory, log=lambda _: None)
    evaluation.evaluate_run(trained.directory, log=lambda _: None, members=2)
    paper.archive([trained.directory], tmp_path)
    kept = tmp_path / "runs" / trained.directory.name / "as_ensemble_2"
    assert sorted(path.name for path in kept.iterdir()) == ["metrics.json", "recipe.json"]


@pytest.mark.parametrize(
    ("member", "arguments", "message"),
    [
        (None, {"members": 4}, "with 3 members, received 4"),
        (None, {"method": "mc"}, "cannot answer as mc"),
        (0, {"method": "s2d_mc"}, "cannot answer as s2d_mc"),
        (0, {"members": 2}, "with 1 members, received 2"),
    ],
)
def test_what_a_run_cannot_be(trained, member, arguments, message):
    run = trained if member is None else trained.members[member]
    with pytest.raises(ValueError, match=message):
        views.view(run, **arguments)
