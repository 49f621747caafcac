"""Alternatives in processes of their own."""

import pytest

from benchmarks import child

TARGET = "benchmark_target:functions"
MODULE = """
import os

def functions(name):
    print("noise on the standard output")
    if name == "broken":
        raise ValueError("no such\\nnetwork")
    if name == "dead":
        os._exit(3)
    return {os.environ["S2D_FLAVOUR"]: lambda: sum(range(1000))}
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    (tmp_path / "benchmark_target.py").write_text(MODULE)
    # Not Keras, whose import takes seconds.
    (tmp_path / "keras.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("S2D_FLAVOUR", "parent's")
    children = []

    def make(name, **environment):
        children.append(child.Child(TARGET, {"name": name}, environment))
        return children[-1]

    yield make
    for each in children:
        each.close()


def test_a_child_has_its_environment_and_times_itself(start):
    each = start("good", S2D_FLAVOUR="child's")
    remote = each.function("child's")
    remote()
    wall, cpu = remote.timed(50)
    assert wall > 0
    assert cpu >= 0
    assert each.peak_bytes() >= 0
    with pytest.raises(RuntimeError, match="KeyError"):
        each.function("nothing")()


def test_failures_reach_the_parent_in_one_line(start):
    with pytest.raises(RuntimeError, match="ValueError: no such network"):
        start("broken")
    with pytest.raises(RuntimeError, match="ended with code 3"):
        start("dead")
