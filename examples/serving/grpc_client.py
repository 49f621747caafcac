"""Gets predictions for image files from TF Serving over gRPC.

    pip install tensorflow-serving-api
    python grpc_client.py photo.jpg other.png --target localhost:8500 --model cifar100

gRPC sends tensors as bytes over one connection, so it is faster than REST for many requests.
"""

import argparse
import sys

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def predict(channel, model, signature_name, input_name, values, timeout=30.0):
    """Returns the outputs for one batch: a dict of name to NumPy array.

    Args:
        channel: `grpc.Channel` to the server.
        model: name of the served model.
        signature_name: "serving_default" or "serve_float" (`images`: pixels [batch, height, width,
            channels] in uint8 or float32), or "serve_encoded" (`image_bytes`: contents of files).
        input_name, values: the signature's input and its array.
        timeout: seconds to wait.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature_name
    request.inputs[input_name].CopyFrom(tf.make_tensor_proto(values))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    response = stub.Predict(request, timeout)
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", help="JPEG or PNG files")
    parser.add_argument("--target", default="localhost:8500")
    parser.add_argument("--model", required=True, help="name of the served model")
    arguments = parser.parse_args()
    contents = []
    for path in arguments.files:
        with open(path, "rb") as file:
            contents.append(file.read())
    try:
        with grpc.insecure_channel(arguments.target) as channel:
            answers = predict(channel, arguments.model, "serve_encoded", "image_bytes", contents)
    except grpc.RpcError as error:
        sys.exit(f"grpc_client: error: {error.code().name}: {error.details()}")
    for i, path in enumerate(arguments.files):
        print(
            f"{path}: class {answers['label'][i]}, confidence {answers['confidence'][i]:.3f}; "
            f"uncertainty {answers['total_uncertainty'][i]:.3f} nats: "
            f"{answers['data_uncertainty'][i]:.3f} in the data, "
            f"{answers['knowledge_uncertainty'][i]:.3f} in the model"
        )


if __name__ == "__main__":
    main()
