"""The command `s2d`: finds the trainers, shows their help, and runs one of them.

Commands are the modules of `s2d_tf.trainers`. They are listed by looking at the folder, and their
summaries are read from the source, so neither `s2d` nor `s2d --help` imports any of them, let alone
TensorFlow.

Exit codes: 0 success, 1 the command failed, 2 wrong usage, 130 interrupted.
"""

import ast
import difflib
import importlib
import os
import sys
import traceback

import s2d_tf
from s2d_tf import _help, _paths, _quiet

_EXPECTED = (ValueError, OSError, ImportError, RuntimeError, MemoryError)


class UsageError(Exception):
    """The command line is wrong: one line that says how."""


def commands():
    """Returns a dict from command name to the path of its module, in alphabetical order."""
    folder = _paths.trainers_directory()
    if folder is None:
        return {}
    paths = (path for path in folder.glob("*.py") if not path.name.startswith("_"))
    return {path.stem: path for path in sorted(paths)}


def docstring(path):
    """Returns a module's docstring without importing the module."""
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def main(argv=None):
    """Runs the arguments `argv` (default: those of the process) and returns the exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    args, debug = _take_debug(args)
    name = None
    try:
        name = _command_name(args)
        code = _dispatch(name, args)
        sys.stdout.flush()
        return code
    except UsageError as error:
        _print_error(name, error)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader (`head`, a pager) has seen enough. Python would complain once more when it
        # flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if not _is_expected(error):
            raise
        if debug:
            traceback.print_exc()
        _print_error(name, error)
        return 1


def _take_debug(args):
    """Takes `--debug` out of the arguments before a bare `--`."""
    end = args.index("--") if "--" in args else len(args)
    rest = [arg for arg in args[:end] if arg != "--debug"] + args[end:]
    debug = len(rest) < len(args) or os.environ.get("S2D_DEBUG", "0") not in ("", "0")
    return rest, debug


def _command_name(args):
    """Returns the command that is meant, or None for the general help and the version."""
    if not args or args[0] in ("--help", "-h", "--version"):
        return None
    if args[0] == "help":
        if len(args) == 1:
            return None
        wanted = args[1]
    else:
        wanted = args[0]
    if wanted.startswith("-"):
        raise UsageError(f"expected a command before {wanted}: `s2d --help` lists the commands")
    known = commands()
    name = wanted.replace("-", "_")
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise UsageError(f"unknown command {wanted!r}: {hint}")
    return name


def _dispatch(name, args):
    if name is None:
        if args and args[0] == "--version":
            print(f"s2d {s2d_tf.__version__}")
        else:
            summaries = {name: docstring(path) for name, path in commands().items()}
            print(_help.overview(summaries))
        return 0
    module = _load(name)
    before_dashes = args[1 : args.index("--")] if "--" in args else args[1:]
    if args[0] == "help" or {"--help", "-h", "--helpfull"}.intersection(before_dashes):
        print(_help.command(name, module))
        return 0
    return _run(name, module, args[1:])


def _load(name):
    """Imports a trainer; its flags are then the only trainer's flags that absl knows."""
    from absl import flags

    prefix = "s2d_tf.trainers."
    # Commands share flag names such as --data_dir, which absl takes for an accident when a second
    # command is loaded into the same process (notebooks, tests). So the earlier command's flags go
    # first.
    for other in [key for key in sys.modules if key.startswith(prefix)]:
        for flag in list(flags.FLAGS.flags_by_module_dict().get(other, [])):
            if flag.name in flags.FLAGS:
                delattr(flags.FLAGS, flag.name)
        del sys.modules[other]
    return importlib.import_module(prefix + name)


def _run(name, module, args):
    from absl import flags

    flags.FLAGS.unparse_flags()
    try:
        positional = flags.FLAGS([f"s2d {name}", *args])
    except flags.Error as error:
        raise UsageError(f"{_one_line(error)}; `s2d {name} --help` lists the flags") from error
    # TensorFlow leaves oneDNN off on CPUs without AVX512, where it makes our networks faster, too.
    # It reads this when it is imported, which no trainer has done so far.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    with _quiet.tensorflow():
        code = module.main(positional)
    return 0 if code is None else int(code)


def _is_expected(error):
    """Whether an error speaks to the person; any other is a bug, which needs its traceback."""
    if isinstance(error, _EXPECTED):
        return True
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def _print_error(name, error):
    program = f"s2d {name}" if name else "s2d"
    text = _one_line(error) or type(error).__name__
    print(f"{program}: error: {text}", file=sys.stderr)


def _one_line(error):
    return " ".join(str(error).split())
