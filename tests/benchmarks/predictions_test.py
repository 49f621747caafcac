"""The hours and gigabytes that the documentation predicts are those that the code predicts."""

import types

import pytest

from benchmarks import results, scaling

PLAN = types.SimpleNamespace(quick=False, data_dir=None)


@pytest.mark.parametrize("architecture", scaling.FULL_RECIPES)
def test_reproduce_says_what_is_predicted(architecture, project_root):
    sequence = scaling._sequence(architecture, PLAN)
    hours, memory, _ = scaling._predictions(architecture, PLAN)
    text = (project_root / "docs" / "reproduce.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {architecture} |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == [
        f"{hours.median:.1f} h",
        f"{memory.median:.1f} GB",
        f"{sequence.median:.0f} h",
    ]
    runs = sequence.facts["runs for each data set"]
    assert f"{runs} runs for each data set" in text


@pytest.mark.parametrize("architecture", scaling.FULL_RECIPES)
def test_so_does_the_published_page(architecture, project_root):
    suites = results.read(project_root / "benchmarks" / "results.json")["suites"]
    published = {row["name"]: row["median"] for row in suites["scale"]["rows"]}
    predicted = [scaling._sequence(architecture, PLAN), *scaling._predictions(architecture, PLAN)]
    for row in predicted:
        # Results are kept with six digits.
        assert published[row.name] == pytest.approx(row.median, rel=1e-5), row.name
