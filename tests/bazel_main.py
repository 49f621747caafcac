"""Runs pytest on the files in the arguments: the main program of every Bazel test."""

import sys

import pytest

if __name__ == "__main__":
    # Bazel's runfiles are links into a read-only place, so nothing may be cached beside them.
    sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
