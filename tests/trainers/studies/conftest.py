from tests.evaluation.conftest import *  # noqa: F403
