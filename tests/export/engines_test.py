"""Every method and post-hoc step answers alike through every engine, all members in one call."""

import numpy as np
import pytest

from s2d_tf import engines, posthoc, recipes, uncertainty
from s2d_tf.engines import runtimes

METHODS = sorted({name.split(".")[1] for name in recipes.names()})
ENGINES = [name for name in engines.NAMES if name != "auto"]
# Each way to draw members and each engine once; the whole product is in the slow tier.
DEFAULT = {
    ("s2d_ensemble", "xla"),
    ("s2d_mc", "tensorflow"),
    ("h2d_gauss", "onnx"),
    ("s2d_swag", "litert"),
}


def product(names, default):
    return list(_product(names, default))


def _product(names, default):
    for name in names:
        for engine in ENGINES:
            marks = [] if (name, engine) in default else [pytest.mark.slow]
            if engine not in runtimes.available():
                marks.append(pytest.mark.skip(reason=f"needs the extra s2d_tf[{engine}]"))
            yield pytest.param(name, engine, marks=marks, id=f"{name}-{engine}")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))


def compare(found, expected):
    assert set(found) == set(expected)
    for key, value in expected.items():
        value = np.asarray(value)
        # Distances to class means are differences of large numbers.
        rtol = 1e-5 if key in uncertainty.NAMES else 1e-4
        assert found[key].dtype == value.dtype
        np.testing.assert_allclose(
            found[key].astype(float), value.astype(float), rtol=rtol, atol=1e-5, err_msg=key
        )


@pytest.mark.parametrize(("method", "engine"), product(METHODS, DEFAULT))
def test_methods(build_model, images, monkeypatch, method, engine):
    model = build_model(method)
    calls = []
    make = runtimes.RUNTIMES[engine]

    def counting(*arguments):
        run = make(*arguments)
        return lambda tensors: calls.append(len(tensors[0])) or run(tensors)

    monkeypatch.setitem(runtimes.RUNTIMES, engine, counting)
    found = model.predict_uncertainty(images, batch_size=4, engine=engine)
    assert model.engine_used == engine
    assert calls == [4, 3]  # whatever the number of members
    # Without any graph.
    members = model.member_logits(images.astype(np.float32))
    assert len(members) == model.num_members
    compare(found, uncertainty.from_members(model.kind, members))


STEPS = {
    "calibration": [posthoc.TemperatureScaling()],
    "detector": [posthoc.KNN(k=2)],
    "members": [posthoc.LastLayerLaplace(num_draws=3)],
    "shaping": [posthoc.SCALE(), posthoc.Energy()],
    "stack": [
        posthoc.VectorScaling(),
        posthoc.Mahalanobis(),
        posthoc.ConformalSets(coverage=0.8),
        posthoc.SelectiveClassifier(max_risk=0.99),
    ],
}


@pytest.mark.parametrize(("name", "engine"), product(STEPS, {("stack", "xla")}))
def test_steps(build_model, name, engine):
    model = build_model("s2d")
    random = np.random.RandomState(5)
    images = random.randint(0, 256, [200, *model.image_shape]).astype(np.uint8)
    labels = np.arange(200) % model.num_classes
    for step in STEPS[name]:
        model = step.fit(model, (images, labels))
    found = model.predict_uncertainty(images[:7], batch_size=4, engine=engine)
    assert model.engine_used == engine
    compare(found, model.state(images[:7].astype(np.float32)).values())
