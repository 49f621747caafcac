"""Every suite runs, at tiny sizes; no test looks at a time. The page is that of the results."""

import math

import pytest

import benchmarks
from benchmarks import report, results

PLAN = benchmarks.Plan(quick=True, repetitions=1, seconds=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", benchmarks.SUITES)
def test_every_suite_runs(name, tmp_path):
    path = tmp_path / "results.json"
    found = benchmarks.run(benchmarks.find([name]), PLAN, print, path)
    rows = found["suites"][name]["rows"]
    assert len({row["name"] for row in rows}) == len(rows)
    for row in rows:
        if row["kind"] == "not run":
            assert "not installed" in row["note"]
            continue
        assert math.isfinite(row["median"]), row["name"]
        if row["rounds"]:
            assert row["low"] <= row["median"] <= row["high"]
            assert all(seconds > 0 for seconds in row["seconds"].values())
            assert len(row["load"]) == 2
    # Once more: one line on disk for every row.
    assert len(benchmarks.read(path)["suites"][name]["rows"]) == len(rows)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 99, "suites": {}}'])
def test_other_files_are_rejected(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"results.json: expected"):
        results.read(path)


def test_the_published_page_is_that_of_the_published_results(project_root, tmp_path):
    folder = project_root / "benchmarks"
    (tmp_path / "results.json").write_bytes((folder / "results.json").read_bytes())
    made = report.write_report(tmp_path).read_text(encoding="utf-8")
    assert made == (folder / "README.md").read_text(encoding="utf-8")
