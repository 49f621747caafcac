"""Every suite runs, at tiny sizes; no test looks at a time. The page is that of the results."""

import math
import types

import pytest

import benchmarks
from benchmarks import child, records, report, results

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
    assert len(benchmarks.read(path)["suites"][name]["rows"]) == len(rows)


def test_a_process_that_dies_costs_its_own_row_only(tmp_path):
    def dies():
        raise child.ChildError("a benchmark's process failed: it ended with code -9")

    def cases(plan):
        for name, function in (("dead", dies), ("alive", lambda: None)):
            yield records.Case(name, lambda f=function: {"a": f}, lambda t: t["a"], "a")
            kept.append(path.is_file() and len(benchmarks.read(path)["suites"]["brave"]["rows"]))

    kept, path = [], tmp_path / "results.json"
    suite = types.SimpleNamespace(name="brave", question="What is left?", cases=cases)
    found = benchmarks.run([suite], PLAN, out=path)
    dead, alive = found["suites"]["brave"]["rows"]
    assert dead["kind"] == "not run"
    assert dead["note"].endswith("code -9")
    assert alive["median"] > 0
    assert kept == [1, 2]  # Each row is on disk before the next is measured.


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
