"""The snippets of docs/zoo.md about weights files run as they are written."""

import re

import numpy as np

from s2d_tf import zoo

NAME = "wrn_10_2_s2.s2d.digits"


def test_reading_a_weights_file_with_the_plain_package_and_into_keras(project_root):
    text = (project_root / "docs" / "zoo.md").read_text(encoding="utf-8")
    section = text.split("## A weights file")[1].split("\n## ")[0]
    plain, keras, torch = re.findall(r"```py(?:thon)?\n(.*?)```", section, flags=re.DOTALL)
    names = {}
    exec(plain + keras, names)  # our own words, run as a reader would
    for ours, theirs in zip(names["model"].weights, zoo.load(NAME).weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    # PyTorch is not installed here; its snippet names arrays with the axes that it says.
    for name in re.findall(r'tensors\["(.*?)"\]', torch):
        assert name in names["arrays"]
    assert names["arrays"]["stem/kernel"].ndim == 4
    assert names["arrays"]["head/kernel"].shape[0] == 1
