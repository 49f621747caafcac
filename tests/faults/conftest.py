"""The fixtures of runs."""

from tests.evaluation.conftest import *  # noqa: F403
