"""Warm-up requests are what TF Serving reads."""

import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from s2d_tf.export import saved_model, signatures


def fields(message):
    """Contents of the length-delimited fields of a protocol buffer, by number."""
    found, at = {}, 0
    while at < len(message):
        number, kind = divmod(message[at], 8)
        assert kind == 2
        length = shift = 0
        more = True
        while more:
            at += 1
            length |= (message[at] & 127) << shift
            shift, more = shift + 7, message[at] > 127
        found[number] = message[at + 1 : at + 1 + length]
        at += 1 + length
    return found


def test_the_exported_file_holds_requests_that_the_model_answers(exports):
    """By the field numbers in TF Serving's public definitions."""
    held = exports("s2d")
    records = list(tf.data.TFRecordDataset(str(held.path / saved_model.WARMUP)).as_numpy_iterator())
    assert 3 <= len(records) <= 1_000
    seen = set()
    for record in records:
        request = fields(fields(fields(record)[6])[1])  # predict_log.request
        model, entry = fields(request[1]), fields(request[2])
        assert model[1] == b"s2d"
        tensor = tensor_pb2.TensorProto.FromString(entry[2])
        inputs = {entry[1].decode(): tf.constant(tf.make_ndarray(tensor))}
        answer = held.signatures[model[3].decode()](**inputs)
        assert len(answer["label"]) == tensor.tensor_shape.dim[0].size
        seen.add((model[3].decode(), len(answer["label"])))
    assert seen == {(s, n) for s in held.signatures for n in signatures.WARMUP_SIZES}
