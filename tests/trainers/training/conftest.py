"""Fixtures of small runs. Imports are inside them, as in tests/evaluation/conftest.py."""

import pytest


@pytest.fixture(scope="module")
def small_world(request):
    """The small backbone, and digits for `STEPS` steps an epoch, by default 3."""
    import numpy as np

    from s2d_tf import backbones, data
    from tests.trainers.training import small_runs

    load, count = data.load_arrays, 32 * getattr(request.module, "STEPS", small_runs.STEPS)

    def few(name, split, *args):
        times = 2 if split == "train" else 1
        return tuple(np.concatenate([part] * times)[:count] for part in load(name, split, *args))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, "tiny", small_runs.tiny, raising=False)
        patch.setattr(data, "load_arrays", few)
        yield


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory, small_world):
    """Two teachers with random weights."""
    from tests.trainers.training.small_runs import made, recipe

    return made(tmp_path_factory.mktemp("ensemble") / "run", recipe("ensemble"), loadable=True)
