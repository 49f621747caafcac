"""Fixtures of small runs. Imports are inside them, as in tests/evaluation/conftest.py."""

import pytest


@pytest.fixture(scope="module")
def small_world():
    """The small backbone, and 96 of the digits: 3 steps an epoch."""
    from s2d_tf import backbones
    from s2d_tf.trainers.training import loop
    from tests.trainers.training.small_runs import STEPS, tiny

    load = loop.data.load_arrays
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, "tiny", tiny, raising=False)
        patch.setattr(
            loop.data, "load_arrays", lambda *args: tuple(p[: 32 * STEPS] for p in load(*args))
        )
        yield


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory, small_world):
    """Two teachers with random weights."""
    from tests.trainers.training.small_runs import made, recipe

    return made(tmp_path_factory.mktemp("ensemble") / "run", recipe("ensemble"), loadable=True)
