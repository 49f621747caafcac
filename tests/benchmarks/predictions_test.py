"""The hours and gigabytes that the documentation predicts are those that the code predicts."""

import types

import pytest

from benchmarks import results, scaling

PLAN = types.SimpleNamespace(quick=False, data_dir=None)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=() if name.startswith("wrn") else pytest.mark.slow)
        for name in scaling.FULL_RECIPES
    ],
)
def predicted(request):
    """An architecture and its rows; the network is built once for all of them."""
    backbone = scaling._backbone(scaling.networks.Network(request.param, 0).recipe("s2d"), PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "_backbone", lambda recipe, plan: backbone)
        sequence = scaling._sequence(request.param, PLAN)
        return request.param, [sequence, *scaling._predictions(request.param, PLAN)]


def test_reproduce_says_what_is_predicted(predicted, project_root):
    architecture, (sequence, hours, memory, _) = predicted
    text = (project_root / "docs" / "reproduce.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {architecture} |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:] == [
        f"{hours.median:.1f} h",
        f"{memory.median:.1f} GB",
        f"{sequence.median:.0f} h",
    ]
    runs = sequence.facts["runs for each dataset"]
    assert f"{runs} runs for each dataset" in text


def test_so_does_the_published_page(predicted, project_root):
    suites = results.read(project_root / "benchmarks" / "results.json")["suites"]
    published = {row["name"]: row["median"] for row in suites["scale"]["rows"]}
    for row in predicted[1]:
        # Results are kept with six digits.
        assert published[row.name] == pytest.approx(row.median, rel=1e-5), row.name
