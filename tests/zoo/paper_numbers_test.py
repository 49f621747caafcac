"""The numbers of recipes: the paper's, the original authors', and ours where they are marked."""

import operator
import re
import shlex
import subprocess

import pytest

from s2d_tf.trainers import training
from s2d_tf.zoo import recipes
from s2d_tf.zoo.runs import snapshot_epoch

SGD = {
    "training.learning_rate": 0.1,
    "training.schedule": "steps",
    "training.momentum": 0.9,
    "training.nesterov": True,
    "num_classes": 100,
}
NETWORKS = {
    "training.epochs": (300, 200),
    "data.batch_size": (64, 128),
    "training.milestones": ((0.5, 0.75), (60, 120, 160)),
    "training.factor": (0.1, 0.2),
    "training.weight_decay": (1e-4, 5e-4),
    "data.mean": ((129.3, 124.1, 112.4), (125.3, 123.0, 113.9)),
    "data.stddev": ((68.2, 65.4, 70.4), (63.0, 62.1, 66.7)),
    "data.padding": ("mean", "reflect"),
    "backbone": ("densenet_bc", "wide_resnet"),
    "arguments": ({"depth": 100, "growth_rate": 12}, {"depth": 28, "width": 10}),
    "parameters": (800_032, 36_536_884),
}
DENSENET, WRN = (SGD | {key: pair[i] for key, pair in NETWORKS.items()} for i in range(2))
WRN["model.dropout"] = 0.3
S2D = {
    "learns": "self",
    "model.num_samples": 5,
    "model.temperature": 1.5,
    "model.student_weight": 1.28e-4,
    "model.student_loss": "kl",
}
SWAG = {
    "training.epochs": 20,
    "training.learning_rate": 1e-4,
    "training.schedule": "constant",
    "num_members": 5,
    "draws": "swag",
}
H2D = {"learns": "teachers", "teachers": "s2d_ensemble", "start.method": "s2d"}
PLAIN, AUGMENTED = {"data.augmentation": "none"}, {"data.augmentation": "mirror_shift"}
NUMBERS = {
    "densenet_bc_100_12.individual.cifar100": DENSENET | PLAIN | {"model.dropout": 0.2},
    "densenet_bc_100_12.individual.cifar100_plus": DENSENET | AUGMENTED | {"model.dropout": 0.0},
    "densenet_bc_100_12.s2d.cifar100": DENSENET | S2D | PLAIN,
    "densenet_bc_100_12.s2d.cifar100_plus": DENSENET | S2D | AUGMENTED | {"model.dropout": 0.0},
    "densenet_bc_100_12.mimo.cifar100": DENSENET | {"heads": 2, "learns": "labels"},
    "densenet_bc_100_12.s2d_mimo.cifar100": DENSENET | S2D | {"heads": 2},
    "densenet_bc_100_12.swag.cifar100": SWAG | {"start.method": "individual", "start.at": 1.0},
    "densenet_bc_100_12.s2d_swag.cifar100_plus": S2D | SWAG | {"start.method": "s2d"},
    "densenet_bc_100_12.mc.cifar100": DENSENET | {"draws": "dropout", "num_members": 5},
    "densenet_bc_100_12.s2d_mc.cifar100": DENSENET | S2D | {"draws": "dropout"},
    "densenet_bc_100_12.ensemble.cifar100": {"num_members": 5, "member": "individual"},
    "densenet_bc_100_12.s2d_ensemble.cifar100": {"num_members": 5, "member": "s2d"},
    "densenet_bc_100_12.end.cifar100": DENSENET
    | {"teachers": "ensemble", "objective": "soft_cross_entropy"},
    "densenet_bc_100_12.en2d.cifar100": {"objective": "dirichlet_negative_log_likelihood"},
    "densenet_bc_100_12.h2d_dir.cifar100": H2D
    | {
        "training.epochs": 150,
        "training.learning_rate": 5e-5,
        "training.schedule": "constant",
        "training.weight_decay": 1e-4,
        "objective": "dirichlet_kl_divergence",
        "model.reverse": False,
        "model.distribution_weight": None,
    },
    "densenet_bc_100_12.h2d_gauss.cifar100": H2D
    | {
        "training.epochs": 170,
        "training.learning_rate": 5e-3,
        "training.schedule": "steps",
        "training.milestones": (75, 150),
        "training.factor": 0.5,
        "objective": "normal_kl_divergence",
        "model.num_draws": 50,
        "model.distribution_weight": None,
    },
    "wrn_28_10.individual.cifar100": WRN | PLAIN,
    "wrn_28_10.mc.cifar100_plus": WRN | AUGMENTED | {"draws": "dropout"},
    "wrn_28_10.s2d.cifar100": WRN | S2D | {"model.noise_stddev": 0.1},
    "wrn_28_10.h2d_gauss.cifar100_plus": H2D
    | {
        "training.epochs": 80,
        "training.learning_rate": 2e-3,
        "training.schedule": "steps",
        "training.milestones": (60,),
        "training.factor": 0.25,
        "model.num_draws": 50,
    },
}


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers_of_the_paper_and_the_original_authors(name):
    recipe = recipes.resolve(name)
    found = {key: operator.attrgetter(key)(recipe) for key in NUMBERS[name]}
    assert found == NUMBERS[name]


@pytest.mark.parametrize("method", ["h2d_dir", "h2d_gauss"])
def test_the_papers_students_start_from_s2d_at_epoch_150_and_leave_muon(method):
    for network in ("densenet_bc_100_12", "wrn_28_10"):
        recipe = recipes.resolve(f"{network}.{method}.cifar100")
        assert snapshot_epoch(recipe.sibling("s2d"), recipe.start.at) == 150
    recipe = recipes.resolve(f"fast_resnet_half.{method}.cifar100")
    assert (recipe.training.optimizer, recipe.training.schedule) == ("sgd", "cosine")
    assert recipe.training.learning_rate <= 5e-3
    assert recipe.training.epochs == recipe.sibling("h2d").training.epochs


def test_the_commands_of_the_study_of_our_students_are_right(project_root):
    """A shell expands them, with `s2d` as a function that prints what it is given."""
    text = (project_root / "docs" / "reproduce.md").read_text(encoding="utf-8")
    title = "Students on the fast network"
    (section,) = re.findall(rf"^## {title}\n(.*?)^## ", text, flags=re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    script = "\n".join(["s2d() { printf '%q ' \"$@\"; echo; }", *blocks])
    done = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    commands = [shlex.split(line) for line in done.stdout.splitlines()]
    assert {"train", "evaluate", "tune", "table"} == {command[0] for command in commands}
    for command, *words in commands:
        if command in ("train", "tune"):
            changes = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
            recipe = training.override(recipes.resolve(words[0]), changes)
            (teachers,) = [word for word in words if word.startswith("--teachers=")] or [""]
            if recipe.teachers:
                assert teachers.endswith(recipe.sibling(recipe.teachers).name)
