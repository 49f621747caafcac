"""Which version is served: the newest that loads, whatever is beside it."""

import errno
import logging
import os
import shutil
import time

import pytest
import tensorflow as tf

from s2d_tf import export, serving


def empty(folder):
    folder.mkdir()


def garbage(folder):
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"\xff" * 100)


def no_variables(folder):
    shutil.copytree(folder.parent / "1", folder)
    shutil.rmtree(folder / "variables")


def cut_variables(folder):
    shutil.copytree(folder.parent / "1", folder)
    (data,) = (folder / "variables").glob("*.data-*")
    os.truncate(data, data.stat().st_size // 2)


def foreign_operation(folder):
    module = tf.Module()
    spec = [tf.TensorSpec([None], tf.float32)]
    module.function = tf.function(
        lambda x: {"y": x + tf.strings.to_number(tf.io.read_file("/etc/hostname"))}, spec
    )
    tf.saved_model.save(module, str(folder), signatures=module.function)


def no_signature(folder):
    tf.saved_model.save(tf.Module(), str(folder))


BROKEN = [empty, garbage, no_variables, cut_variables, foreign_operation, no_signature]


@pytest.mark.parametrize("break_it", BROKEN)
def test_a_broken_newest_version_at_start_leaves_the_one_before(model_folder, break_it, caplog):
    break_it(model_folder / "2")
    servables = serving.Servables(model_folder)
    assert servables.current.version == 1
    assert list(servables.failed) == [2]
    (line,) = (r for r in caplog.records if r.levelno == logging.ERROR)
    assert line.getMessage().startswith("version 2 could not be loaded: ")
    assert "\n" not in line.getMessage()
    servables.refresh()  # says nothing new
    assert sum(r.levelno == logging.ERROR for r in caplog.records) == 1


def test_only_broken_versions_are_an_error_that_says_why(tmp_path):
    garbage(tmp_path / "3")
    with pytest.raises(ValueError, match=r"that can be loaded, received 3 \(.*damaged"):
        serving.Servables(tmp_path)


def test_a_folder_that_was_incomplete_is_tried_again_when_it_changes(model_folder):
    servables = serving.Servables(model_folder)
    no_variables(model_folder / "2")
    servables.refresh()
    assert servables.current.version == 1
    shutil.copytree(model_folder / "1" / "variables", model_folder / "2" / "variables")
    servables.refresh()
    assert servables.current.version == 2
    assert servables.failed == {}


def test_a_deleted_version_gives_way_to_the_one_before_and_the_last_one_stays(model_folder):
    shutil.copytree(model_folder / "1", model_folder / "2")
    servables = serving.Servables(model_folder)
    assert servables.current.version == 2
    shutil.rmtree(model_folder / "2")
    servables.refresh()
    assert servables.current.version == 1
    shutil.rmtree(model_folder)
    servables.refresh()
    assert servables.current.version == 1


def test_the_watcher_survives_errors_of_the_system(model_folder, monkeypatch, caplog):
    servables = serving.Servables(model_folder, poll_seconds=0.01)
    real, calls = export.versions, []

    def versions(directory):
        calls.append(directory)
        if len(calls) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(directory)

    monkeypatch.setattr(export, "versions", versions)
    shutil.copytree(model_folder / "1", model_folder / "2")
    with servables.watching():
        deadline = time.monotonic() + 60
        while servables.current.version != 2:
            assert time.monotonic() < deadline, "version 2 was not taken up"
            time.sleep(0.01)
    assert "Too many open files" in caplog.text
