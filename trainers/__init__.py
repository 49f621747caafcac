"""The programs behind the command `s2d`, one module each; `s2d_tf.trainers` where installed.

A module's name is the command's name, the first line of its docstring the command's summary. It
defines absl flags when it is imported, imports nothing heavy before `main`, and `main(argv)` gets
the positional arguments in `argv[1:]`. `main` may return an exit code.
"""
