"""What the README and the examples say works, works."""

import pathlib
import re
import subprocess
import sys

import pytest

from s2d_tf import zoo

# These two have tests of their own, in tests/examples.
FOLDER = pathlib.Path(__file__).parents[1] / "examples"
EXAMPLES = sorted({path.stem for path in FOLDER.glob("*.py")} - {"text_intents", "s2d_in_one_file"})


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_readme_snippets_run_in_order(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks((project_root / "README.md").read_text(encoding="utf-8"), "python"))
    assert "S2DClassifier" in code
    assert "predict_uncertainty" in code
    assert code.count("epochs=10") == 1
    code = code.replace("epochs=10", "epochs=2")
    names = {}
    exec(compile(code, "README.md", "exec"), names)  # our own words, run as a reader would
    assert names["answer"]["probs"].shape == (4, 8)
    assert (names["answer"]["knowledge"] >= 0).all()
    assert (tmp_path / "exported" / "digits" / "1" / "saved_model.pb").is_file()


def test_readme_links_lead_somewhere(project_root):
    text = (project_root / "README.md").read_text(encoding="utf-8")
    local = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert local
    for link in local:
        assert (project_root / link.split("#")[0]).exists(), link


def test_the_results_are_rounded_as_s2d_list_rounds_them(project_root):
    text = (project_root / "README.md").read_text(encoding="utf-8")
    for title, method in (("plain", "individual"), ("S2D", "s2d")):
        (row,) = re.findall(
            rf"^\| {title} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) ", text, re.MULTILINE
        )
        listed = zoo.listing([f"fast_resnet.{method}.cifar100_plus"]).splitlines()[1].split()
        assert listed[1:4] == [f"{row[0]}%", row[1], f"{row[2]}%"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(project_root, name):
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py"],
        cwd=project_root,
        env={"PYTHONPATH": str(project_root), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()
