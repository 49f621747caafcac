"""The interleaved timer, with alternatives that say themselves how long they took."""

import pytest

from benchmarks import measuring


class Scripted:
    """Takes the seconds it is told and notes when it was called."""

    def __init__(self, name, seconds, calls_log):
        self.name, self.seconds, self.log = name, seconds, calls_log

    def __call__(self):
        pass

    def timed(self, calls):
        self.log.append((self.name, calls))
        return calls * self.seconds, 2.0 * calls * self.seconds


def test_alternatives_take_turns_and_short_calls_are_repeated():
    log = []
    alternatives = {n: Scripted(n, s, log) for n, s in {"a": 10.0, "b": 10.0, "c": 0.01}.items()}
    timings = measuring.measure(alternatives, repetitions=3, seconds=600)
    assert [name for name, _ in log] == list("abcabccbaabc")
    assert timings.rounds == 3
    assert timings.wall == {"a": [10.0] * 3, "b": [10.0] * 3, "c": pytest.approx([0.01] * 3)}
    assert timings.cpu["c"] == pytest.approx([0.02] * 3)
    # A twentieth of the slowest: 0.5 s, fifty calls.
    assert ("c", 50) in log
    assert ("a", 1) in log
