"""The closed list refuses what is not on it, wherever in a SavedModel it hides."""

import pytest
import tensorflow as tf

from s2d_tf.export import OperationError, check, operations

SPEC = tf.TensorSpec([None], tf.float32, name="x")


def harmless(x):
    return {"y": x + 1.0}


def reads_a_file(x):
    return {"y": x + tf.strings.to_number(tf.io.read_file("/etc/hostname"))}


def writes_a_file(x):
    with tf.control_dependencies([tf.io.write_file("somewhere", "text")]):
        return {"y": x + 1.0}


def writes_a_checkpoint(x):
    saved = tf.raw_ops.SaveV2(
        prefix="somewhere", tensor_names=["x"], shape_and_slices=[""], tensors=[x]
    )
    with tf.control_dependencies([saved]):
        return {"y": x + 1.0}


def reads_a_checkpoint(x):
    (read,) = tf.raw_ops.RestoreV2(
        prefix="somewhere", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
    )
    return {"y": x + tf.ensure_shape(read, [])}


def calls_python(x):
    return {"y": tf.ensure_shape(tf.py_function(lambda v: v, [x], tf.float32), [None])}


def draws(x):
    return {"y": x + tf.random.normal([])}


def prints(x):
    tf.print(x)
    return {"y": x + 1.0}


@tf.function
def _hidden(x):
    return x + tf.strings.to_number(tf.io.read_file("/etc/hostname"))


def reads_in_a_function(x):
    return {"y": _hidden(x)}


def reads_in_a_branch(x):
    return {"y": tf.cond(tf.reduce_sum(x) > 1e9, lambda: _hidden(x), lambda: x)}


def reads_in_a_loop(x):
    return {"y": tf.while_loop(lambda v: tf.reduce_sum(v) < 1.0, _hidden, [x])[0]}


def save(path, function, **objects):
    module = tf.Module()
    module.function = tf.function(function, input_signature=[SPEC])
    for name, value in objects.items():
        setattr(module, name, value)
    tf.saved_model.save(module, str(path), signatures=module.function)
    return path


def test_a_harmless_model_passes_and_is_returned(tmp_path):
    (meta_graph,) = check(save(tmp_path, harmless)).meta_graphs
    assert "serving_default" in meta_graph.signature_def


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (reads_a_file, "ReadFile"),
        (writes_a_file, "WriteFile"),
        (writes_a_checkpoint, "SaveV2"),
        (reads_a_checkpoint, "RestoreV2"),
        (calls_python, "EagerPyFunc"),
        (draws, "RandomStandardNormal"),
        (prints, "PrintV2"),
        (reads_in_a_function, "ReadFile"),
        (reads_in_a_branch, "ReadFile"),
        (reads_in_a_loop, "ReadFile"),
    ],
)
def test_others_are_refused_by_name(tmp_path, function, operation):
    with pytest.raises(OperationError, match=f"{operation} in serving"):
        check(save(tmp_path, function))


def words(source):
    return tf.lookup.StaticHashTable(source, 0)


def test_a_table_of_constants_is_filled_on_loading_but_none_of_a_file(tmp_path):
    constants = tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2]))
    (meta_graph,) = check(
        save(tmp_path / "constants", harmless, table=words(constants))
    ).meta_graphs
    used = operations.operations(meta_graph)
    assert "LookupTableImportV2" in used["restoring"]
    assert "LookupTableImportV2" not in used["serving"]
    (tmp_path / "words.txt").write_text("one 1\n")
    file = tf.lookup.TextFileInitializer(
        str(tmp_path / "words.txt"), tf.string, 0, tf.int64, 1, delimiter=" "
    )
    with pytest.raises(OperationError, match="InitializeTableFromTextFileV2"):
        check(save(tmp_path / "file", harmless, table=words(file)))


def test_a_table_may_not_be_filled_by_a_request(tmp_path):
    constants = tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2]))
    table = words(constants)

    def fills(x):
        tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=[3], values=[4])
        return {"y": x + 1.0}

    with pytest.raises(OperationError, match="LookupTableImportV2 in serving"):
        check(save(tmp_path, fills, table=table))


def test_what_runs_on_loading_is_looked_at(tmp_path):
    """An operation put among those that restore variables."""
    module = tf.Module()
    module.variable = tf.Variable([1.0])
    path = save(tmp_path, harmless, variable=tf.Variable([1.0])) / "saved_model.pb"
    message = check(tmp_path)
    graph = message.meta_graphs[0].graph_def
    restore = next(f for f in graph.library.function if "restore" in f.signature.name)
    node = restore.node_def.add(name="evil", op="WriteFile")
    node.input.extend([restore.node_def[0].name + ":output:0"] * 2)
    path.write_bytes(message.SerializeToString())
    with pytest.raises(OperationError, match="WriteFile in restoring"):
        check(tmp_path)


def test_unused_functions_are_looked_at_too(tmp_path):
    path = save(tmp_path, harmless) / "saved_model.pb"
    message = check(tmp_path)
    function = message.meta_graphs[0].graph_def.library.function.add()
    function.signature.name = "spare"
    function.node_def.add(name="evil", op="EagerPyFunc")
    path.write_bytes(message.SerializeToString())
    with pytest.raises(OperationError, match="EagerPyFunc in saving"):
        check(tmp_path)


def test_a_call_of_a_missing_function_is_refused(tmp_path):
    path = save(tmp_path, reads_in_a_function) / "saved_model.pb"
    message = operations._read(path)
    del message.meta_graphs[0].graph_def.library.function[:]
    path.write_bytes(message.SerializeToString())
    with pytest.raises(OperationError, match="expected a function"):
        check(tmp_path)


def test_no_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(OperationError, match=r"received no saved_model\.pb"):
        check(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 40)
    with pytest.raises(OperationError, match="received damaged content"):
        check(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(OperationError, match="no graph"):
        check(tmp_path)


def test_the_list_has_nothing_that_reaches_outside():
    reaching = (
        "File",
        "Py",
        "Random",
        "Save",
        "Restore",
        "Print",
        "Log1",
        "Assign",
        "Queue",
        "Rpc",
    )
    assert not [n for n in operations.SERVING if any(part in n for part in reaching)]
    assert not operations.RESTORING & {"SaveV2", "MergeV2Checkpoints"}
