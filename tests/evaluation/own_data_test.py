"""Arrays and `tf.data` in evaluation: the same answers as registered datasets, and clear errors."""

import re

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data, evaluation, models
from s2d_tf.evaluation import drawing, evaluator, intervals, sources
from s2d_tf.trainers.studies import report_pictures

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def model(network):
    return network(models.S2DClassifier)


@pytest.fixture(scope="module")
def arrays():
    images, labels = data.load_arrays("digits", "test")
    return images[:300], labels[:300]


@pytest.fixture(scope="module")
def photos():
    return data.load_arrays("digits_photos", "test")[0][:200]


@pytest.fixture(scope="module")
def found(model, arrays, photos):
    return evaluation.evaluate(model, arrays, ood={"mine": photos}, name="own")


def slices(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


def test_arrays_have_the_metrics_of_the_registered_dataset(model):
    named = evaluation.evaluate(model, "digits", ["digits_photos"])
    known, unknown = (data.load_arrays(n, "test") for n in ("digits", "digits_photos"))
    own = evaluation.evaluate(model, known, ood={"far": unknown[0]}, name="own")
    renamed = {
        key.replace("digits_photos/", "far/").replace("digits/", "own/"): value
        for key, value in named.items()
    }
    assert own == renamed


@pytest.mark.parametrize("batch", [None, 64, 1000])
def test_a_tf_data_dataset_has_those_of_its_arrays(model, arrays, photos, found, batch):
    known, unknown = slices(*arrays), slices(photos)
    if batch:
        known, unknown = known.batch(batch), unknown.batch(batch)
    again = evaluation.evaluate(model, known, ood={"mine": unknown}, name="own")
    assert again.keys() == found.keys()
    for key, value in again.items():
        assert value == pytest.approx(found[key], abs=1e-5), key


def test_a_dataset_is_streamed(model, arrays, passes):
    evaluation.evaluate(model, slices(*arrays).batch(64))
    assert passes == [64, 64, 64, 64, 44]


def test_names_and_own_data_mix(model, arrays, found):
    mixed = evaluation.evaluate(model, arrays, ood={"far": "digits_photos", "flat": arrays[0] * 0})
    assert {key.split("/")[0] for key in mixed} == {"data", "far", "flat"}
    assert mixed["data/nll"] == found["own/nll"]
    named = evaluation.evaluate(model, arrays, ood=["digits_photos"])
    assert named["digits_photos/auroc/total"] == mixed["far/auroc/total"]


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.float32])
def test_class_numbers_of_any_type(model, arrays, found, shape, kind):
    images, labels = arrays
    again = evaluation.evaluate(model, (images, labels.astype(kind).reshape(shape)), name="own")
    assert again["own/nll"] == found["own/nll"]


def test_one_hot_labels(model, arrays, found):
    images, labels = arrays
    again = evaluation.evaluate(model, (images, np.eye(8, dtype=np.float32)[labels]), name="own")
    assert again["own/nll"] == found["own/nll"]


def test_predictions_are_cached_by_content(model, arrays, photos, tmp_path, passes):
    first = evaluation.evaluate(model, arrays, {"a": photos}, cache_dir=tmp_path, name="b")
    assert passes == [300, 200]
    # Under other names, and from a dataset with batches of its own.
    again = evaluation.evaluate(
        model, slices(*arrays).batch(7), {"c": slices(photos)}, cache_dir=tmp_path, name="d"
    )
    assert passes == [300, 200]
    assert [again[f"d/{m}"] for m in ("nll", "ece")] == [first[f"b/{m}"] for m in ("nll", "ece")]
    assert len(list(tmp_path.iterdir())) == 2
    other = arrays[0].copy()
    other[5, 3, 3, 0] ^= 1
    evaluation.evaluate(model, (other, arrays[1]), cache_dir=tmp_path, name="b")
    assert passes == [300, 200, 300]


def test_the_dtype_of_the_inputs_belongs_to_the_key(model, arrays, tmp_path, passes):
    images, labels = arrays
    for x in (images, images.astype(np.float32), images.astype(np.float64)):
        evaluation.evaluate(model, (x, labels), cache_dir=tmp_path)
    assert passes == [300] * 3
    assert len(list(tmp_path.iterdir())) == 3


class Counter:
    """A stand-in that answers by how many inputs there are: what is tested is what reaches it."""

    kind, num_classes, class_names = "categorical", 3, None
    weights, member_settings = (), ("counter",)
    num_members, readings = 1, {}

    def __init__(self):
        self.seen = []

    @property
    def cached_predictors(self):
        return [self]

    def predict_raw(self, inputs, batch_size):
        self.seen.append(inputs)
        return RNG.normal(size=[1, len(tf.nest.flatten(inputs)[0]), 3]).astype(np.float32)

    def members_from_raw(self, raw):
        return raw


INPUTS = {
    "table": np.arange(20, dtype=np.float32).reshape(10, 2),
    "texts": [f"text {i}" for i in range(10)],
    "dict": {"a": np.arange(10), "b": np.arange(20.0).reshape(10, 2)},
    "list": [np.arange(10), np.array([f"{i}" for i in range(10)], dtype=object)],
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_of_any_kind_reach_the_model_as_they_are(kind, tmp_path):
    inputs, labels = INPUTS[kind], np.arange(10) % 3
    model = Counter()
    options = {"cache_dir": tmp_path, "ood": {"mine": inputs}}
    evaluation.evaluate(model, (inputs, labels), **options)
    assert len(model.seen) == 1, "the same content under two names is predicted once"
    given = tf.nest.flatten(inputs) if kind in ("dict", "list") else [inputs]
    for received, expected in zip(tf.nest.flatten(model.seen[0]), given, strict=True):
        np.testing.assert_array_equal(received, expected)
    evaluation.evaluate(model, (inputs, labels), **options)
    assert len(model.seen) == 1
    tensors = tuple(inputs) if kind == "list" else inputs
    evaluation.evaluate(model, slices(tensors, labels).batch(4))
    assert [len(tf.nest.flatten(each)[0]) for each in model.seen[1:]] == [4, 4, 2]


def test_content_tells_apart_what_its_bytes_would_not():
    def hashed(inputs):
        content = data.Content()
        content.update(inputs, np.zeros(len(tf.nest.flatten(inputs)[0])))
        return content.inputs

    one = np.array([1], np.int64)
    distinct = [
        one,
        one.view(np.float64),
        {"a": one},
        {"b": one},
        {"a": one, "b": one},
        np.array(["ab", "c"]),
        np.array(["a", "bc"]),
        np.array([["a"], ["bc"]]),
        np.zeros([1, 2, 3]),
        np.zeros([1, 3, 2]),
    ]
    assert len({hashed(inputs) for inputs in distinct}) == len(distinct) - 1  # Texts of one shape.
    assert hashed(np.array(["ä", "b"])) == hashed(np.array(["ä".encode(), b"b"], dtype=object))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, y[:-1]), "labels: expected 300 class numbers.*received int64.*299"),
        (lambda x, y: (x, y + 0.5), "labels: expected 300 class numbers.*float64"),
        (lambda x, y: (x, np.full([300, 8], 0.125)), "class numbers or one-hot rows"),
        (lambda x, y: (x, y, y), r"expected \(x, y\), received a tuple of 3"),
        (lambda x, y: (x, y + 3), r"labels: expected classes in \[0, 8\), received"),
        (lambda x, y: x, "Remove examples without a label"),
        (lambda x, y: (x[:0], y[:0]), r"at least 1, received lengths \[0\]"),
        (lambda x, y: ([x, x[:5]], y), r"same length.*\[5, 300\]"),
        (lambda x, y: slices(x, y + 3).batch(50), r"labels: expected classes in \[0, 8\)"),
        (lambda x, y: slices(x, y, y).batch(50), "received a tuple of 3"),
    ],
)
def test_bad_data_is_rejected_before_the_first_pass(model, arrays, passes, change, message):
    with pytest.raises(ValueError, match=message) as caught:
        evaluation.evaluate(model, change(*arrays))
    assert "\n" not in str(caught.value)
    assert passes == []


def test_an_empty_dataset_is_rejected(model, arrays):
    with pytest.raises(ValueError, match="expected at least one example"):
        evaluation.evaluate(model, slices(*arrays).take(0).batch(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ood": [np.zeros([2, 8, 8, 1])]}, "ood: expected a list of registered names or a dict"),
        ({"ood": "digits_photos"}, "ood: expected a list of registered names or a dict"),
        (
            {"ood": {"data": np.zeros([2, 8, 8, 1])}},
            "names than that of the dataset, received 'data'",
        ),
        ({"ood": {"a/b": np.zeros([2, 8, 8, 1])}}, "name: expected a text without '/'"),
        ({"name": ""}, "name: expected a text without '/'"),
        ({"ood": ["digit"]}, "received 'digit'"),
    ],
)
def test_bad_names_are_rejected(model, arrays, options, message):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(model, arrays, **options)


def test_a_shuffled_dataset_is_evaluated_but_neither_cached_nor_compared(
    model, arrays, found, tmp_path
):
    shuffled = slices(*arrays).shuffle(300).batch(64)
    again = evaluation.evaluate(model, shuffled, name="own")
    assert again["own/nll"] == pytest.approx(found["own/nll"], abs=1e-5)
    with pytest.raises(ValueError, match="same order in every pass"):
        evaluation.evaluate(model, shuffled, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="same order for both models"):
        evaluation.compare(model, model, shuffled, num_resamples=5)


def test_two_models_are_compared_in_pairs(model, arrays, photos, network):
    other = network(models.S2DClassifier, seed=1)
    options = {"ood": {"mine": photos}, "num_resamples": 30}
    table = evaluation.compare(model, other, slices(*arrays).batch(64), **options)
    first, second = (evaluator.gather(m, arrays, {"mine": photos}) for m in (model, other))
    expected = intervals.difference_table(intervals.of_gathered(first, second, 30), "", 30)
    assert [row[:2] for row in table.rows] == [row[:2] for row in expected.rows]
    for row, other_row in zip(table.rows, expected.rows, strict=True):
        numbers = [[float(cell.text) for cell in r[2:5]] for r in (row, other_row)]
        np.testing.assert_allclose(*numbers, atol=0.011)
    same = evaluation.compare(model, model, arrays, **options)
    assert {row[-1].text for row in same.rows} == {"no clear difference"}


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(drawing, "DPI", 30)
    monkeypatch.setattr(report_pictures, "NUM_EXAMPLES", 2)


@pytest.mark.usefixtures("coarse")
def test_a_report_on_own_data(model, arrays, photos, tmp_path, network):
    plain = network(models.Classifier, seed=1)
    named = {"S2D": model, "<Plain>": plain}
    unknown = {"mine": photos.astype(np.float32)}
    known = slices(*arrays).batch(64)
    path = evaluation.write_model_report(named, known, tmp_path, unknown, "own", num_resamples=20)
    page = path.read_text(encoding="utf-8")
    for text in ("&lt;Plain&gt; minus S2D", "2 models on own.", "mine %AUROC", "300 examples"):
        assert text in page
    assert "<Plain>" not in page
    assert data.fingerprint(*arrays) in page
    # Histograms, reliability, two curves, risk, and the most uncertain images of both sets.
    assert page.count("<img ") == 7 == len(list((tmp_path / "figures").iterdir()))


@pytest.mark.usefixtures("coarse")
def test_a_report_on_a_table_has_no_images(tmp_path):
    inputs, labels = INPUTS["dict"], np.arange(10) % 3
    path = evaluation.write_model_report({"one": Counter()}, (inputs, labels), tmp_path)
    page = path.read_text(encoding="utf-8")
    assert "Differences" not in page
    assert page.count("<img ") == 2
    with pytest.raises(ValueError, match=r"models: expected 1 to 8.*received 0"):
        evaluation.write_model_report({}, (inputs, labels), tmp_path)


def test_the_document_runs(model, arrays, photos, project_root, tmp_path, monkeypatch, network):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drawing, "DPI", 30)
    text = (project_root / "docs" / "evaluation.md").read_text(encoding="utf-8")
    section = text[text.index("## Your own data") : text.index("## Tuning")]
    (block,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    scope = {"predictor": model, "other": network(models.Classifier, 1)}
    scope |= {"x": arrays[0], "y": arrays[1], "x2": photos}
    exec(compile(block, "evaluation.md", "exec"), scope)
    assert "mine/auroc/knowledge" in scope["found"]
    assert (tmp_path / "report" / "report.html").is_file()


def test_a_source_finds_examples_again(arrays):
    images, labels = arrays
    source = sources.open_source(slices(images, labels).batch(64), "own")
    places = [299, 0, 64, 63]
    np.testing.assert_array_equal(np.stack(source.take(places)), images[places])


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 255, 255), (0, 1, 255), (-1, 1, 255), (0, 0.5, 127)]
)
def test_images_of_other_numbers_are_shown(low, high, expected):
    image = np.linspace(low, high, 27).reshape(3, 3, 3).astype(np.float32)
    shown = report_pictures._as_pixels(image)
    assert (shown.dtype, shown.min(), shown.max()) == (np.uint8, 0, expected)
