"""The examples beside the clients."""

import concurrent.futures
import pathlib
import re

import numpy as np
import pytest

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


def test_the_threshold_as_a_program(load_example, run_main, tmp_path, capsys):
    from s2d_tf import data, posthoc, zoo
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
    errors = answers["label"] != labels
    run_main(program, run.directory, "--max_risk=0.3", "--uncertainty=knowledge")
    threshold, coverage, bound = posthoc.choose_threshold(answers["knowledge"], errors, 0.3)
    assert coverage == np.mean(answers["knowledge"] <= threshold)
    assert capsys.readouterr().out == (
        f"{len(labels)} validation images, {errors.mean():.1%} of the predictions are wrong\n"
        f"abstain above knowledge uncertainty {threshold:.4g} nats: {coverage:.1%} of the images "
        f"are answered, at most {bound:.1%} of those wrongly (95% confidence)\n"
    )


def test_the_batching_file_fits_the_warm_up(project_root):
    from s2d_tf.export.signatures import WARMUP_SIZES

    text = (project_root / FOLDER / "batching.txt").read_text()
    assert re.findall(r"allowed_batch_sizes: (\d+)", text) == [*map(str, WARMUP_SIZES)]
    assert re.findall(r"max_batch_size \{ value: (\d+) \}", text) == [str(max(WARMUP_SIZES))]


def test_tf_serving_is_started_and_its_answers_compared(
    load_example, run_main, server, shared_folder, project_root, monkeypatch, capsys
):
    """`s2d serve` stands in for its Docker image."""
    monkeypatch.syspath_prepend(project_root / FOLDER)
    program, commands = load_example("compare_with_tf_serving"), []
    monkeypatch.setattr(program, "PORT", server.rpartition(":")[2])
    monkeypatch.setattr("subprocess.check_output", lambda args, **_: commands.append(args) or "id")
    with pytest.raises(SystemExit, match=r"^0$"):
        run_main(program, shared_folder)
    assert re.search(r"knowledge_uncertainty +\d\.\d\de[+-]\d\d\n", capsys.readouterr().out)
    assert f"--volume={shared_folder}:/models/tiny:ro" in commands[0]
    assert commands[1] == ["docker", "stop", "id"]


@pytest.fixture(scope="module")
def grpc_target(shared_folder):
    """Address of a stand-in for TF Serving, with the exported model behind it."""
    reason, apis = "needs the extra s2d_tf[grpc]", "tensorflow_serving.apis"
    grpc = pytest.importorskip("grpc", reason=reason)
    predict_pb2 = pytest.importorskip(f"{apis}.predict_pb2", reason=reason)
    service = pytest.importorskip(f"{apis}.prediction_service_pb2_grpc", reason=reason)
    import tensorflow as tf

    signatures = tf.saved_model.load(str(shared_folder / "1")).signatures

    class Servicer(service.PredictionServiceServicer):
        def Predict(self, request, context):
            assert request.model_spec.name == "tiny"
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
