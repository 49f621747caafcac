"""Alternatives in processes of their own, for what TensorFlow decides when it is imported.

The parent starts `python -m benchmarks.child` and writes one JSON line per request; the
child answers each with one. All children wait while one works, so they can take turns.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time


class ChildError(RuntimeError):
    """A process ended, or could not answer a request."""


class Child:
    """A process that has built some functions and times them on request.

    Args:
        target: `"module:function"`; the function, called with `arguments`, returns
            `{name: callable}`.
        arguments: keyword arguments, as JSON has them; `framework` names the module whose import
            does not count as memory.
        environment: variables to set; None removes one.
    """

    def __init__(self, target, arguments, environment):
        root = str(pathlib.Path(__file__).resolve().parents[1])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)
        variables = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "2", **environment}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.child"],
            env={name: value for name, value in variables.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.ask({"target": target, "arguments": arguments})

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or "{}")
        except BrokenPipeError:
            answer = {}
        if "error" in answer or not answer:
            self.close()
            why = answer.get("error", f"it ended with code {self.process.returncode}")
            raise ChildError(f"a benchmark's process failed: {why}")
        return answer

    def function(self, name):
        """One of the child's functions, as an alternative for `measure`."""
        return _Remote(self, name)

    def peak_bytes(self):
        """The largest memory beyond what was held before the functions were built."""
        return self.ask({"memory": True})["bytes"]

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.stdout.close()


@contextlib.contextmanager
def together(processes):
    """The children of `{name: arguments of Child}`, started one after the other."""
    with contextlib.ExitStack() as stack:
        children = {}
        for name, arguments in processes.items():
            children[name] = Child(*arguments)
            stack.callback(children[name].close)
        yield children


class _Remote:
    def __init__(self, child, name):
        self.child, self.name = child, name

    def __call__(self):
        self.timed(1)

    def timed(self, calls):
        answer = self.child.ask({"call": self.name, "calls": calls})
        return answer["wall"], answer["cpu"]


def serve(requests, answers):
    """Answers requests until there are no more."""
    functions, held = {}, 0
    for line in requests:
        request = json.loads(line)
        try:
            if "target" in request:
                module, _, name = request["target"].partition(":")
                __import__(module)
                # The frameworks themselves do not count.
                default = getattr(sys.modules[module], "FRAMEWORK", "keras")
                __import__(request["arguments"].get("framework", default))
                held = _peak_bytes()
                functions = getattr(sys.modules[module], name)(**request["arguments"])
                answer = {"functions": list(functions)}
            elif "call" in request:
                answer = _time(functions[request["call"]], request["calls"])
            else:
                answer = {"bytes": _peak_bytes() - held}
        except Exception as error:  # The parent must hear of it, whatever it is.
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _time(function, calls):
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        function()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def _peak_bytes():
    status = pathlib.Path("/proc/self/status")
    if status.is_file():
        # Not getrusage: under Linux its maximum begins with that of the parent process.
        lines = status.read_text(encoding="utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


if __name__ == "__main__":
    # What libraries print must not mix with the answers.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as own_output:
        os.dup2(2, 1)
        serve(sys.stdin, own_output)
