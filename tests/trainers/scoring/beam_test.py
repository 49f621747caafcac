"""Apache Beam gives the rows of the local command; `make test-beam` has an environment for it."""

import csv
import os
import sys

import numpy as np
import pytest
from pyarrow import parquet

from s2d_tf import cli, export, zoo
from s2d_tf.trainers import scoring as prediction
from s2d_tf.trainers.scoring import predict
from s2d_tf.trainers.scoring.parts import Parts
from tests.trainers.scoring.conftest import write_records

IMAGES = int(os.environ.get("S2D_BEAM_IMAGES", 600))
# By its path: `DirectRunner` would first try to download another runner.
RUNNER = "--runner=apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner"
TWO_WORKERS = [RUNNER, "--direct_num_workers=2", "--direct_running_mode=multi_processing"]


@pytest.fixture(scope="module")
def beam():
    pytest.importorskip("apache_beam", reason="needs the extra s2d_tf[beam]: `make test-beam`")
    from s2d_tf.trainers.scoring import beam

    return beam


@pytest.fixture
def version(tiny_model, tmp_path):
    return export.save(tiny_model, tmp_path / "exported")


def skipped(summary):
    with open(summary.skipped_list, newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("kind", ["folder", "lines", "tfrecord", "parquet"])
def test_parts_on_beam_are_those_of_the_local_command(
    kind, beam, version, encoded, write, tmp_path
):
    contents = [*encoded]
    contents[4], contents[11] = b"damaged", encoded[11][:60]
    inputs = write(kind, contents)
    options = {"top_k": 3, "batch_size": 3, "part_rows": 7}
    local = prediction.predict_files(
        prediction.open_scorer(version), inputs, tmp_path / "local.parquet", **options
    )
    ours = beam.predict_files(version, inputs, tmp_path / "beam.parquet", [RUNNER], **options)
    assert parquet.read_table(ours.out).equals(parquet.read_table(local.out))
    assert ours[:2] == local[:2] == (len(contents) - 2, 2)
    assert skipped(ours) == skipped(local)
    assert not ours.out.with_name("beam.parquet.parts").exists()


def test_only_missing_parts_are_scored(beam, version, encoded, write, tmp_path, monkeypatch):
    """Parts are done in any order; one that is written is left as it is."""
    inputs, out = write("folder", encoded), tmp_path / "out.parquet"
    written, write_part = [], Parts.write

    def fail_at_part_one(parts, index, *args):
        if index == 1 and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise OSError("no room")
        written.append(index)
        write_part(parts, index, *args)

    monkeypatch.setattr(Parts, "write", fail_at_part_one)
    with pytest.raises(Exception, match="no room"):
        beam.predict_files(version, inputs, out, [RUNNER], part_rows=5)
    before, kept = [*written], sorted(path.name for path in tmp_path.glob("*.parts/part-*"))
    assert 1 not in before
    summary = beam.predict_files(version, inputs, out, [RUNNER], part_rows=5)
    assert sorted(written) == [0, 1, 2, 3, 4]
    assert len(kept) == len(before)
    assert parquet.read_table(summary.out)["input"].to_pylist() == [
        f"{i:03d}.png" for i in range(len(encoded))
    ]


def test_a_worker_with_another_model_stops(beam, version):
    with pytest.raises(RuntimeError, match="expected the one with the hash another on all workers"):
        beam._ScorerHandler((str(version),), "another", 5).load_model()


def test_parts_that_went_elsewhere_are_an_error(
    beam, version, encoded, write, tmp_path, monkeypatch
):
    monkeypatch.setattr(Parts, "write", lambda *_: None)
    with pytest.raises(RuntimeError, match="1 of 1 parts are missing"):
        beam.predict_files(version, write("folder", encoded), tmp_path / "out.csv", [RUNNER])


class Recorded(Parts):
    """Parts that keep a file for each process that wrote one."""

    def write(self, *args):
        (self.folder.parent / f"{os.getpid()}.process").touch()
        super().write(*args)


def test_two_processes_give_the_rows_of_the_local_command(
    beam, tmp_path, project_root, monkeypatch
):
    """With a published entry that was exported."""
    import tensorflow as tf

    pixels = np.random.default_rng(0).integers(0, 256, [IMAGES, 32, 32, 3], dtype=np.uint8)
    contents = [tf.io.encode_png(each).numpy() for each in pixels]
    contents[7] = contents[7][:100]
    inputs = write_records(tmp_path / "x.tfrecord", contents, (i % 100 for i in range(IMAGES)))
    folder = export.save(zoo.load("wrn_10_2_s2.s2d.cifar100"), tmp_path / "exported")
    options = {"batch_size": 32, "part_rows": 50}
    local = prediction.predict_files(
        prediction.open_scorer(folder), inputs, tmp_path / "local.parquet", **options
    )
    monkeypatch.setenv("PYTHONPATH", str(project_root))
    monkeypatch.setattr(predict, "Parts", Recorded)
    ours = beam.predict_files(folder, inputs, tmp_path / "beam.parquet", TWO_WORKERS, **options)
    processes = {int(path.stem) for path in tmp_path.glob("*.process")}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert ours[:2] == local[:2] == (IMAGES - 1, 1)
    assert parquet.read_table(ours.out).equals(parquet.read_table(local.out))
    assert skipped(ours) == skipped(local)


def test_the_command(beam, version, encoded, write, tmp_path, capsys):
    arguments = ["predict", str(version), str(write("folder", encoded))]
    assert cli.main([*arguments, f"--out={tmp_path / 'local.csv'}", "--top_k=2"]) == 0
    out = tmp_path / "beam.csv"
    assert cli.main([*arguments, f"--out={out}", "--top_k=2", f"--beam={RUNNER}"]) == 0
    assert f"Wrote {len(encoded)} rows to {out}" in capsys.readouterr().out
    assert out.read_bytes() == (tmp_path / "local.csv").read_bytes()


def test_without_beam_the_command_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "s2d_tf.trainers.scoring.beam", raising=False)
    monkeypatch.delattr(prediction, "beam", raising=False)
    assert cli.main(["predict", "x", "y", f"--out={tmp_path / 'x.csv'}", "--beam="]) == 1
    assert "Run `pip install 's2d_tf[beam]'`" in capsys.readouterr().err
