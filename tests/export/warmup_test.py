"""Warm-up requests are what TF Serving reads."""

import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from s2d_tf.export import saved_model, signatures
from s2d_tf.models import contract


@pytest.fixture(scope="module")
def prediction_log():
    """The message class, from the field numbers in TF Serving's public definitions."""
    pool = descriptor_pool.Default()
    file = descriptor_pb2.FileDescriptorProto(
        name="warmup_test.proto",
        package="warmup_test",
        syntax="proto3",
        dependency=[tensor_pb2.DESCRIPTOR.name],
    )
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(holder, name, *fields):
        made = holder.add(name=name)
        for field, number, kind in fields:
            of_message = kind.startswith(".")
            made.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE if of_message else kinds.TYPE_STRING,
                type_name=kind if of_message else None,
            )
        return made

    spec = ("name", 1, "string"), ("signature_name", 3, "string")
    add(file.message_type, "ModelSpec", *spec)
    request = add(file.message_type, "PredictRequest", ("model_spec", 1, ".warmup_test.ModelSpec"))
    entry = add(
        request.nested_type,
        "InputsEntry",
        ("key", 1, "string"),
        ("value", 2, ".tensorflow.TensorProto"),
    )
    entry.options.map_entry = True
    request.field.add(
        name="inputs",
        number=2,
        label=kinds.LABEL_REPEATED,
        type=kinds.TYPE_MESSAGE,
        type_name=".warmup_test.PredictRequest.InputsEntry",
    )
    add(file.message_type, "PredictLog", ("request", 1, ".warmup_test.PredictRequest"))
    add(file.message_type, "PredictionLog", ("predict_log", 6, ".warmup_test.PredictLog"))
    pool.Add(file)
    found = pool.FindMessageTypeByName("warmup_test.PredictionLog")
    return message_factory.GetMessageClass(found)


def test_the_exported_file_holds_requests_that_the_model_answers(prediction_log, exports):
    held = exports("s2d")
    records = list(tf.data.TFRecordDataset(str(held.path / saved_model.WARMUP)).as_numpy_iterator())
    assert 3 <= len(records) <= 1_000
    seen = set()
    for record in records:
        request = prediction_log.FromString(record).predict_log.request
        ((name, tensor),) = request.inputs.items()
        signature = held.signatures[request.model_spec.signature_name]
        answer = signature(**{name: tf.constant(tf.make_ndarray(tensor))})
        assert len(answer["label"]) == tensor.tensor_shape.dim[0].size
        seen.add((request.model_spec.signature_name, len(answer["label"])))
    assert seen == {(s, n) for s in held.signatures for n in signatures.WARMUP_SIZES}


def test_large_images_are_warmed_up_one_at_a_time():
    pixels = contract.InputTensor("images", (512, 512, 3), "float32", contract.PIXELS, True)
    taken = contract.Contract((pixels,))
    made = list(signatures.warmup_requests(taken, ["serving_default"]))
    assert [value.shape[0] for _, inputs in made for value in inputs.values()] == [1, 1]
