"""The examples beside the clients."""

import concurrent.futures
import pathlib
import re

import numpy as np
import pytest
from google.protobuf import text_format

FOLDER = pathlib.Path("examples") / "serving"


@pytest.fixture(scope="module")
def load_example(load_script):
    """`load_example(name)`: an example as a module."""
    return lambda name: load_script(FOLDER / f"{name}.py")


@pytest.fixture
def run_main(monkeypatch):
    """`run_main(module, *arguments)`: as from the command line, without another start-up."""

    def run(module, *arguments):
        monkeypatch.setattr("sys.argv", [module.__name__, *map(str, arguments)])
        module.main()

    return run


@pytest.fixture(scope="module")
def choose():
    from s2d_tf import posthoc

    return posthoc.choose_threshold


def draw(seed, n):
    """Answers whose chance to be wrong grows with their uncertainty."""
    random = np.random.RandomState(seed)
    scores = random.uniform(size=n)
    return scores, random.uniform(size=n) < 0.6 * scores**2


def test_the_promise_holds_on_new_answers(choose):
    kept = 0
    for seed in range(40):
        threshold, coverage, bound = choose(*draw(seed, 800), max_risk=0.1)
        assert bound <= 0.1
        assert 0.3 < coverage < 0.9
        scores, errors = draw(1_000 + seed, 40_000)
        kept += errors[scores <= threshold].mean() <= 0.1
    # 95% for each threshold by itself; choosing the best of them costs a little.
    assert kept >= 35


def test_an_impossible_demand_has_no_answer(choose):
    assert choose(np.arange(50.0), np.ones(50, bool), max_risk=0.2) is None


def test_nothing_is_refused_where_all_is_well(choose):
    threshold, coverage, _ = choose(np.arange(500.0), np.zeros(500, bool), max_risk=0.05)
    assert (threshold, coverage) == (499.0, 1.0)


def test_the_threshold_as_a_program(load_example, run_main, choose, tmp_path, capsys, monkeypatch):
    from s2d_tf import data, zoo
    from s2d_tf.zoo import weights

    # Runs as training leaves them. These weights have seen the validation images, which does not
    # matter here.
    name = "wrn_10_2_s2.s2d.digits"
    model = zoo.load(name)
    for split in ("train", "train_without_validation"):
        run = zoo.Run(tmp_path / split, zoo.entry(name).recipe, seed=0, split=split).write()
        weights.save(model, run.weights())
    program = load_example("choose_threshold")
    with pytest.raises(SystemExit, match=r"received one with --split=train$"):
        run_main(program, tmp_path / "train", "--max_risk=0.5")

    images, labels = data.load_arrays("digits", "validation")
    answers = model.predict_uncertainty(images)
    errors = answers["probs"].argmax(axis=-1) != labels
    seen = f"{len(labels)} validation images, {errors.mean():.1%} of the predictions are wrong"
    run_main(program, run.directory, "--max_risk=0.3", "--uncertainty=knowledge")
    threshold, coverage, bound = choose(answers["knowledge"], errors, 0.3)
    assert coverage == np.mean(answers["knowledge"] <= threshold)
    assert capsys.readouterr().out.splitlines() == [
        seen,
        f"abstain above knowledge uncertainty {threshold:.4g} nats: {coverage:.1%} of the images "
        f"are answered, at most {bound:.1%} of those wrongly (95% confidence)",
    ]
    # The model is opened and traced only once.
    monkeypatch.setattr(zoo.Run, "predictor", lambda self: model, raising=False)
    with pytest.raises(SystemExit, match="no threshold meets this risk"):
        run_main(program, run.directory, "--max_risk=1e-6")


def test_the_batching_file_fits_the_warm_up(project_root):
    from s2d_tf.export.saved_model import WARMUP_SIZES

    text = (project_root / FOLDER / "batching.txt").read_text()
    sizes = [int(size) for size in re.findall(r"allowed_batch_sizes: (\d+)", text)]
    assert sizes == list(WARMUP_SIZES)
    assert int(re.search(r"max_batch_size \{ value: (\d+) \}", text).group(1)) == max(sizes)


def test_the_documented_numbers_are_those_of_the_code(project_root):
    from s2d_tf import serving
    from s2d_tf.export.saved_model import WARMUP_SIZES

    text = (project_root / "docs" / "serving.md").read_text(encoding="utf-8")
    assert re.search(r"^  tensorflow/serving:\d+\.\d+\.\d+ ", text, re.MULTILINE)
    limits = serving.Limits()
    for line in (
        f"| size of a request | {limits.request_bytes >> 20} MB |",
        f"| examples (images, texts, rows) in a request | {limits.batch_size} |",
        f"before it is decoded | 2^{limits.image_pixels.bit_length() - 1} |",
        f"encoded images in a request | 2^{limits.request_pixels.bit_length() - 1} |",
        f"| time to send a request, or to read the response | {limits.request_seconds:g} s |",
        f"answered at once | {limits.concurrency} |",
        f"`s2d serve` takes {limits.batch_size}",
        f"a request of more than {max(WARMUP_SIZES)} images",
    ):
        assert line in " ".join(text.split()), line


@pytest.fixture(scope="module")
def grpc_target(shared_folder):
    """Address of a stand-in for TF Serving, with the exported model behind it."""
    grpc = pytest.importorskip("grpc", reason="needs the extra s2d_tf[grpc]")
    apis = "tensorflow_serving.apis"
    reason = "needs tensorflow-serving-api, the extra s2d_tf[grpc]"
    predict_pb2 = pytest.importorskip(f"{apis}.predict_pb2", reason=reason)
    service = pytest.importorskip(f"{apis}.prediction_service_pb2_grpc", reason=reason)
    import tensorflow as tf

    signatures = tf.saved_model.load(str(shared_folder / "1")).signatures

    class Servicer(service.PredictionServiceServicer):
        def Predict(self, request, context):
            if request.model_spec.name != "tiny":
                context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found")
            inputs = {k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            try:
                answers = signatures[request.model_spec.signature_name](**inputs)
            except tf.errors.InvalidArgumentError as error:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
            for name, value in answers.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return response

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2))
    service.add_PredictionServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def test_the_grpc_client_gets_the_models_answers(
    load_example, grpc_target, compare, pictures, encode
):
    import grpc

    client = load_example("grpc_client")
    files = [encode(picture) for picture in pictures]
    with grpc.insecure_channel(grpc_target) as channel:
        for columns in (
            client.predict(channel, "tiny", "serving_default", "images", pictures),
            client.predict(channel, "tiny", "serve_float", "images", pictures.astype("float32")),
            client.predict(channel, "tiny", "serve_encoded", "image_bytes", files),
        ):
            assert columns["probabilities"].shape == (len(pictures), 4)
            compare([{name: columns[name][i] for name in columns} for i in range(len(pictures))])
        with pytest.raises(grpc.RpcError, match="expected a JPEG or PNG file"):
            client.predict(channel, "tiny", "serve_encoded", "image_bytes", [b"no picture"])


def test_the_grpc_client_as_a_program(
    load_example, run_main, grpc_target, expected, pictures, encode, tmp_path, capsys
):
    client = load_example("grpc_client")
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(encode(pictures[0]))
    bad.write_bytes(b"no picture")
    run_main(client, good, good, "--target", grpc_target, "--model", "tiny")
    line = (
        f"{good}: class {expected['label'][0]}, confidence {expected['confidence'][0]:.3f}; "
        f"uncertainty {expected['total_uncertainty'][0]:.3f} nats: "
        f"{expected['data_uncertainty'][0]:.3f} in the data, "
        f"{expected['knowledge_uncertainty'][0]:.3f} in the model"
    )
    assert capsys.readouterr().out.splitlines() == [line, line]
    for arguments, message in (
        ((good, bad, "--model", "tiny"), "INVALID_ARGUMENT: .*expected a JPEG or PNG file"),
        ((good, "--model", "other"), "NOT_FOUND: Servable not found"),
    ):
        with pytest.raises(SystemExit, match=f"(?s)^grpc_client: error: {message}"):
            run_main(client, *arguments, "--target", grpc_target)


def test_the_warm_up_messages_are_text_readable(shared_folder):
    """A reader of TF Serving's own definitions prints them."""
    logs = pytest.importorskip(
        "tensorflow_serving.apis.prediction_log_pb2", reason="needs the extra s2d_tf[grpc]"
    )
    import tensorflow as tf

    path = shared_folder / "1" / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        text = text_format.MessageToString(logs.PredictionLog.FromString(record))
        assert 'signature_name: "serv' in text
        assert 'name: "tiny"' in text
