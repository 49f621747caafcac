"""What the site is made of, without building it: its pages, their code and their pictures."""

import contextlib
import importlib
import importlib.util
import io
import json
import re

import numpy as np
import pytest

from s2d_tf import posthoc, zoo
from s2d_tf.export import signatures

# Pages whose models are only loaded: what they print is on the page.
EXACT = ("detect", "evaluation", "serving", "uncertainty")
NAME = "wrn_10_2_s2.s2d.digits"
WORDS = re.compile(r"[A-Za-z]+")
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def run(text, names=None):
    """Executes a page's code; returns its names, and what each block prints with what is stated."""
    names, outputs = {} if names is None else names, []
    for kind, block in BLOCK.findall(text):
        if kind == "text":
            outputs[-1][1] = block
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "page", "exec"), names)  # our own words, run as a reader would
        outputs.append([printed.getvalue(), None])
    return names, outputs


@pytest.fixture
def page(project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("s2d_tf.posthoc.step._STEPS", posthoc.steps())  # a page adds one
    return lambda name: (project_root / "docs" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXACT)
def test_pages_print_what_they_say(page, name):
    _, outputs = run(page(name))
    assert any(stated for _, stated in outputs)
    for printed, stated in outputs:
        assert printed == (stated or ""), name


def test_the_zoo_page_reads_a_weights_file(page):
    names, outputs = run(page("zoo"))
    assert [stated for _, stated in outputs if stated] == [outputs[0][0]]
    for ours, theirs in zip(names["model"].weights, zoo.load(NAME).weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    # PyTorch is not installed here; its block names arrays with the axes that it says.
    assert set(re.findall(r'tensors\["(.*?)"\]', page("zoo"))) <= set(names["arrays"])
    assert names["arrays"]["stem/kernel"].ndim == 4
    assert names["arrays"]["head/kernel"].shape[0] == 1


def test_sentences_state_measured_numbers(page, project_root):
    def read(name):
        return json.loads((project_root / name).read_bytes())

    half = read("results/fast_network.json")["half_width"]
    plain, smoothed = (
        [f"{100 * row[key]:.1f}" for key in ("accuracy", "ece")]
        for row in half
        if (row["method"], row["precision"]) == ("individual", "bfloat16")
    )
    shift = {
        (model, metric, score): [100 * value for value in values if value is not None]
        for model, _, data, metric, score, *values in read("results/shift/shift.json")["rows"]
        if data == "cifar100_c_generated"
    }
    pair = "fast_resnet_half.s2d.cifar100 minus fast_resnet_half.individual.cifar100"
    low, middle, high = sorted(-value for value in shift[pair, "ece", ""])
    gains = [
        shift[model, metric, "total"][0] - value[0]
        for (model, metric, score), value in shift.items()
        if (metric, score) == ("error_auroc", "knowledge") and "minus" not in model
    ]
    suites = read("benchmarks/results.json")["suites"].values()
    ratio = {row["name"]: row["median"] for suite in suites for row in suite["rows"]}
    softmax = [
        ratio[f"uncertainties / softmax, {name}, batch 64"]
        for name in ("wrn_10_2_s2", "densenet_bc_100_12")
    ]
    steps = [ratio[key] - 1 for key in ratio if re.search("^S2D / plain .*_s2, batch 64", key)]
    stated = (
        ("zoo", f"accuracy from {plain[0]} to {smoothed[0]}%, but ECE from {plain[1]} to"),
        ("zoo", f"to {smoothed[1]}%, and its uncertainties"),
        ("evaluation", f"ECE is {middle:.1f} points lower ({low:.1f} to {high:.1f})"),
        ("evaluation", f"{min(gains):.1f} to {max(gains):.1f} points of AUROC better"),
        ("serving", f"{softmax[0]:.2f} of the time of a softmax with a compact network"),
        ("serving", f"network, {softmax[1]:.4f} with DenseNet-BC-100"),
        ("how-s2d-works", f"{min(steps):.0%} to {max(steps):.0%} longer"),
    )
    for name, words in stated:
        assert words in " ".join(page(name).split()), name


def test_the_page_on_steps_names_them_all(page):
    for name in posthoc.steps():
        assert f"`{name}" in page("detect"), name


def test_five_minutes(page):
    text = page("five-minutes")
    assert text.count("epochs=30") == 1
    names, outputs = run(text.replace("epochs=30", "epochs=1"))
    for printed, stated in outputs[1:-1]:
        assert printed == stated
    assert "Answers for 3 inputs" in outputs[-1][0]
    assert names["cast"].num_parameters == names["yours"].count_params()


def test_how_s2d_works(page):
    text = page("how-s2d-works")
    assert text.count("epochs=20") == 1
    names, outputs = run(text.replace("epochs=20", "epochs=1"))
    assert names["passes"].shape == (1, 5, 3)
    assert names["proxy"].shape == names["student"].shape == (1, 3)
    assert WORDS.findall(outputs[-1][0]) == WORDS.findall(outputs[-1][1])
    method = re.search(r"```python\n(@keras.*?)```", text, re.DOTALL)[1]
    assert method.count("\n") == 11


@pytest.mark.slow
@pytest.mark.parametrize("name", ["distill", "how-s2d-works"])
def test_trained_examples_print_about_what_they_say(page, name):
    printed, stated = run(page(name))[1][-1]
    assert WORDS.findall(printed) == WORDS.findall(stated)
    numbers = [[float(n) for n in re.findall(r"\d+\.\d+", text)] for text in (printed, stated)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=0.02)


def test_the_table_of_settings_is_that_of_the_results(page, project_root):
    text = page("how-s2d-works").split("### Noise and temperature")[1].split("\n#")[0]
    found = json.loads((project_root / "results" / "fast_network.json").read_bytes())["half_width"]
    titles = {"plain": found[0]} | {
        f"S2D, `T = {row['temperature']:g}`, noise up to {row['noise_stddev'][1]}": row
        for row in found
        if row.get("student_weight") == 1.28e-4
    }
    assert len(titles) == 4
    for title, row in titles.items():
        numbers = f"{row['accuracy']:.1%} | {row['nll']:.3f} | {row['ece']:.1%}"
        assert f"| {title} | {numbers} |" in text


def test_recipes_of_the_page_on_distillation_exist(page, project_root):
    table = page("distill").split("## By name")[1]
    stated = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row.split(", ")}
    methods = {f"`{path.stem}`" for path in (project_root / "zoo" / "methods").glob("*.toml")}
    assert stated
    assert stated <= methods


def test_names_and_times_of_the_page_on_serving(page, project_root):
    text = page("serving")
    for wire, name in signatures.OUTPUTS.items():
        assert f"| `{name}` | `{wire}` |" in text
    record = project_root / "results" / "version_0.1.0" / "runtimes.json"
    stated = re.findall(r"^\| (\w+) \| (\d+) \| ([\d.| ]+) \|$", text, re.MULTILINE)
    assert len(stated) == 4
    for row in json.loads(record.read_bytes())["rows"]:
        times = [row["ms"][name] for name in ("SavedModel", "ONNX Runtime", "LiteRT")]
        key, cells = (row["network"], str(row["batch"])), " | ".join(f"{t:.1f}" for t in times)
        assert key not in {s[:2] for s in stated} or (*key, cells) in stated


def test_scores_of_the_page_on_detection(page, project_root):
    """Means over the near and the far sets, from the rows of the two studies."""
    found = {}
    for study in ("detectors", "distance"):
        rows = json.loads((project_root / f"results/detectors/{study}.json").read_bytes())["rows"]
        for model, _, dataset, metric, score, value, *_ in rows:
            found[study, *model.split(".")[:2], dataset, metric, score] = 100 * value
    text, pair = page("detect"), ("individual", "s2d")
    near, far = ("cifar10", "tiny_imagenet_resize"), ("svhn_cropped", "tiny_imagenet_crop")

    def cell(study, score, kind):
        keys = [[(study, "fast_resnet", m, n, "auroc", score) for n in kind] for m in pair]
        own = [sum(map(found.get, each)) / 2 if {*each} <= found.keys() else None for each in keys]
        return " / ".join("-" if value is None else f"{value:.1f}" for value in own)

    listed = re.findall(r"^\| .* \| `(\w+)` \| ([\d./ -]+) \| ([\d./ -]+) \|.*\|$", text, re.M)
    assert len(listed) == 6
    for score, *stated in listed:
        assert stated == [cell("detectors", score.lower(), kind) for kind in (near, far)], score
    stepped = re.findall(r"^\| .*?([\d,]+) vectors \| (.*?) \| (.*?) \|$", text, re.M)
    assert len(stepped) == 3
    for size, *stated in stepped:
        score = f"knowledge_{size.replace(',', '')}"
        assert stated == [cell("distance", score, kind) for kind in (near, far)], score
    for score, stated in (("confidence", "6.5%"), ("total", "6.7%"), ("knn", "14.5%")):
        key = ("detectors", "fast_resnet", "individual", "cifar100", "aurc", score)
        assert (stated in text, f"{found[key]:.1f}%") == (True, stated)


def test_executed_notebooks_are_those_in_the_text(project_root):
    sources = sorted((project_root / "examples" / "notebooks").glob("*.py"))
    assert sources
    for source in sources:
        _, *parts = source.read_text(encoding="utf-8").split("\n# %%")
        cells = json.loads(source.with_suffix(".ipynb").read_bytes())["cells"]
        for part, cell in zip(parts, cells, strict=True):
            kind, _, text = part.partition("\n")
            if kind:
                text = re.sub("^# ?", "", text, flags=re.MULTILINE)
            stale = f"{source.stem}: run `python docs/site/notebooks.py {source.stem}`"
            assert "".join(cell["source"]).strip() == text.strip(), stale


def test_every_page_and_package_is_in_the_navigation(build, navigation, project_root):
    pages = {f"docs/{path.name}" for path in (project_root / "docs").glob("*.md")}
    api = {f"api/{name}.md" for name in build.packages()}
    assert pages | api <= set(navigation)
    assert len(navigation) == len(set(navigation))
    for name in set(navigation) - set(build.written()):
        assert (project_root / name).is_file(), name


def test_the_reference_has_every_public_name(build):
    for package in build.packages():
        module = importlib.import_module(f"s2d_tf.{package}")
        own = [
            name
            for name, value in vars(module).items()
            if name[0] != "_" and getattr(value, "__module__", "") == module.__name__
        ]
        found = build.public_names(package)
        assert set(found) == set(getattr(module, "__all__", own)), package
        for name, full in found.items():
            home, _, last = full.rpartition(".")
            value = getattr(importlib.import_module(home), last)
            assert value is getattr(module, name), full


def test_the_zoo_table_is_the_listing(build, page):
    table = build.zoo_table()
    assert table in page("zoo"), "run `python docs/site/build.py zoo`"
    for line in zoo.listing(zoo.names(pretrained=True)).splitlines()[1:]:
        if not line:
            break
        name, accuracy, nll, ece, parameters, time, _ = line.split(maxsplit=6)
        link = f"[{name}](../zoo/pretrained/{name}/README.md)"
        row = f"| {link} | {accuracy} | {nll} | {ece} | {parameters} | {time} |"
        assert row in table


def test_the_numbers_in_the_picture_are_those_on_the_page(page, load_script):
    pictures = load_script("docs/site/pictures.py")
    names, _ = run(page("uncertainty"))
    for row, concentrations in zip(names["concentrations"], pictures.KINDS.values(), strict=True):
        assert tuple(row.round(1)) == pytest.approx(concentrations)
    drawn = names["found"]
    for index, concentrations in enumerate(pictures.KINDS.values()):
        expected = [float(drawn[part][index]) for part in pictures.PARTS]
        assert pictures.parts_of(concentrations) == pytest.approx(expected)


def test_a_broken_link_ends_the_build(build, tmp_path):
    with pytest.raises(SystemExit, match=r"CHANGELOG.md: expected .* 'docs/nowhere.md'"):
        build.stage(tmp_path, [{"x": "CHANGELOG.md"}], {"CHANGELOG.md": "[x](docs/nowhere.md)"})
