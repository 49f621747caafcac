"""Apache Beam gives the rows of the local command; `make test-beam` has an environment for it."""

import os

import numpy as np
import pytest
from pyarrow import parquet

from s2d_tf import export, zoo
from s2d_tf.trainers import scoring
from s2d_tf.trainers.scoring.predict import Job
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


def check_equal(ours, local):
    assert ours[:2] == local[:2]
    assert parquet.read_table(ours.out).equals(parquet.read_table(local.out))
    assert ours.skipped_list.read_bytes() == local.skipped_list.read_bytes()
    assert not ours.out.with_name(f"{ours.out.name}.parts").exists()


@pytest.mark.parametrize("kind", ["folder", "lines", "tfrecord", "parquet"])
def test_beam_writes_the_table_of_the_local_command(kind, beam, version, encoded, write, tmp_path):
    contents = [*encoded]
    contents[4], contents[11] = b"damaged", encoded[11][:60]
    inputs, options = write(kind, contents), {"top_k": 3, "batch_size": 3, "part_rows": 7}
    scorer = scoring.open_scorer(version)
    local = scoring.predict_files(scorer, inputs, tmp_path / "local.parquet", **options)
    ours = beam.predict_files(version, inputs, tmp_path / "beam.parquet", [RUNNER], **options)
    assert ours[:2] == (len(contents) - 2, 2)
    check_equal(ours, local)


def test_only_missing_parts_are_scored(beam, version, encoded, write, tmp_path, monkeypatch):
    """Parts are done in any order; one that is written is left as it is."""
    inputs, out = write("folder", encoded), tmp_path / "out.parquet"
    written, score_part = [], Job.score_part

    def fail_at_part_one(job, scorer, index, examples):
        if index == 1 and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise OSError("no room")
        written.append(index)
        return score_part(job, scorer, index, examples)

    monkeypatch.setattr(Job, "score_part", fail_at_part_one)
    with pytest.raises(Exception, match="no room"):
        beam.predict_files(version, inputs, out, [RUNNER], part_rows=5)
    assert 1 not in written
    summary = beam.predict_files(version, inputs, out, [RUNNER], part_rows=5)
    assert sorted(written) == [0, 1, 2, 3, 4]
    names = parquet.read_table(summary.out)["input"].to_pylist()
    assert names == [f"{i:03d}.png" for i in range(len(encoded))]


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
    scorer = scoring.open_scorer(folder)
    local = scoring.predict_files(scorer, inputs, tmp_path / "local.parquet", **options)
    monkeypatch.setenv("PYTHONPATH", str(project_root))

    def never_here(*_):
        raise AssertionError("expected the workers to score, not this process")

    monkeypatch.setattr(Job, "score_part", never_here)
    ours = beam.predict_files(folder, inputs, tmp_path / "beam.parquet", TWO_WORKERS, **options)
    assert ours[:2] == (IMAGES - 1, 1)
    check_equal(ours, local)
