"""The help texts of the command `s2d`."""

import inspect
import shutil
import textwrap

_OVERVIEW_END = """\
`s2d help COMMAND` or `s2d COMMAND --help` shows a command's arguments and flags.
`--debug` (or S2D_DEBUG=1) adds the traceback to an error; `s2d --version` prints the version."""


def overview(docstrings):
    """Returns the text of `s2d --help` from a dict of command name to docstring."""
    lines = ["usage: s2d COMMAND [arguments] [flags]", "", "Commands:"]
    column = max((len(name) for name in docstrings), default=0) + 4
    for name, text in docstrings.items():
        summary = text.strip().split("\n")[0] or "(no description)"
        lines.append(_hanging(f"  {name}", summary, column))
    if not docstrings:
        lines.append("  (none: the folder `trainers` was not found; install s2d_tf again)")
    return "\n".join([*lines, "", _OVERVIEW_END])


def command(name, module):
    """Returns the text of `s2d COMMAND --help`: the module's docstring and its flags."""
    from absl import flags

    text = inspect.cleandoc(module.__doc__ or "")
    lines = [] if f"s2d {name}" in text else [f"usage: s2d {name} [arguments] [flags]", ""]
    lines.append(text)
    # `get_key_flags_for_module` has those that a trainer adopts from a shared module, too, and no
    # one else's.
    own = sorted(flags.FLAGS.get_key_flags_for_module(module), key=lambda flag: flag.name)
    if own:
        lines += ["", "Flags:", *(_flag(flag) for flag in own)]
    return "\n".join(lines)


def _flag(flag):
    """One flag: its name and the kind of its value, what it does, its default."""
    if flag.boolean:
        head = f"  --[no]{flag.name}"
    else:
        head = f"  --{flag.name}={_value(flag)}"
    if flag.short_name:
        head += f", -{flag.short_name}"
    # absl writes an enum's values before its help, a sentence of its own after that of a repeated
    # flag, and quotes around every default.
    text = " ".join((flag.help or "").split()).removeprefix(f"<{_value(flag)}>: ")
    text = text.replace("; repeat this option to specify a list of values", " (may be repeated)")
    default = (flag.default_as_str or "").strip("'")
    if default not in ("", "false", "[]"):
        text += f" (default: {default})"
    return _hanging(head, text, column=28)


def _value(flag):
    choices = getattr(flag, "enum_values", None) or getattr(flag.parser, "enum_values", None)
    if choices:
        return "|".join(choices)
    kind = flag.flag_type().removeprefix("multi ")
    return {"int": "INTEGER", "float": "NUMBER"}.get(kind, "LIST" if "list" in kind else "TEXT")


def _hanging(head, text, column):
    """`head`, then `text` in a column of its own, on the next line where the head is too long."""
    width = max(shutil.get_terminal_size((100, 24)).columns, column + 20)
    body = textwrap.wrap(text, width - column) or [""]
    indent = " " * column
    if len(head) + 2 <= column:
        return "\n".join(
            [(head.ljust(column) + body[0]).rstrip(), *(indent + line for line in body[1:])]
        )
    return "\n".join([head, *(indent + line for line in body if line)])
