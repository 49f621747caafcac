"""The command `s2d`, run as a person runs it, mostly with trainers made for the test."""

import pytest
from absl import flags


@pytest.mark.parametrize("args", [(), ("--help",), ("help",)])
def test_the_overview_lists_every_command_with_its_summary(s2d, args):
    result = s2d(*args)
    assert (result.returncode, result.stderr) == (0, "")
    first, others = (text.split("\n\n")[0] for text in result.stdout.split(":\n")[1:])
    assert [line.split()[0] for line in first.splitlines()] == ["list", "train"]
    assert [line.split()[0] for line in others.splitlines()] == ["greet", "run", "talk-much"]
    assert "Says hello to people." in others
    assert "The rest of the story." not in others


@pytest.mark.parametrize("args", [("greet", "--help"), ("help", "greet"), ("greet", "Ann", "-h")])
def test_command_help_shows_the_docstring_and_only_its_own_flags(s2d, args):
    result = s2d(*args)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Says hello to people.\n\nThe rest of the story.\n\nFlags:\n")
    heads = [line.split()[0] for line in result.stdout.splitlines() if line.startswith("  --")]
    assert heads == ["--[no]count:", "--greeting:", "--mood:", "--times:"]


def test_positional_arguments_and_flags_mix(s2d):
    result = s2d("greet", "Ann", "--times=2", "Bob", "--mood", "loud", "--count")
    assert result.returncode == 0
    assert result.stdout == "0 HELLO ANN BOB\n1 HELLO ANN BOB\n"
    assert s2d("greet", "--", "--help", "--debug").stdout == "hello --help --debug\n"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("gret",), "s2d: error: command: expected greet, received 'gret'. `s2d --help` lists the"),
        (("zzz",), "s2d: error: command: expected one of greet, list, run, "),
        (("_private",), "s2d: error: command: expected "),
        (("greet", "--tmies=2"), "s2d greet: error: Unknown command line flag 'tmies'"),
        (("greet", "--times=0"), "s2d greet: error: flag --times=0"),
        (
            ("train",),
            "s2d train: error: --workdir: expected a value, received none. "
            "Add --workdir=... (Run directory); `s2d train --help` lists the flags",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(s2d, args, message):
    result = s2d(*args)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise UserError('size: expected 1,\\n  received 0')", "size: expected 1, received 0"),
        ("open('/no/such/file')", "[Errno 2] No such file or directory: '/no/such/file'"),
        ("raise ImportError('FastAPI: expected it.')", "FastAPI: expected it."),
        ("import warnings; warnings.warn('odd'); raise UserError", "UserError"),
    ],
)
def test_a_warning_and_an_expected_failure_are_one_line_each_and_exit_code_1(s2d, how, message):
    result, warned = s2d("run", how), "s2d run: warning: odd\n" * ("odd" in how)
    assert (result.returncode, result.stderr) == (1, f"{warned}s2d run: error: {message}\n")


@pytest.mark.parametrize(("args", "env"), [(("--debug",), {}), ((), {"S2D_DEBUG": "1"})])
def test_debug_adds_the_traceback(s2d, args, env):
    result = s2d("run", "raise UserError(1)", *args, **env)
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("s2d run: error: 1\n")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise TypeError('an accident')", "TypeError: an accident"),
        ("int('many')", "ValueError: invalid literal for int() with base 10: 'many'"),
        ("d = {1: 1, 2: 2}; [d.pop(k) for k in d]", "RuntimeError: dictionary changed size"),
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_bug_keeps_its_traceback(s2d, how, message):
    result = s2d("run", how)
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback")
    assert result.stderr.splitlines()[-1].startswith(message)


@pytest.mark.parametrize(
    ("how", "code"),
    [("0", 0), ("3", 3), ("raise SystemExit(5)", 5), ("raise KeyboardInterrupt", 130)],
)
def test_exit_codes_pass_through(s2d, how, code):
    result = s2d("run", how)
    assert result.returncode == code
    assert "Traceback" not in result.stderr


def test_two_commands_in_one_process_may_share_a_flag(s2d):
    before = set(flags.FLAGS)
    results = [
        s2d(*args.split())
        for args in ("greet Ann --times=2", "run 3 --times=7", "greet Bob", "greet --times=0")
    ]
    assert [result.returncode for result in results] == [0, 3, 0, 2]
    assert "".join(r.stdout for r in results) == "hello Ann\nhello Ann\nhello Bob\n"
    assert set(flags.FLAGS) == before, "a command leaves no flags behind"
