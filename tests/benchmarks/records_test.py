"""Goals, results on disk, comparison with a baseline, and the tables and page made from them."""

import pytest

import benchmarks
from benchmarks import report, results
from benchmarks.records import FORMAT, Goal, Row, counted, not_run

MACHINE = {
    "date": "2026-01-02T03:04:05+00:00",
    "cpu": "Processor",
    "cores": 2,
    "memory_gb": 8.0,
    "system": "Linux",
    "python": "3.11.0",
    "versions": {"tensorflow": "2.21", "keras": "3.15"},
    "onednn": "on (TensorFlow's own choice)",
    "gpus": [],
    "load": 0.5,
}


def found(*rows, suite="step", quick=False):
    record = {"question": "Why?", "quick": quick, "machine": MACHINE}
    return {
        "format": FORMAT,
        "suites": {suite: {**record, "rows": [vars(row) for row in rows]}},
    }


def measured(name="ratio", median=1.0, low=0.9, high=1.1, goal=None, **changes):
    row = Row(name, "a / b", "x", median, low, high, cpu=median, rounds=5, load=[1.0, 2.0])
    for key, value in changes.items():
        setattr(row, key, value)
    return row.judged(goal)


def test_results_survive_the_disk_and_other_suites_are_kept(tmp_path):
    path = tmp_path / "deep" / "results.json"
    results.write(path, found(measured(median=1.23456789), suite="step"))
    results.write(path, found(measured("other"), suite="fit"))
    read = results.read(path)
    assert list(read["suites"]) == ["step", "fit"]
    assert read["suites"]["step"]["rows"][0]["median"] == 1.23457
    results.write(path, found(measured(median=2.0), suite="step"))
    assert results.read(path)["suites"]["step"]["rows"][0]["median"] == 2.0
    assert list(tmp_path.rglob(".*")) == []


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 99, "suites": {}}'])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"results.json: expected"):
        results.read(path)
    with pytest.raises(FileNotFoundError, match="python -m benchmarks"):
        results.read(tmp_path / "none.json")


def test_the_table_shows_figures_goals_and_what_was_not_run():
    text = benchmarks.text_table(
        found(
            measured("slow", 1.5, 1.4, 1.6, goal=Goal(1.01)),
            measured("fast", 1.0, 0.9, 1.005, goal=Goal(1.01)),
            measured("noisy", 1.0, 0.9, 1.1, goal=Goal(1.01)),
            not_run("absent", "a / b", "`dirichlet` is not installed"),
            counted("guess", "a", 3.0, unit="h", kind="predicted"),
        )
    )
    lines = {line.split()[0]: line for line in text.splitlines()[2:]}
    assert "1.5 [1.4, 1.6]" in " ".join(lines["slow"].split())
    assert lines["slow"].endswith("<= 1.01 MISSED")
    assert lines["fast"].endswith("<= 1.01 met")
    assert lines["noisy"].endswith("<= 1.01 met, but the goal is between the quartiles")
    assert "not run  (`dirichlet` is not installed)" in lines["absent"]
    assert "3 h" in lines["guess"]
    assert lines["guess"].endswith("(predicted, not run)")


def test_the_published_page_is_that_of_the_published_results(project_root, tmp_path):
    folder = project_root / "benchmarks"
    (tmp_path / "results.json").write_bytes((folder / "results.json").read_bytes())
    made = report.write_report(tmp_path).read_text(encoding="utf-8")
    assert made == (folder / "README.md").read_text(encoding="utf-8")
