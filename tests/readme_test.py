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


DENSENET, PLUS, KNOWLEDGE = "densenet_bc_100_12_short.", ".cifar100_plus", ("", "knowledge")
# Rows of the table of results: the entry, what its keys begin with, and the score of detection.
NETWORKS = {
    "`fast_resnet`, plain": ("fast_resnet.individual.cifar100_plus", "", "total"),
    "the same, temperature-scaled": ("fast_resnet.individual.cifar100_plus", "scaled_", None),
    "`fast_resnet`, S2D": ("fast_resnet.s2d.cifar100_plus", "", "knowledge"),
    "`fast_resnet_half`, plain": ("fast_resnet_half.individual.cifar100", "", "total"),
    "three of them, an ensemble": ("fast_resnet_half.ensemble.cifar100", "", "total"),
    "H2D student of an S2D ensemble": ("fast_resnet_half.h2d.cifar100", "", "knowledge"),
    "DenseNet-BC-100-12, S2D: 20 of the paper's 300 epochs": (f"{DENSENET}s2d{PLUS}", *KNOWLEDGE),
    "its plain twin": (f"{DENSENET}individual{PLUS}", "", "total"),
}
SETS = ("cifar10", "tiny_imagenet_resize", "svhn_cropped", "tiny_imagenet_crop")


@pytest.fixture(scope="module")
def readme(project_root):
    return (project_root / "README.md").read_text(encoding="utf-8")


def test_readme_snippets_run_in_order(readme, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first, *others = blocks(readme, "python")
    names = {}
    exec(compile(first, "README.md", "exec"), names)  # our own words, run as a reader would
    printed, (stated,) = capsys.readouterr().out, blocks(readme, "text")
    number = r"\d+\.\d+"
    assert re.sub(number, "", printed).split() == re.sub(number, "", stated).split()
    values = [[float(value) for value in re.findall(number, text)] for text in (printed, stated)]
    assert values[0] == pytest.approx(values[1], abs=2e-3)
    code = "\n".join(others)
    assert code.count("epochs=10") == 1
    exec(compile(code.replace("epochs=10", "epochs=2"), "README.md", "exec"), names)
    assert names["answer"]["probs"].shape == (4, 8)
    assert (names["answer"]["knowledge"] >= 0).all()
    assert (tmp_path / "exported" / "cifar100" / "1" / "saved_model.pb").is_file()


def test_readme_states_the_numbers_of_the_records(readme):
    found = dict(re.findall(r"^\| (.*?) \| (\d \| \d.*?) \|$", readme, re.MULTILINE))
    assert set(found) == set(NETWORKS)
    for title, (name, prefix, score) in NETWORKS.items():
        record = zoo.entry(name).record
        values = [str(record.num_members), f"{record.metrics['cifar100/accuracy']:.1%}"]
        values.append(f"{record.metrics[f'cifar100/{prefix}nll']:.3f}")
        values.append(f"{record.metrics[f'cifar100/{prefix}ece']:.1%}")
        values += [f"{record.metrics[f'{s}/auroc/{score}']:.1%}" if score else "" for s in SETS]
        assert [c.strip() for c in found[title].split("|")] == [v.strip("%") for v in values], name


def test_readme_states_the_times_of_the_records(readme):
    said = r"`fast_resnet` in (\d+) min.*?_half` in (\d+),.*?took (\d+) more.*?-BC took (\d+),"
    stated = re.search(said, " ".join(readme.split())).groups()
    for minutes, row in zip(stated, (2, 3, 5, 6), strict=True):
        name, *_ = list(NETWORKS.values())[row]
        assert int(minutes) == round(zoo.entry(name).record.provenance["training_seconds"] / 60)


def test_readme_links_lead_somewhere(readme, project_root):
    local = [link for link in re.findall(r"\]\(([^)]+)\)", readme) if "://" not in link]
    assert {f"docs/{path.name}" for path in (project_root / "docs").glob("*.md")} <= set(local)
    for link in local:
        assert (project_root / link.split("#")[0]).exists(), link


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
