"""The closed list refuses what is not on it, wherever in a SavedModel it hides."""

import re

import pytest
import tensorflow as tf

from s2d_tf.export import OperationError, check, operations

SPEC = tf.TensorSpec([None], tf.float32, name="x")


def harmless(x):
    return {"y": x + 1.0}


def after(operation, x):
    with tf.control_dependencies([operation]):
        return x + 1.0


def restored():
    (read,) = tf.raw_ops.RestoreV2(
        prefix="somewhere", tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
    )
    return tf.ensure_shape(read, [])


def saved(x):
    return tf.raw_ops.SaveV2(
        prefix="somewhere", tensor_names=["x"], shape_and_slices=[""], tensors=[x]
    )


@tf.function
def _hidden(x):
    return x + tf.strings.to_number(tf.io.read_file("/etc/hostname"))


FORBIDDEN = {
    "ReadFile": lambda x: _hidden.python_function(x),
    "ReadFile in a function": lambda x: _hidden(x),
    "ReadFile in a branch": lambda x: tf.cond(x[0] > 1e9, lambda: _hidden(x), lambda: x),
    "ReadFile in a loop": lambda x: tf.while_loop(lambda v: v[0] < 1.0, _hidden, [x])[0],
    "WriteFile": lambda x: after(tf.io.write_file("somewhere", "text"), x),
    "SaveV2": lambda x: after(saved(x), x),
    "RestoreV2": lambda x: x + restored(),
    "EagerPyFunc": lambda x: tf.ensure_shape(tf.py_function(lambda v: v, [x], tf.float32), [None]),
    "RandomStandardNormal": lambda x: x + tf.random.normal([]),
    "PrintV2": lambda x: after(tf.print(x), x),
}


def save(path, function, **objects):
    module = tf.Module()
    module.function = tf.function(function, input_signature=[SPEC])
    for name, value in objects.items():
        setattr(module, name, value)
    tf.saved_model.save(module, str(path), signatures=module.function)
    return path


@pytest.mark.parametrize("name", FORBIDDEN)
def test_others_are_rejected_by_name(tmp_path, name):
    path = save(tmp_path, lambda x: {"y": FORBIDDEN[name](x)})
    with pytest.raises(OperationError, match=f"{name.split()[0]} in serving"):
        check(path)
    assert check(path, trust=True).meta_graphs


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
    table = words(tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2])))

    def fills(x):
        tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=[3], values=[4])
        return {"y": x + 1.0}

    with pytest.raises(OperationError, match="LookupTableImportV2 in serving"):
        check(save(tmp_path, fills, table=table))


def test_what_runs_on_loading_is_looked_at(tmp_path):
    """An operation put among those that restore variables."""
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
    path = save(tmp_path, lambda x: {"y": _hidden(x)}) / "saved_model.pb"
    message = check(tmp_path, trust=True)
    del message.meta_graphs[0].graph_def.library.function[:]
    path.write_bytes(message.SerializeToString())
    with pytest.raises(OperationError, match="expected a function"):
        check(tmp_path)


def test_no_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"saved_model\.pb"):
        check(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 40)
    with pytest.raises(OperationError, match="received damaged content"):
        check(tmp_path)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(OperationError, match="no graph"):
        check(tmp_path)


def test_the_list_has_nothing_that_reaches_outside():
    reaching = re.compile("File|Py|Random|Save|Restore|Print|Assign|Queue|Rpc")
    assert not list(filter(reaching.search, operations.SERVING))
    assert not operations.RESTORING & {"SaveV2", "MergeV2Checkpoints"}
