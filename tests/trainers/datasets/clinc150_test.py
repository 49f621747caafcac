"""The sentences of CLINC150, on a small file of the same layout."""

import hashlib
import json

import numpy as np
import pytest

from s2d_tf import data
from s2d_tf.trainers.datasets import clinc150

FAKE = {
    "train": [["how do i say no in french", "translate"], ["wake me at 7", "alarm"]] * 2,
    "val": [["set an alarm", "alarm"]],
    "test": [["what is cheese in german", "translate"], ["naïve café", "order"]],
    "oos_train": [["who won", "oos"]],
    "oos_val": [["how far is the moon", "oos"]],
    "oos_test": [["write a poem", "oos"], ["why is the sky blue", "oos"]],
}
ORACLE = {"alarm": 2, "translate": 131, "order": 80, "oos": -1}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "clinc150" / "data_full.json"
    path.parent.mkdir()
    path.write_text(json.dumps(FAKE), encoding="utf-8")
    monkeypatch.setattr(clinc150, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return tmp_path


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("name", ["clinc150", "clinc150_oos"])
def test_sentences_and_labels_are_those_of_the_file(folder, name, split):
    part = ("oos_" if name.endswith("oos") else "") + split.replace("validation", "val")
    sentences, labels = data.load_arrays(name, split, folder)
    assert sentences.tolist() == [sentence for sentence, _ in FAKE[part]]
    assert labels.tolist() == [ORACLE[intent] for _, intent in FAKE[part]]
    assert labels.dtype == np.int64
    pairs = list(data.load(name, split, folder).as_numpy_iterator())
    assert [text.decode() for text, _ in pairs] == sentences.tolist()
    with pytest.raises(ValueError, match="received 'train_without_validation'"):
        data.load_arrays(name, "train_without_validation", folder)


def test_missing_and_changed_files_are_rejected(tmp_path, folder):
    with pytest.raises(data.MissingDataError, match=r"Put it there from https://.*--data_dir"):
        data.fetch("clinc150", tmp_path / "empty")
    path = folder / "clinc150" / "data_full.json"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(data.ArchiveError, match=r"expected SHA256 .*get it again") as error:
        data.load_arrays("clinc150_oos", "test", folder)
    assert "\n" not in str(error.value)
