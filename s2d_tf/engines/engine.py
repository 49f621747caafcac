"""Which runtime computes a prediction: chosen by what was measured on this machine.

A function starts in TensorFlow as it was traced, at no extra cost. When it has spent about as long
on batches of a size as compiling would take, it is frozen and simplified, every runtime that is
installed is built and timed on that batch, and from then on that size uses the fastest. So a
process takes at most about twice as long as it would with the best choice from the start, and a
single image never waits for a compiler. The verdict is kept for this machine: the next process
builds the winner only.
"""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import logging
import pathlib
import platform
import threading
import time
from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from s2d_tf import _choices, files
from s2d_tf.data import location
from s2d_tf.engines import runtimes
from s2d_tf.engines.freezing import freeze
from s2d_tf.engines.watching import Watch

_LOG = logging.getLogger("s2d_tf.engines")

NAMES = _choices.ENGINES

SECONDS_PER_OPERATION = 0.05
"""What compiling an operation takes in all runtimes together, more or less."""

TIMED_ROUNDS = 3
TIMED_SECONDS = 0.05
LONG_SECONDS = 1.0
"""Runtimes take so many turns of about this length and at least two calls, and the shortest call of
each counts: other work only makes calls longer, and the first of a turn finds threads asleep. One
turn is enough for calls that are longer than the last of these."""

SETTLE_SECONDS = 0.1
"""How long threads are left alone before a turn: those of ONNX Runtime stay awake for 40
milliseconds after a call, on a core that the next runtime needs."""

CLEARLY_SLOWER = 2.0
"""A runtime that takes so many times as long as another is out after one turn."""

BESIDE = 100
"""From so many variables on, another thread looks whether they have changed while one computes."""

_default = "auto"
_watching = True


class Engine:
    """Computes a traceable function of some tensors by the runtime that is chosen.

    Args:
        function: takes the tensors and returns a dict of tensors.
        specs: `tf.TensorSpec` of each, the batch first and of free size.
        variables: what the answers depend on; when one has changed, whatever was compiled is
            dropped.
        background: whether runtimes are built and timed beside the requests, as a server needs it.

    Attributes:
        used: name of the runtime that computed the last batch.

    Example:

    >>> spec = tf.TensorSpec([None, 4], tf.float32)
    >>> engine = engines.Engine(lambda x: {"sums": tf.reduce_sum(x, axis=-1)}, [spec])
    >>> engine([np.ones([2, 4], np.float32)])["sums"].tolist(), engine.used
    ([4.0, 4.0], 'tensorflow')
    """

    def __init__(
        self,
        function: Callable,
        specs: list[tf.TensorSpec],
        variables: Iterable = (),
        background: bool = False,
    ) -> None:
        self._function, self._specs, self._variables = function, specs, list(variables)
        self._background = background
        self._live = tf.function(function, input_signature=specs, autograph=False)
        self._deciding = False
        self.used = "tensorflow"
        self._watch: Watch | None = None
        self._seconds: float | None = None
        self._forget()

    def __call__(self, tensors: list, name: str | None = None) -> dict[str, np.ndarray]:
        """Answers for a batch as arrays.

        Args:
            tensors: arrays or tensors, one for each input.
            name: one of `NAMES`; default: what `use` set.
        """
        name = check(name or _default)
        size = runtimes.padded_size(len(tensors[0]))
        chosen = self._chosen.get(size) if name == "auto" else name
        if chosen is None:
            return self._traced(tensors, size)
        answers = self._compiled(chosen, tensors)
        if answers is None:
            self._forget()
            return self(tensors, name)
        self.used = chosen
        return answers

    def _traced(self, tensors, size):
        """Answers of TensorFlow, which reads the variables; long enough, it makes the choice."""
        self.used = "tensorflow"
        patience = self._patience()  # Traces the function, which does not count.
        began = time.perf_counter()
        answers = {key: value.numpy() for key, value in self._live(*tensors).items()}
        self._spent[size] = self._spent.get(size, 0.0) + time.perf_counter() - began
        if self._spent[size] > patience:
            self._decide(size, [np.array(tensor) for tensor in tensors])
        return answers

    def _compiled(self, name, tensors):
        """Answers of a runtime; `None` if a variable has changed since it was built."""
        run = self._runtime(name)
        watch = self._watch if _watching else None
        if watch is None or len(self._variables) < BESIDE:
            return None if watch and watch.changed() else run(tensors)
        changed = _looker().submit(watch.changed)
        answers = run(tensors)
        return None if changed.result() else answers

    def measure(self, tensors: list) -> dict[str, float]:
        """Times all runtimes on a batch and remembers the fastest for its size.

        A runtime that is the fastest for no size is dropped, with the memory that it holds, as soon
        as that is clear.

        Returns:
            `{runtime: seconds of a call}`.
        """
        tensors = [np.asarray(tensor) for tensor in tensors]
        seconds: dict[str, float] = {}
        for name in runtimes.available():
            try:
                run = self._runtime(name)
                run(tensors)  # compiles
                seconds[name] = _shortest(run, tensors)
            except Exception as error:  # Not every runtime has every operation.
                _LOG.info("%s cannot compute this: %s", name, error)
                last = error
            self._drop_all_but(_contenders(seconds))  # before the next one takes its memory
        if not seconds:
            raise last
        for _ in range(TIMED_ROUNDS - 1):
            for name in _contenders(seconds):
                if seconds[name] < LONG_SECONDS:
                    again = _shortest(self._runtime(name), tensors)
                    seconds[name] = min(seconds[name], again)
        size = runtimes.padded_size(len(tensors[0]))
        self._chosen[size] = min(seconds, key=lambda name: seconds[name])
        self._drop_all_but([])
        _remember(self._key(), size, self._chosen[size])
        return seconds

    def _drop_all_but(self, names):
        """Frees the runtimes that were chosen for no size, except for some."""
        for name in set(self._built) - set(self._chosen.values()) - set(names):
            del self._built[name]

    def _decide(self, size, tensors):
        """Builds what is known to be the fastest here, or finds it out."""
        if self._deciding:
            return
        self._deciding = True

        def decide():
            try:
                known = _remembered(self._key(), size)
                if known in runtimes.available():
                    self._runtime(known)(tensors)
                    self._chosen[size] = known
                else:
                    self.measure(tensors)
            except Exception as error:  # Whatever it is, what answered until now goes on.
                _LOG.warning("predictions stay with TensorFlow: %s", error)
                self._seconds = float("inf")
            finally:
                self._deciding = False

        if self._background:
            threading.Thread(target=decide, name="engine", daemon=True).start()
        else:
            decide()

    def _patience(self):
        if self._seconds is None:
            operations = self._live.get_concrete_function().graph.get_operations()
            work = [op for op in operations if op.type not in ("Const", "ReadVariableOp")]
            # On a GPU TensorFlow is at home; the others are for CPUs.
            gpu = bool(tf.config.list_logical_devices("GPU"))
            self._seconds = float("inf") if gpu else SECONDS_PER_OPERATION * len(work)
        return self._seconds

    def _runtime(self, name):
        if name not in self._built:
            if name not in runtimes.available():
                raise ValueError(
                    f"engine: expected one of {runtimes.available()}, which are installed, "
                    f"received {name!r}. Run pip install 's2d_tf[{name}]'."
                )
            if self._watch is None:
                self._watch = Watch(self._variables)
            portable = name in runtimes.PORTABLE
            if portable not in self._frozen:
                self._frozen[portable], _ = freeze(self._function, *self._specs, portable=portable)
            self._built[name] = runtimes.RUNTIMES[name](self._frozen[portable], self._specs)
        return self._built[name]

    def _forget(self):
        self._frozen: dict[bool, Callable] = {}
        self._built: dict[str, Callable] = {}
        self._chosen: dict[int, str] = {}
        self._spent: dict[int, float] = {}
        self._watch, self._seconds = None, None

    def _key(self):
        """What decides which runtime is fastest: operations and shapes, not weights."""
        graph = self._live.get_concrete_function().graph
        lines = [f"{op.type} {[t.shape for t in op.outputs]}" for op in graph.get_operations()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:20]


def check(name: str) -> str:
    """The name of an engine, or a `ValueError` that lists those there are.

    Example:

    >>> engines.check("xla")
    'xla'
    """
    if name not in NAMES:
        raise ValueError(
            f"engine: expected one of {NAMES}, received {name!r}. Choose one of these."
        )
    return name


def use(name: str, watch: bool = True) -> None:
    """Sets how all predictions of this process that do not name an engine are computed.

    Args:
        name: one of `NAMES`.
        watch: whether each prediction first makes sure that no weight has changed. False promises
            that none will, which saves a few microseconds for each variable of a model.

    Example:

    >>> engines.use("tensorflow")                          # the same engine in every run
    >>> engines.use("auto", watch=False)                   # trained, and now it only predicts
    >>> engines.use("auto")
    """
    global _default, _watching
    _default, _watching = check(name), watch


@functools.cache
def _looker():
    """The thread that looks after variables."""
    return concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="watch")


def _contenders(seconds):
    """Names of the runtimes that may be the fastest, after some turns."""
    best = min(seconds.values(), default=0.0)
    limit = best if best > LONG_SECONDS else CLEARLY_SLOWER * best
    return [name for name in seconds if seconds[name] <= limit]


def _shortest(run, tensors):
    """Seconds of the shortest call in one turn."""
    time.sleep(SETTLE_SECONDS)
    found, calls = float("inf"), 0
    while calls < 2 or calls * found < TIMED_SECONDS:
        began = time.perf_counter()
        run(tensors)
        found = min(found, time.perf_counter() - began)
        calls += 1
    return found


def _machine():
    """What the verdicts hold for."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    return f"{model.strip()}, {runtimes.num_cores()} cores, TensorFlow {tf.__version__}"


def _verdicts():
    """The file of verdicts, and its content."""
    path = location.cache_dir() / "engines" / "fastest.json"
    try:
        found = files.read_json(path)
    except (OSError, ValueError):
        found = {}
    return path, found if isinstance(found, dict) else {}


def _remembered(key, size):
    here = _verdicts()[1].get(_machine())
    return here.get(f"{key}/{size}") if isinstance(here, dict) else None


def _remember(key, size, name):
    path, found = _verdicts()
    found.setdefault(_machine(), {})[f"{key}/{size}"] = name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_json(path, found)
    except OSError:
        pass  # A folder that cannot be written to makes it slower, not wrong.
