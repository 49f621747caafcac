"""A server answers the same whatever computes, and rejects the same."""

import numpy as np
import pytest

from s2d_tf import engines
from s2d_tf.engines import runtimes
from s2d_tf.serving.limits import RequestError
from s2d_tf.serving.servable import Servable

EVERY = ["auto", *runtimes.RUNTIMES]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    yield
    engines.use("auto")


@pytest.mark.parametrize("engine", EVERY)
def test_every_engine_answers_alike(shared_folder, pictures, expected, engine):
    if engine not in ("auto", *runtimes.available()):
        pytest.skip(f"needs the extra s2d_tf[{engine}]")
    engines.use(engine)
    servable = Servable(shared_folder / "1")
    found = servable.run("serving_default", {"images": pictures})
    assert set(found) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5, err_msg=name)
    assert servable.engines["serving_default"].used == engine.replace("auto", "tensorflow")
    wrong = np.full_like(pictures, np.nan, np.float32)
    with pytest.raises(RequestError, match=r"images: expected pixels in \[0, 255\]"):
        servable.run("serve_float", {"images": wrong})


def test_unknown_engines_are_rejected():
    with pytest.raises(ValueError, match=r"engine: expected one of .*received 'fast'"):
        engines.use("fast")
