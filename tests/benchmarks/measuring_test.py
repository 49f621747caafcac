"""The interleaved timer, with alternatives that say themselves how long they took."""

import pytest

from benchmarks import measuring


class Scripted:
    """Takes the seconds it is told and notes when it was called."""

    def __init__(self, name, seconds, calls_log):
        self.name, self.seconds, self.log = name, seconds, calls_log
        self.warmed = 0

    def __call__(self):
        self.warmed += 1

    def timed(self, calls):
        self.log.append((self.name, calls))
        return calls * self.seconds, 2.0 * calls * self.seconds


def test_alternatives_take_turns_in_alternating_order():
    log = []
    alternatives = {name: Scripted(name, 1.0, log) for name in "abc"}
    timings = measuring.measure(alternatives, repetitions=3, seconds=60)
    assert [name for name, _ in log] == list("abcabccbaabc")
    assert all(alternative.warmed == 1 for alternative in alternatives.values())
    assert timings.rounds == 3


def test_times_are_per_call_and_short_calls_are_repeated():
    log = []
    timings = measuring.measure(
        {"slow": Scripted("slow", 10.0, log), "fast": Scripted("fast", 0.01, log)}, 2, 60
    )
    assert timings.wall == {"slow": [10.0, 10.0], "fast": pytest.approx([0.01, 0.01])}
    assert timings.cpu == {"slow": [20.0, 20.0], "fast": pytest.approx([0.02, 0.02])}
    # A twentieth of the slowest: 0.5 s, fifty calls.
    assert ("fast", 50) in log
    assert ("slow", 1) in log
