"""Files and folders appear whole or not at all; files from outside are read within limits."""

import os

import numpy as np
import pytest

from s2d_tf import files


def test_files_are_written_whole(tmp_path):
    files.write_json(tmp_path / "new" / "a.json", {"a": [1, None]})
    assert files.read_json(tmp_path / "new" / "a.json") == {"a": [1, None]}
    files.write_text(tmp_path / "a.txt", "ä\n")
    assert (tmp_path / "a.txt").read_bytes() == "ä\n".encode()
    files.write_array(tmp_path / "a.npy", np.arange(3))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [0, 1, 2])
    assert len(files.sha256(tmp_path / "a.npy")) == 64


def test_a_failure_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("older")
    with pytest.raises(ZeroDivisionError), files.written_beside(path) as temporary:
        print(temporary.write_text("half") // 0)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.txt", "older")]


def test_a_folder_takes_the_place_of_another_or_leaves_it(tmp_path):
    folder = tmp_path / "new" / "folder"
    for content in ("first", "second"):
        with files.folder_written_beside(folder) as beside:
            (beside / "inside").mkdir()
            (beside / "inside" / "a.txt").write_text(content)
        assert (folder / "inside" / "a.txt").read_text() == content
    with pytest.raises(ZeroDivisionError), files.folder_written_beside(folder) as beside:
        print((beside / "b.txt").write_text("half") // 0)
    assert [path.name for path in folder.iterdir()] == ["inside"]
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]


def test_files_from_outside(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"1234")
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    assert files.read_bytes(path, 4) == files.read_bytes(tmp_path / "link", 4) == b"1234"
    for name, message, links in (
        ("a", "a: expected at most 3 bytes, received more", True),
        ("none", "expected a file, received .No such file", True),
        ("pipe", "expected a regular file, received another kind", True),
        ("", "expected a file, received .Is a directory", True),
        ("link", "expected a file, received '.*symbolic links'", False),
    ):
        with pytest.raises(LookupError, match=message) as caught:
            files.read_bytes(tmp_path / name, 3, LookupError, follow_links=links)
        assert "\n" not in str(caught.value)


def test_a_lock_is_held_once_and_says_by_whom(tmp_path):
    with (
        files.locked(tmp_path / ".lock"),
        pytest.raises(RuntimeError, match=f"in use by process {os.getpid()} on"),
        files.locked(tmp_path / ".lock"),
    ):
        pytest.fail("held twice")
    with files.locked(tmp_path / ".lock"):
        pass
