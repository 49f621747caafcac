"""How long a process takes to answer."""

import os
import pathlib
import subprocess
import sys
import time

from benchmarks.records import Case, Goal

COMMAND_GOAL = Goal(0.3)


def cases(plan):
    yield _case("s2d --help", ["-m", "s2d_tf", "--help"], COMMAND_GOAL)
    yield _case("s2d list", ["-m", "s2d_tf", "list"], COMMAND_GOAL)
    yield _case("import s2d_tf", ["-c", "import s2d_tf"], COMMAND_GOAL)
    if not plan.quick:
        yield _case("s2d_tf.metrics", ["-c", "from s2d_tf import metrics"], None)
        yield _case("s2d_tf.models", ["-c", "from s2d_tf import models"], None)


def _case(name, arguments, goal):
    return Case(
        f"`{name}`, from start to end",
        lambda: {"command": Process(arguments), "python": Process(["-c", "pass"])},
        lambda t: t["command"],
        "seconds of the process",
        goal,
        unit="s",
        facts=lambda t: {"seconds beyond an empty Python": t["command"] - t["python"]},
    )


class Process:
    """A process of this Python; its own processor time counts, not ours."""

    def __init__(self, arguments):
        root = str(pathlib.Path(__file__).resolve().parents[1])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
        self.command = [sys.executable, *arguments]
        self.environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2"}

    def __call__(self):
        subprocess.run(self.command, env=self.environment, check=True, capture_output=True)

    def timed(self, calls):
        before, began = os.times(), time.perf_counter()
        for _ in range(calls):
            self()
        wall, after = time.perf_counter() - began, os.times()
        spent = after.children_user + after.children_system
        return wall, spent - before.children_user - before.children_system
