"""A version is there whole or not at all."""

import concurrent.futures
import threading

import pytest

from s2d_tf import export, models
from s2d_tf.export import versions
from s2d_tf.export.saved_model import write_version
from tests.models.tiny import backbone


def write(directory, size=1):
    def fill(folder):
        (folder / "variables").mkdir()
        for i in range(size):
            (folder / "variables" / str(i)).write_text("data")
        (folder / "saved_model.pb").write_text("last")

    return write_version(directory, fill)


def test_numbers_follow_the_largest_and_ignore_the_rest(tmp_path):
    folder = tmp_path / "new" / "model"
    assert versions(folder) == []
    assert write(folder) == folder / "1"
    (folder / "7").mkdir()
    (folder / "012").mkdir()
    (folder / "latest").mkdir()
    (folder / "9").write_text("a file")
    assert versions(folder) == [1, 7]
    assert write(folder) == folder / "8"
    assert write(folder) == folder / "10"
    assert versions(folder) == [1, 7, 8, 10]


def test_two_writers_get_two_versions(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: write(tmp_path), range(12)))
    assert sorted(int(path.name) for path in paths) == list(range(1, 13))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(map(str, range(1, 13)))


def test_a_watcher_never_sees_half_a_version(tmp_path):
    stop, half = threading.Event(), []

    def watch():
        while not stop.is_set():
            for number in versions(tmp_path):
                folder = tmp_path / str(number)
                if not (folder / "saved_model.pb").is_file():
                    half.append(number)
                if len(list((folder / "variables").iterdir())) != 20:
                    half.append(number)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(10):
        write(tmp_path, size=20)
    stop.set()
    watcher.join()
    assert not half
    assert len(versions(tmp_path)) == 10


def test_a_version_with_flipped_bytes_is_not_loaded(tmp_path):
    folder = export.save(models.Classifier(backbone(), 3, input_range=(0, 255)), tmp_path)
    export.load(folder)
    message = "received others or none .*{}|expected the description of a model"
    files = ("saved_model.pb", "assets/model.json", "variables/variables.index")
    for path in (folder / name for name in files):
        whole = path.read_bytes()
        for at in range(0, len(whole) - 8, max(8, len(whole) // 7)):
            flipped = bytes(each ^ 1 for each in whole[at : at + 8])
            path.write_bytes(whole[:at] + flipped + whole[at + 8 :])
            with pytest.raises(ValueError, match=message.format(path.name)):
                export.load(folder)
        path.write_bytes(whole)
    export.load(folder)
