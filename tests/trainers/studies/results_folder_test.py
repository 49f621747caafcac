"""The committed results: tables come from the numbers beside them, entries from the same runs."""

import pytest

from s2d_tf import zoo
from s2d_tf.trainers.studies import collect, detectors, result_tables, results, shift

TOLERANCE = 0.002  # Entries are in half precision and measured again.


@pytest.fixture(scope="module")
def folder(project_root):
    return project_root / "results"


def test_tables_are_made_from_the_numbers_beside_them(folder):
    assert (folder / "tables.md").read_text(encoding="utf-8") == result_tables.text(folder)


@pytest.mark.parametrize("question", [detectors.QUESTION, shift.QUESTION], ids=lambda q: q.name)
def test_pages_of_studies_are_made_from_their_rows(question, folder, tmp_path):
    path = folder / question.name / f"{question.name}.json"
    copied = tmp_path / path.name  # Figures go into the folder of the page.
    copied.write_bytes(path.read_bytes())
    expected = path.with_suffix(".md").read_text(encoding="utf-8")
    assert results.text(question, results.Study(copied)) == expected


def test_what_is_compared_was_trained_on_the_same_images(folder):
    kept = collect(sorted((folder / "runs").iterdir()))
    assert all(result.metrics["run/name"] == result.recipe.name for result in kept)
    for name, group in results.groups(kept).items():
        splits = {result.split for result in group}
        assert splits in ({"train"}, {"train_without_validation"}), name


@pytest.mark.parametrize("name", [n for n in zoo.names(pretrained=True) if ".cifar100" in n])
def test_an_entry_has_its_run_here(name, folder):
    published = zoo.entry(name).record.metrics
    same = [
        result.metrics
        for result in collect(sorted((folder / "runs").iterdir()))
        if (result.recipe.name, result.seed) == (name, published["run/seed"])
        and result.metrics["run/num_members"] == published["run/num_members"]
    ]
    assert same, f"`s2d table RUN --keep=results` with the run of {name}"
    for key in ("cifar100/accuracy", "cifar100/nll", "cifar100/ece"):
        assert any(abs(run[key] - published[key]) < TOLERANCE for run in same), key
