"""The command `s2d`: finds the trainers, shows their help, and runs one of them.

Commands are the files in `trainers/`. Their summaries are read from the source, so that neither
`s2d` nor `s2d --help` imports any of them, let alone TensorFlow.

Exit codes: 0 success, 1 the command failed, 2 wrong usage, 130 interrupted; another if an error has
it as `exit_code`.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import textwrap
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

import s2d_tf
from s2d_tf import _paths
from s2d_tf.errors import UserError

_OVERVIEW = """\
usage: s2d COMMAND [arguments] [flags]

Commands:
{first}

Commands of the laboratory, which trains, measures and publishes the zoo:
{others}

`s2d help COMMAND` or `s2d COMMAND --help` shows a command's arguments and flags.
`--debug` (or S2D_DEBUG=1) adds the traceback to an error; `s2d --version` prints the version."""

_FIRST = ("list", "train", "evaluate", "predict", "export", "serve")
"""The commands that most people need."""


class UsageError(UserError):
    """The command line is wrong."""


def commands() -> dict[str, pathlib.Path]:
    """Returns a dict from command name to the path of its file, in alphabetical order."""
    return {path.stem: path for path in sorted(_paths.trainers_directory().glob("[!_]*.py"))}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the arguments `argv` (default: those of the process) and returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    end = args.index("--") if "--" in args else len(args)
    ours = {"--debug", "--help", "-h", "--helpfull"}.intersection(args[:end])
    debug = "--debug" in ours or os.environ.get("S2D_DEBUG", "0") not in ("", "0")
    args = [arg for arg in args[:end] if arg not in ours] + args[end:]
    wants_help = bool(ours - {"--debug"}) or args[:1] == ["help"]
    args = args[1:] if args[:1] == ["help"] else args
    program = "s2d"
    try:
        if not args or args == ["--version"]:
            print(f"s2d {s2d_tf.__version__}" if args else overview(), flush=True)
            return 0
        name = _known(args[0])
        program = f"s2d {name}"
        with warnings.catch_warnings():
            # One line, without the place in the code.
            warnings.showwarning = lambda text, *_: print(
                f"{program}: warning: {text}", file=sys.stderr
            )
            code = _run(name, args[1:], wants_help)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as error:
        print(f"\ninterrupted {error}".rstrip(), file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`head`, a pager) has seen enough. Python would complain once more when it
        # flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if not _is_for_the_user(error):
            raise
        if debug:
            traceback.print_exc()
        code = getattr(error, "exit_code", None)
        print(f"{program}: {'' if code else 'error: '}{_one_line(error)}", file=sys.stderr)
        return code or (2 if isinstance(error, UsageError) else 1)


def overview() -> str:
    """Returns the text of `s2d --help`."""
    found = commands()
    column = max(map(len, found)) + 4
    width = max(shutil.get_terminal_size((100, 24)).columns, column + 20)
    lines = {}
    for name, path in found.items():
        text = ast.get_docstring(ast.parse(path.read_bytes())) or "(no description)"
        head, indent = f"  {name.replace('_', '-')}".ljust(column), " " * column
        lines[name] = textwrap.fill(
            text.split("\n")[0], width, initial_indent=head, subsequent_indent=indent
        )
    first = [lines.pop(name) for name in _FIRST if name in lines]
    return _OVERVIEW.format(first="\n".join(first), others="\n".join(lines.values()))


def _is_for_the_user(error):
    """Whether an error's message is enough; any other is a bug, which keeps its traceback."""
    kinds = (ValueError, RuntimeError, ImportError)
    in_our_form = isinstance(error, kinds) and ": expected " in str(error)
    return in_our_form or isinstance(error, (UserError, OSError))


def _known(wanted):
    """Returns the name of the command that is meant."""
    known = commands()
    name = wanted.replace("-", "_")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        expected = " or ".join(near) if near else f"one of {', '.join(known)}"
        raise UsageError(
            f"command: expected {expected}, received {wanted!r}. `s2d --help` lists the commands."
        )
    return name


def _run(name, args, wants_help):
    """Loads a command, then prints its help or runs it; returns the exit code."""
    from absl import flags

    full_name = f"s2d_tf.trainers.{name}"
    try:
        # Again in a second call of the same process, which defines its flags again.
        module = _paths.load_module(full_name, commands()[name])
        if wants_help:
            # absl heads the flags with the module's name.
            own_flags = flags.FLAGS.module_help(full_name).replace(f"{full_name}:", "Flags:")
            print(f"{(module.__doc__ or '').strip()}\n{own_flags}".strip())
            return 0
        try:
            positional = flags.FLAGS([f"s2d {name}", *args])
        except flags.Error as error:
            raise UsageError(f"{_usage(error)}; `s2d {name} --help` lists the flags") from error
        # TensorFlow leaves oneDNN off on CPUs without AVX512, where it makes our networks faster,
        # too. It reads this when it is imported, which no trainer has done so far.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
        quiet_tensorflow()
        return int(module.main(positional) or 0)
    finally:
        # Commands share flag names such as --data_dir, which absl takes for an accident when a
        # second command is loaded into the same process (notebooks, tests).
        for flag in list(flags.FLAGS.flags_by_module_dict().get(full_name, ())):
            delattr(flags.FLAGS, flag.name)


def _usage(error):
    """absl's message, but for a missing flag: that one says what it is for."""
    from absl import flags

    missing = re.match(r"flag --(\w+)=None: .* must have a value other than None", str(error))
    if not missing:
        return _one_line(error)
    name = missing.group(1)
    purpose = flags.FLAGS[name].help.rstrip(".")
    return f"--{name}: expected a value, received none. Add --{name}=... ({purpose})"


def _one_line(error):
    return " ".join(str(error).split()) or type(error).__name__


# Written before TensorFlow starts its log, hence whatever TF_CPP_MIN_LOG_LEVEL says: information,
# and the message that a machine without a GPU has no driver for one.
_NOISE = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\)"
    r"|[IW]\d{4} \d\d:\d\d:\S+ +\d+ \S+:\d+\]"
    r"|E\d{4} \d\d:\d\d:\S+ +\d+ cuda\S+:\d+\] (failed call to cuInit|Could not find cuda)"
)


def quiet_tensorflow() -> None:
    """Makes the first import of TensorFlow quiet, whoever does it and when.

    An import hook, since commands import TensorFlow only after they have checked their arguments.
    Only for the command, which owns its process, and for tests: the library leaves a process's
    environment and streams to the process's owner.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    wanted = os.environ["TF_CPP_MIN_LOG_LEVEL"] >= "2" and sys.stderr is not None
    if wanted and "tensorflow" not in sys.modules and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Lends the import of `tensorflow` a filter of the standard error."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == "tensorflow":
            sys.meta_path.remove(_Finder)
            spec = importlib.util.find_spec(fullname)
            if spec is not None and spec.loader is not None:
                execute = functools.partial(_quietly, spec.loader.exec_module)
                spec.loader.exec_module = execute  # type: ignore[method-assign]
            return spec


def _quietly(execute, module):
    """Holds back what is written to file descriptor 2, then writes it again without the noise."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            execute(module)
            # The search for GPUs is where drivers complain. It does not start the runtime: devices
            # can still be set up.
            module.config.list_physical_devices()
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            lines = held.read().decode(errors="replace").splitlines(keepends=True)
            sys.stderr.writelines(line for line in lines if not _NOISE.match(line))
