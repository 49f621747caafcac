from tests.data.conftest import *  # noqa: F403
