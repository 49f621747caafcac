"""The programs behind the command `s2d`, one module each; `s2d_tf.trainers` where installed.

A module's name is the command's name, and the first line of its docstring is the command's summary.
It defines absl flags when it is imported and imports nothing heavy before `main`. `main(argv)` gets
the positional arguments in `argv[1:]` and may return an exit code.
"""
