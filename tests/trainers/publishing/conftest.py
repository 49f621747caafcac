from tests.zoo.conftest import *  # noqa: F403
