"""One timer for everything: alternatives take turns, so that whatever slows the machine slows all.

Single times on a shared machine say little; the ratio of two alternatives that ran one after the
other says more, and the median of several such ratios, with its quartiles, says how much.
"""

import dataclasses
import time

import numpy as np

# A call much shorter than the slowest alternative's is repeated until it takes this share of it,
# and never less than this time, in which a process that had to wait for its turn gets warm. Calls
# that are longer than the last of these are not called once more for that.
SHARE_OF_SLOWEST = 0.05
MIN_SECONDS = 0.1
MAX_CALLS = 1000
LONG_SECONDS = 1.0

# Threads of a runtime may stay awake for a while after a call. Before another process has its turn,
# they are given time to fall asleep.
SETTLE_SECONDS = 0.1


@dataclasses.dataclass(frozen=True)
class Timings:
    """Seconds per call of each alternative, one value a round.

    Attributes:
        wall: `{alternative: [seconds]}` as the clock on the wall saw them.
        cpu: the same in processor time of all threads, which other programs disturb far less; it
            is not the waiting time where the alternatives use a different number of threads.
    """

    wall: dict[str, list[float]]
    cpu: dict[str, list[float]]

    @property
    def rounds(self):
        return len(next(iter(self.wall.values())))

    def each(self, value, clock="wall"):
        """`value({alternative: seconds})` of every round."""
        times = getattr(self, clock)
        return [value({name: times[name][i] for name in times}) for i in range(self.rounds)]


def measure(alternatives, repetitions=7, seconds=20.0):
    """Times alternatives in turns: A B C, C B A, A B C, ...

    Args:
        alternatives: `{name: callable}`. A callable that has a method `timed(calls)`, which returns
            wall and processor seconds, measures itself (another process, a part of its work).
        repetitions: rounds at most.
        seconds: no round is begun after this time, but two are always made if `repetitions` allow.

    Returns:
        `Timings`.
    """
    for function in alternatives.values():
        function()  # Traces, compiles and fills caches.
    began = time.perf_counter()
    first = {name: _timed(function, 1)[0] for name, function in alternatives.items()}
    calls = {name: _calls(taken, max(first.values())) for name, taken in first.items()}
    wall = {name: [] for name in alternatives}
    cpu = {name: [] for name in alternatives}
    order = list(alternatives)
    for round_number in range(repetitions):
        if round_number >= 2 and time.perf_counter() - began > seconds:
            break
        for name in order:
            if hasattr(alternatives[name], "timed"):
                time.sleep(SETTLE_SECONDS)
            if first[name] < LONG_SECONDS:
                alternatives[name]()  # In the others' turns its caches and threads got cold.
            taken = _timed(alternatives[name], calls[name])
            wall[name].append(taken[0] / calls[name])
            cpu[name].append(taken[1] / calls[name])
        order.reverse()
    return Timings(wall, cpu)


def spread(values):
    """`(median, lower quartile, upper quartile)`."""
    low, median, high = np.quantile(np.asarray(values, dtype=np.float64), (0.25, 0.5, 0.75))
    return float(median), float(low), float(high)


def _calls(taken, slowest):
    wanted = max(SHARE_OF_SLOWEST * slowest, MIN_SECONDS)
    return int(np.clip(np.ceil(wanted / max(taken, 1e-9)), 1, MAX_CALLS))


def _timed(function, calls):
    if hasattr(function, "timed"):
        return function.timed(calls)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        function()
    return time.perf_counter() - wall, time.process_time() - cpu
