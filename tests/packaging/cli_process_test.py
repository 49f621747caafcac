"""`s2d` in a process of its own: how it starts, what it imports, and every real command."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest


def test_a_reader_that_leaves_early_is_no_error(tree, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "s2d_tf", "talk_much"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tree)},
        cwd=tmp_path,
    )
    assert process.stdout.readline() == "line 0\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(timeout=30) == 128 + signal.SIGPIPE


START_TENSORFLOW = """
import os, sys, tensorflow as tf
print("one line of our own", file=sys.stderr)
print(int(tf.constant(1) + 1), os.environ["TF_ENABLE_ONEDNN_OPTS"])
"""


@pytest.mark.slow
def test_tensorflow_starts_quietly_and_faster(s2d_process):
    clean = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "1"}
    result = s2d_process("run", START_TENSORFLOW, **clean)
    assert (result.returncode, result.stdout) == (0, "2 1\n")
    assert result.stderr == "one line of our own\n"


def test_the_import_of_tensorflow_keeps_what_matters(s2d_process, tree, tmp_path):
    """With a stand-in that writes what TensorFlow writes, and more."""
    (tmp_path / "tensorflow.py").write_text(
        textwrap.dedent(
            """
            import os, sys

            os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called\\n")
            os.write(2, b"I0000 00:00:1794794779.42    4830 port.cc:153] oneDNN is on.\\n")
            os.write(2, b"E0000 00:00:17.03 4830 bfc_allocator.cc:9] out of memory\\n")
            print("Illegal something", file=sys.stderr)
            constant = int

            class config:
                def list_physical_devices():
                    os.write(2, b"E0000 00:00:17.03 3 cuda_x.cc:52] failed call to cuInit\\n")
            """
        )
    )
    path = os.pathsep.join([str(tree), str(tmp_path)])
    result = s2d_process("run", START_TENSORFLOW, PYTHONPATH=path, TF_CPP_MIN_LOG_LEVEL="2")
    assert (result.returncode, result.stdout[:2]) == (0, "2 ")
    assert result.stderr.splitlines() == [
        "E0000 00:00:17.03 4830 bfc_allocator.cc:9] out of memory",
        "Illegal something",
        "one line of our own",
    ]
    result = s2d_process("run", START_TENSORFLOW, PYTHONPATH=path, TF_CPP_MIN_LOG_LEVEL="0")
    assert "oneDNN is on" in result.stderr


@pytest.mark.parametrize("where", ["environment", "file"])
def test_another_keras_backend_is_rejected_in_one_line(s2d_process, tmp_path, where):
    home = tmp_path / "home"
    (home / ".keras").mkdir(parents=True)
    env = {"HOME": str(home), "KERAS_HOME": "", "KERAS_BACKEND": ""}
    if where == "environment":
        env["KERAS_BACKEND"] = "jax"
        source = "KERAS_BACKEND in the environment"
    else:
        (home / ".keras" / "keras.json").write_text('{"backend": "jax"}')
        source = str(home / ".keras" / "keras.json")
    result = s2d_process("run", "import s2d_tf; s2d_tf.layers", **env)
    assert result.returncode == 1
    assert result.stderr == (
        "s2d run: error: Keras backend: expected 'tensorflow', received 'jax' "
        f"(chosen by {source}). Set KERAS_BACKEND=tensorflow in the environment "
        "before Python starts.\n"
    )
    # What needs no Keras still answers.
    assert s2d_process("greet", "Ann", **env).stdout == "hello Ann\n"


def test_every_real_command_has_a_summary_and_help(project_root, run_python):
    """Shown without TensorFlow."""
    program = (
        "import sys\n"
        "from s2d_tf import cli\n"
        "for name in ['', *cli.commands()]:\n"
        "    print('## s2d', name)\n"
        "    assert cli.main(['help', name] if name else []) == 0, name\n"
        "print(sorted({'tensorflow', 'keras'} & set(sys.modules)), file=sys.stderr)\n"
    )
    result = run_python("-c", program)
    assert (result.returncode, result.stderr) == (0, "[]\n")
    overview, *helps = result.stdout.split("## s2d ")[1:]
    assert "(no description)" not in overview
    modules = {path.stem for path in (project_root / "trainers").glob("[!_]*.py")}
    assert {text.split("\n")[0] for text in helps} == modules
    for text in helps:
        name = text.split("\n")[0]
        assert f"s2d {name.replace('_', '-')}" in text, "the docstring shows no command line"
