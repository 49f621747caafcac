"""The Dirichlet fit against other implementations, then the special functions under it."""

import functools
import time

import numpy as np

from benchmarks import competitors, networks, special_functions
from benchmarks.records import Case, Goal, counted, not_run

NUM_SAMPLES = 5
SHAPES = ((64, 100), (128, 1000), (128, 21000))
LOOP_GOAL = Goal(1000, at_most=False)
ITERATIONS_GOAL = Goal(5)
TOLERANCE = 1e-6
# A competitor that takes longer is run once, not in turns.
ONCE_SECONDS = 5.0
# Rows that a competitor fits in a loop: enough to time it, few enough to wait for it.
LOOP_ROWS = {100: 8, 1000: 4, 21000: 1}
# A small batch is fitted several times in a call, so that what is timed is the fit, and not the way
# from Python into the graph, which a training step goes once for all of its work.
SMALL_SIZE, FITS_PER_CALL = 100_000, 20


def cases(plan):
    shapes = ((4, 5), (4, 10)) if plan.quick else SHAPES
    for batch, classes in shapes[:1] if plan.quick else shapes:
        log_probs = competitors.teacher_predictions(batch, NUM_SAMPLES, classes)
        yield _iterations(log_probs)
        yield from _against_loops(log_probs)
        yield _against_tfp(log_probs)
        yield _xla(log_probs)
    yield _linearity(shapes)
    yield from special_functions.cases(plan)


def _name(log_probs):
    return f"[{', '.join(map(str, log_probs.shape))}]"


def _times(log_probs):
    return FITS_PER_CALL if log_probs.size < SMALL_SIZE else 1


def _fitter(log_probs, times, jit_compile=False, tolerance=TOLERANCE):
    """Fits the batch some times, one after the other in one graph."""
    import tensorflow as tf

    from s2d_tf import numerics

    fit = functools.partial(numerics.fit_dirichlet, tolerance=tolerance)
    if times > 1:
        log_probs = np.repeat(log_probs[np.newaxis], times, axis=0)
        fit = functools.partial(tf.map_fn, fit, parallel_iterations=1)
    return networks.waiting(tf.function(fit, jit_compile=jit_compile), tf.constant(log_probs))


def _iterations(log_probs):
    import tensorflow as tf

    from s2d_tf import numerics

    fitted = tf.function(numerics.fit_dirichlet_with_info)(tf.constant(log_probs))
    return counted(
        f"Newton steps to {TOLERANCE:g}, {_name(log_probs)}",
        "steps until the slowest row moves by less than the tolerance",
        int(fitted.num_iterations),
        goal=ITERATIONS_GOAL,
        facts={
            "error": competitors.error(fitted.concentration, log_probs),
            "largest last step": float(tf.reduce_max(fitted.residual)),
        },
    )


def _against_loops(log_probs):
    batch, _, classes = log_probs.shape
    some = log_probs[: LOOP_ROWS.get(classes, 2)]
    times = _times(log_probs)
    loops = {"dirichlet (PyPI) in a loop": competitors.dirichlet_package}
    loops["scipy.optimize in a loop"] = competitors.scipy_lbfgs
    for label, function in loops.items():
        name = f"fits/s: ours, XLA / {label}, {_name(log_probs)}"
        if function is competitors.dirichlet_package and not competitors.has_dirichlet_package():
            yield not_run(name, "fits/s of ours / of the loop", "`dirichlet` is not installed")
            continue

        slow = _Slow(functools.partial(function, some))

        def build(slow=slow):
            slow()  # To know how exact it is.
            alike = {"tolerance": _tolerance(some, slow.error(some))}
            return {
                "ours": _fitter(log_probs, times, **alike),
                "ours, XLA": _fitter(log_probs, times, jit_compile=True, **alike),
                "one call, XLA": _fitter(log_probs, 1, jit_compile=True, **alike),
                "loop": slow,
            }

        def ratio(ours, fits):
            return _throughput(ours, "loop", fits, len(some))

        def facts(seconds, slow=slow):
            from s2d_tf import numerics

            error = slow.error(some)
            tolerance = _tolerance(some, error)
            fitted = numerics.fit_dirichlet(some, tolerance=tolerance)
            return {
                "without XLA": ratio("ours", times * batch)(seconds),
                "XLA, one batch a call": ratio("one call, XLA", batch)(seconds),
                "tolerance of ours": tolerance,
                "error of ours": competitors.error(fitted, some),
                "error of the loop": error,
                "ms per fit of ours": 1000.0 * seconds["ours"] / (times * batch),
                "ms per fit of ours, XLA": 1000.0 * seconds["ours, XLA"] / (times * batch),
                "ms per fit of the loop": 1000.0 * seconds["loop"] / len(some),
            }

        yield Case(
            name,
            build,
            ratio("ours, XLA", times * batch),
            "fits/s of ours, under XLA / fits/s of the loop",
            LOOP_GOAL if function is competitors.dirichlet_package else None,
            facts=facts,
            note=f"the loop is timed on {len(some)} of the {batch} rows, ours on all of them, "
            f"fitted {times} time{'s' * (times > 1)} in a call; ours is as exact as it",
        )


def _tolerance(log_probs, error):
    """The loosest with which our fit is at least as exact; the usual one if nothing compares."""
    from s2d_tf import numerics

    for tolerance in () if isinstance(error, str) else (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        fitted = numerics.fit_dirichlet(log_probs, tolerance=tolerance)
        if competitors.error(fitted, log_probs) <= error:
            return tolerance
    return TOLERANCE


class _Slow:
    """A competitor. One that takes seconds is run once and its time used in every round.

    It may also give up after its iterations: the package has an error class of its own for that.
    """

    def __init__(self, function, compiled=False):
        self.function = function
        self.compiling = compiled  # The first call's time is not that of the others.
        self.answer = None
        self.once = None

    def __call__(self):
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            self.answer = self.function()
        except Exception as error:
            self.answer = f"{type(error).__name__}"
        self.once = time.perf_counter() - wall, time.process_time() - cpu

    def timed(self, calls):
        if self.once[0] > ONCE_SECONDS and not self.compiling:
            return calls * self.once[0], calls * self.once[1]
        self.compiling = False
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls):
            self()
        return time.perf_counter() - wall, time.process_time() - cpu

    def error(self, log_probs):
        found = self.answer
        return found if isinstance(found, str) else competitors.error(found, log_probs)


def _against_tfp(log_probs):
    # L-BFGS holds ten copies of the batch and takes hundreds of evaluations: fewer rows do.
    some = log_probs[:2] if log_probs.shape[-1] > 10_000 else log_probs[:32]
    slow = _Slow(competitors.tfp_lbfgs(some), compiled=True)
    times = _times(log_probs)
    return Case(
        f"fits/s: ours / tfp.optimizer.lbfgs_minimize, {_name(log_probs)}",
        lambda: {"ours": _fitter(log_probs, times), "tfp": slow},
        _throughput("ours", "tfp", times * len(log_probs), len(some)),
        "fits/s of ours / fits/s of TFP",
        facts=lambda seconds: {"error of TFP": slow.error(some)},
        note=f"both batched and compiled; TFP on {len(some)} rows",
    )


def _throughput(ours, other, num_ours, num_other):
    return lambda t: (num_ours / t[ours]) / (num_other / t[other])


def _xla(log_probs):
    return Case(
        f"fit without XLA / with, {_name(log_probs)}",
        lambda: {
            "without": _fitter(log_probs, _times(log_probs)),
            "with": _fitter(log_probs, _times(log_probs), jit_compile=True),
        },
        lambda t: t["without"] / t["with"],
        "time without XLA / time with XLA",
    )


def _linearity(shapes):
    """How the time of a fit grows with batch x classes."""
    samples = {
        f"{batch} x {classes}": competitors.teacher_predictions(batch, NUM_SAMPLES, classes)
        for batch, classes in shapes
    }
    names = list(samples)

    def build():
        return {n: _fitter(log_probs, _times(log_probs)) for n, log_probs in samples.items()}

    def slope(t):
        x = np.log([log_probs.size for log_probs in samples.values()])
        y = np.log([t[n] / _times(log_probs) for n, log_probs in samples.items()])
        return float(np.polyfit(x, y, 1)[0])

    return Case(
        f"slope of log time over log (batch x classes), {' to '.join((names[0], names[-1]))}",
        build,
        slope,
        "1 is proportional",
        Goal(1.1),
        unit="",
    )
