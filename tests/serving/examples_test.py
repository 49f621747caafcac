"""The examples beside the clients."""

import importlib.util
import pathlib
import re

import numpy as np
import pytest
from google.protobuf import text_format

FOLDER = pathlib.Path("examples") / "serving"


@pytest.fixture(scope="module")
def choose(project_root):
    path = project_root / FOLDER / "choose_threshold.py"
    spec = importlib.util.spec_from_file_location("choose_threshold", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.choose


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


def test_the_batching_file_fits_the_warm_up(project_root):
    from s2d_tf.export import warmup

    text = (project_root / FOLDER / "batching.txt").read_text()
    sizes = [int(size) for size in re.findall(r"allowed_batch_sizes: (\d+)", text)]
    assert sizes == list(warmup.BATCH_SIZES)
    assert int(re.search(r"max_batch_size \{ value: (\d+) \}", text).group(1)) == max(sizes)


def test_the_grpc_client_asks_for_what_the_model_has(project_root, shared_folder):
    """Its request, answered by a stand-in for TF Serving with the exported model behind it."""
    grpc = pytest.importorskip("grpc", reason="needs the extra s2d_tf[grpc]")
    apis = "tensorflow_serving.apis"
    reason = "needs tensorflow-serving-api, the extra s2d_tf[grpc]"
    predict_pb2 = pytest.importorskip(f"{apis}.predict_pb2", reason=reason)
    service = pytest.importorskip(f"{apis}.prediction_service_pb2_grpc", reason=reason)
    import concurrent.futures

    import tensorflow as tf

    signatures = tf.saved_model.load(str(shared_folder / "1")).signatures

    class Servicer(service.PredictionServiceServicer):
        def Predict(self, request, context):
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
    try:
        path = project_root / FOLDER / "grpc_client.py"
        spec = importlib.util.spec_from_file_location("grpc_client", path)
        client = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(client)
        images = np.random.RandomState(0).randint(0, 256, [3, 8, 6, 3]).astype(np.uint8)
        files = [tf.io.encode_png(image).numpy() for image in images]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            pixels = client.predict(channel, "tiny", "serving_default", "images", images)
            encoded = client.predict(channel, "tiny", "serve_encoded", "image_bytes", files)
            with pytest.raises(grpc.RpcError, match="expected a JPEG or PNG file"):
                client.predict(channel, "tiny", "serve_encoded", "image_bytes", [b"no picture"])
        assert pixels["probabilities"].shape == (3, 4)
        for name, value in pixels.items():
            np.testing.assert_allclose(encoded[name], value, rtol=1e-5, atol=1e-6)
    finally:
        server.stop(None)


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
