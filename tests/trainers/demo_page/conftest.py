from tests.serving.conftest import *  # noqa: F403
