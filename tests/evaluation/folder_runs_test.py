"""From a folder of images to a served model, as a person does it at the command line."""

import json

import numpy as np
import pytest
from absl import flags
from PIL import Image

from s2d_tf import backbones, cli, data, evaluation, zoo
from s2d_tf.evaluation import figures
from tests.evaluation.conftest import NO_TIMES
from tests.trainers.training import small_runs

CLASSES = ("dark", "light", "striped")
WIDE_RESNET = backbones.wide_resnet


def picture(kind, rng):
    pixels = rng.integers(0, 60, (10, 12, 3)) + {"dark": 20, "light": 180}.get(kind, 60)
    if kind == "striped":
        pixels[::2] += 100
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with a small network for it, an evaluated run, and what was printed."""
    root, rng = tmp_path_factory.mktemp("world"), np.random.default_rng(0)
    for kind in CLASSES:
        (root / "Stripes" / kind).mkdir(parents=True)
        for i in range(15):
            picture(kind, rng).save(root / "Stripes" / kind / f"{i}.png")
    (root / "noise").mkdir()
    for i in range(20):
        noise = rng.integers(0, 256, (30, 30, 3), dtype=np.uint8)
        Image.fromarray(noise).save(root / "noise" / f"{i}.jpg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backbones, "wide_resnet", small_runs.tiny)
        patch.setattr(*NO_TIMES)
        patch.setattr(figures, "DPI", 30)
        yield root
    flags.FLAGS.unparse_flags()


@pytest.fixture(scope="module")
def trained(world):
    """The run directory of two epochs of S2D."""
    places = f"--data={world / 'Stripes'}", f"--workdir={world / 's2d'}"
    command = ["train", "wrn_10_2_s2.s2d", *places, "--epochs=2", "--strategy=one_device"]
    assert cli.main(command) == 0
    return world / "s2d"


@pytest.fixture(scope="module")
def evaluated(world, trained):
    """What `s2d evaluate` writes."""
    return evaluation.evaluate_run(trained, log=lambda _: None, ood=[str(world / "noise")])


def test_metrics_are_those_of_the_test_images(world, trained, evaluated):
    predictor = zoo.open_model(trained).predictor
    assert predictor.class_names == CLASSES
    images, labels = data.open_folder(world / "Stripes").load_arrays("test")
    probs = predictor.predict_uncertainty(images)["probs"]
    assert evaluated["stripes/accuracy"] == pytest.approx((probs.argmax(-1) == labels).mean())
    nll = -np.log(probs[np.arange(len(labels)), labels]).mean()
    assert evaluated["stripes/nll"] == pytest.approx(nll, rel=1e-4)
    assert (evaluated["data/stripes/images"], evaluated["data/noise/images"]) == (9, 20)
    assert "noise/auroc/knowledge" in evaluated
    assert json.loads((trained / "metrics.json").read_text()) == evaluated
    folders = world / "Stripes", {"noise": world / "noise"}
    same = evaluation.evaluate(predictor, *folders, name="stripes")
    assert {key: evaluated[key] for key in same} == same


def test_a_folder_that_has_moved(world, trained, evaluated, capsys):
    moved = world / "elsewhere"
    (world / "Stripes").rename(moved)
    try:
        assert cli.main(["evaluate", str(trained)]) == 1
        assert f"{world / 'Stripes'}: expected a folder" in capsys.readouterr().err
        assert cli.main(["evaluate", str(trained), f"--data={moved}"]) == 0
    finally:
        moved.rename(world / "Stripes")
    again = json.loads(capsys.readouterr().out)
    assert again["stripes/nll"] == evaluated["stripes/nll"]
    # What was detected before still is, from the cache.
    assert again["noise/auroc/total"] == evaluated["noise/auroc/total"]
    assert again["time/forward_seconds"] == 0


@pytest.mark.usefixtures("evaluated")
def test_the_report_and_a_comparison(world, trained, capsys):
    assert cli.main(["report", str(trained), f"--out={world / 'report'}"]) == 0
    page = (world / "report" / "report.html").read_text(encoding="utf-8")
    assert "wrn_10_2_s2 on stripes: test performance" in page
    assert "OOD detection results (noise)" in page
    assert "The paper" not in page
    assert page.count("<img ") == 4  # histograms, reliability, a curve and risk
    capsys.readouterr()
    assert cli.main(["compare", str(trained), str(trained), "--bootstrap=5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"stripes", "noise"} <= {line.partition(" ")[0] for line in lines}


@pytest.mark.usefixtures("no_times")
def test_an_entry_on_a_folder_of_some_of_its_classes(tmp_path, monkeypatch, capsys):
    images, labels = data.load_arrays("digits", "test")
    for label in (2, 5):
        for i, image in enumerate(images[labels == label][:12]):
            path = tmp_path / "two five" / ("test" if i < 10 else "train") / str(label) / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0]).save(path)
    monkeypatch.setattr(backbones, "wide_resnet", WIDE_RESNET)
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    name, folder = "wrn_10_2_s2.s2d.digits", f"--data={tmp_path / 'two five'}"
    assert cli.main(["evaluate", name, folder]) == 0
    found = json.loads(capsys.readouterr().out)
    model = zoo.open_model(name).predictor
    chosen = np.concatenate([images[labels == label][:10] for label in (2, 5)])
    probs = model.predict_uncertainty(chosen)["probs"]
    expected = (probs.argmax(-1) == np.repeat([2, 5], 10)).mean()
    assert found["two_five/accuracy"] == pytest.approx(expected)
    assert found["data/two_five/images"] == 20
    assert cli.main(["evaluate", name, folder, "--bootstrap=5"]) == 1
    assert "on all data of the run" in capsys.readouterr().err


def test_ood_data_that_is_asked_for_is_not_passed_over(world, trained, capsys):
    assert cli.main(["evaluate", str(trained), "--ood=svhn"]) == 1
    assert "expected a dataset's name or a folder of images" in capsys.readouterr().err
    twice = [f"--ood={world / 'noise'}", f"--ood={world / 'Stripes' / '..' / 'noise'}"]
    assert cli.main(["evaluate", str(trained), *twice]) == 1
    assert "received 'noise' twice" in capsys.readouterr().err
