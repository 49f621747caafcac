"""The demo page without a browser: what it is told, and that its answers are the model's."""

import http.client
import json
import re
import urllib.error
import urllib.request

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import models, posthoc, zoo
from s2d_tf.trainers.demo_page import demo as demo_lib
from s2d_tf.trainers.demo_page.demo import Content, Demo

SHAPE = (8, 6, 3)
SCORES = ("confidence", "total", "data", "knowledge")


@pytest.fixture(scope="module")
def images():
    return np.random.RandomState(3).randint(0, 256, [60, *SHAPE]).astype(np.uint8)


@pytest.fixture(scope="module")
def pair(tiny_model):
    backbone = keras.Sequential([keras.Input(SHAPE), keras.layers.Flatten()])
    plain = models.Classifier(backbone, 4, mean=(120.0,) * 3, stddev=(600.0,) * 3, seed=1)
    plain.class_names = tiny_model.class_names
    return {"plain": plain, "s2d": tiny_model}


@pytest.fixture(scope="module")
def demo(pair, images):
    labels = pair["s2d"].predict_uncertainty(images[:40])["probs"].argmax(axis=-1)
    labels[:4] = (labels[:4] + 1) % 4  # some answers are wrong
    return Demo(pair, (images[:40], labels), {"noise": images[40:]}, "tiny images")


@pytest.fixture(scope="module")
def url(showing, demo):
    with showing(demo) as address:
        yield address


def post(url, content, kind="application/json", query=""):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request = urllib.request.Request(f"{url}/predict{query}", body, {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def get(url):
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read(), response.headers


def png(pixels):
    return tf.io.encode_png(pixels).numpy()


def check(answer, demo, inputs):
    """The answers of both models are exactly those of `predict_uncertainty`."""
    assert len(answer["models"]) == len(demo.models)
    for found, model in zip(answer["models"], demo.models.values(), strict=True):
        expected = model.predict_uncertainty(inputs)
        np.testing.assert_array_equal(np.float32(found["probs"]), expected["probs"][0])
        for name in SCORES:
            assert np.float32(found[name]) == expected[name][0], name


def test_pixels_samples_and_files_get_the_models_answers(url, demo, images):
    answer = post(url, {"pixels": images[50].ravel().tolist()})
    check(answer, demo, images[50:51])
    known, own = (demo.models["s2d"].predict_uncertainty(x) for x in (demo.known[0], images[50:51]))
    below = answer["models"][1]["below"]["total"]
    assert below == pytest.approx(np.mean(known["total"] < own["total"]))
    assert 0 < below < 1
    check(post(url, {"sample": 2}), demo, Content(demo).samples[2].input[None])
    check(post(url, png(images[51]), "image/png"), demo, images[51:52])
    inverted = post(url, png(images[51]), "image/png", "?invert=1")
    check(inverted, demo, 255 - images[51:52].astype(np.float32))


def test_the_description(url, demo):
    state = json.loads(get(f"{url}/state")[0])
    assert (state["kind"], state["shape"], state["examples"]) == ("image", [8, 6, 3], 40)
    assert state["classes"] == ["ant", "bee", "cat", "dog"]
    assert state["draw"] is None  # colors
    plain, s2d = state["models"]
    assert (plain["title"], list(plain["rules"])) == ("plain", ["total"])
    assert list(s2d["rules"]) == ["total", "data", "knowledge"]
    for name in ("total", "data", "knowledge"):
        for part in ("known", "unknown"):
            assert sum(s2d[part][name]) == pytest.approx(1, abs=1e-3)
    groups = [sample["group"] for sample in state["samples"]]
    assert groups == ["Known"] * 4 + ["Known, but hard"] * 4 + ["noise"] * 4
    assert all(sample["truth"] in state["classes"] for sample in state["samples"][:8])


def test_it_abstains_as_the_selective_classifier(demo):
    rules = Content(demo).describe()["models"][1]["rules"]["knowledge"]
    assert rules[0] is None  # 40 examples cannot show an error rate of 0.5%
    risk = demo_lib.RISKS[-1]
    step = posthoc.SelectiveClassifier(risk, "knowledge").fit(demo.models["s2d"], demo.known)
    assert rules[-1]["threshold"] == pytest.approx(step.arrays["threshold"])
    assert rules[-1]["coverage"] == pytest.approx(step.arrays["coverage"])


def test_what_fitted_steps_add(pair, demo):
    step = posthoc.ConformalSets(coverage=0.9).fit(pair["s2d"], demo.known)
    answer = Content(Demo({"sets": step})).predict(demo.known[0][:1])[0]
    expected = step.predict_sets(demo.known[0][:1])[0]
    assert answer["added"][step.step.name] == [
        step.class_names[i] for i in np.flatnonzero(expected)
    ]
    assert answer["below"] is None


def test_the_page_is_whole_and_asks_nobody_else(url):
    page, headers = get(f"{url}/")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    names = re.findall(r'(?:src|href)="([^"#]+)"', page.decode())
    assert sorted(names) == ["data:,", "demo.css", "demo.js"]
    # Every element that the script looks for is in the page.
    script = get(f"{url}/demo.js")[0].decode()
    for name in set(re.findall(r'\bat\("([\w-]+)"\)', script)):
        assert f'id="{name}"' in page.decode(), name
    assert get(f"{url}/samples/0.png")[0].startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"no picture", "image/png"),
        (png(np.zeros([9, 9, 3], np.uint8))[:60], "image/png"),
        (b"{", "application/json"),
        ({"sample": True}, "application/json"),
        ({"pixels": [0] * 5}, "application/json"),
        ({"pixels": [256] * 144}, "application/json"),
        ({"text": "x"}, "application/json"),
    ],
)
def test_bad_input_is_rejected_in_one_line(url, content, kind):
    with pytest.raises(urllib.error.HTTPError, match="400") as caught:
        post(url, content, kind)
    assert ": expected a JPEG or PNG file" in json.load(caught.value)["error"]


def test_a_large_request_is_rejected_before_it_is_read(url):
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.putrequest("POST", "/predict")
    connection.putheader("Content-Length", str(1 << 30))
    connection.endheaders()
    assert connection.getresponse().status == 413


def test_a_page_of_another_name_is_rejected(url):
    with pytest.raises(urllib.error.HTTPError, match="400"):
        get(urllib.request.Request(f"{url}/state", headers={"Host": "evil.example"}))


def test_sentences(showing, sentences):
    known = np.array(["red red", "one", "red one", "one one"]), np.array([0, 1, 2, 1])
    demo = Demo({"text": sentences}, known)
    with showing(demo) as url:
        state = json.loads(get(f"{url}/state")[0])
        assert (state["kind"], state["classes"]) == ("text", sentences.class_names)
        assert {sample["text"] for sample in state["samples"]} <= set(known[0])
        text = "red one two, Grün 中文"
        answer = post(url, {"text": text})
        check(answer, demo, np.array([text], object))
        assert answer["seen"] is None
        check(post(url, {"sample": 0}), demo, np.array([state["samples"][0]["text"]]))
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post(url, {"text": "\ud800"})


def test_models_that_do_not_fit_are_rejected(pair, sentences):
    with pytest.raises(ValueError, match="expected the same inputs and classes for all"):
        Demo({**pair, "text": sentences})
    with pytest.raises(ValueError, match="models: expected 1 to 4"):
        Demo({})
    table = keras.Sequential([keras.Input([5]), keras.layers.Dense(4)])
    with pytest.raises(ValueError, match="expected a model of images of one size"):
        Demo({"table": models.Classifier(table, 3)})


def test_an_entry_comes_with_its_twin_and_says_what_is_missing(tmp_path):
    demo = demo_lib.open_demo(["wrn_10_2_s2.s2d.cifar100"], data_dir=tmp_path)
    names = [model.metadata["name"] for model in demo.models.values()]
    assert names == ["wrn_10_2_s2.individual.cifar100", "wrn_10_2_s2.s2d.cifar100"]
    assert demo.known is None
    assert demo.note.startswith("No distribution and no threshold: ")
    state = Content(demo).describe()
    assert (state["samples"], state["examples"], state["models"][0]["known"]) == ([], 0, None)


def test_a_run_is_shown_alone(tmp_path):
    from s2d_tf.zoo import weights

    name = "wrn_10_2_s2.s2d.digits"
    run = zoo.Run(tmp_path / "run", zoo.entry(name).recipe, seed=0, split="train").write()
    weights.save(zoo.load(name), run.weights())
    demo = demo_lib.open_demo([str(tmp_path / "run")], examples=50)
    assert list(demo.models) == ["S2D classifier"]
    assert len(demo.known[0]) == 50
    assert len(np.unique(demo.known[1])) == 8
