"""A small zoo of networks whose weights were never trained."""

import json
import shutil

import pytest

from s2d_tf import files
from s2d_tf.trainers.publishing import provenance
from s2d_tf.zoo import entries, networks, recipes, weights
from s2d_tf.zoo.entries import CARD, ENTRY, GOLDEN

ENSEMBLE = "wrn_10_2_s2.s2d_ensemble.digits"
SINGLE, MONTE_CARLO = "wrn_10_2_s2.s2d.digits", "wrn_10_2_s2.s2d_mc.digits"


def make_entry(folder, name, members=1):
    """An entry beside the single model, to whose weights it refers."""
    recipe = recipes.resolve(name).replace(num_members=max(members, 2) if name != SINGLE else 1)
    built = [networks.build_network(recipe, seed) for seed in range(members)]
    predictor = networks.build_predictor(recipe, built)
    (folder / name).mkdir()
    items = []
    for seed, network in enumerate(built):
        refers = seed == 0 and name != SINGLE
        path = (
            folder / (SINGLE if refers else name) / f"{'member_1' if seed else 'model'}.safetensors"
        )
        if not refers:
            weights.save(network, path, half=True)
        weights.load(network, path)
        item = entries.WeightsFile(
            path.name, files.sha256(path), "float16", seed, "0" * 64, SINGLE if refers else None
        )
        items.append(item)
    files.write_json(folder / name / GOLDEN, provenance.golden_answers(predictor))
    record = entries.Record(
        name=name,
        recipe=recipe,
        preprocessing=entries.preprocessing(recipe),
        class_names=recipe.class_names,
        kind=predictor.kind,
        num_members=predictor.num_members,
        parameters=predictor.num_parameters,
        weights=tuple(items),
        golden=entries.EntryFile(GOLDEN, files.sha256(folder / name / GOLDEN)),
        metrics={
            "digits/accuracy": 0.125,
            "digits/nll": 2.0,
            "digits/ece": 0.01,
            "cost/relative_inference_time": 1.0,
        },
        spread={"digits/accuracy": {"mean": 0.125, "stddev": 0.01, "seeds": 3}},
        provenance={"split": "train", "seeds": list(range(members))},
        inputs=predictor.contract.to_dict(),
    )
    files.write_text(folder / name / ENTRY, record.to_json())
    files.write_text(folder / name / CARD, f"# {name}\n")


@pytest.fixture(scope="session")
def small_zoo(tmp_path_factory):
    """A single model in half precision, an ensemble and a Monte Carlo entry that refer to it."""
    folder = tmp_path_factory.mktemp("zoo")
    make_entry(folder, SINGLE)
    make_entry(folder, ENSEMBLE, members=2)
    make_entry(folder, MONTE_CARLO)
    return folder


@pytest.fixture
def entry(small_zoo, tmp_path):
    """A copy of the single model's folder."""
    shutil.copytree(small_zoo / SINGLE, tmp_path / SINGLE)
    return tmp_path / SINGLE


def change(folder, **changes):
    path = folder / ENTRY
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
