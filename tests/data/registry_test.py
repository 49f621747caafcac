import dataclasses

import pytest

from s2d_tf import data

DESIGN = (
    "cifar100",
    "cifar10",
    "svhn_cropped",
    "tiny_imagenet_resize",
    "tiny_imagenet_crop",
    "odin_lsun_resize",
    "odin_lsun_crop",
    "odin_tiny_imagenet_resize",
    "odin_tiny_imagenet_crop",
    "digits",
)
PAPER_TABLE = {"cifar100": (50_000, 10_000, 100), "svhn_cropped": (None, 26_032, 10)}


def test_all_public_names_exist():
    assert all(hasattr(data, name) for name in data.__all__)
    assert set(data.__all__) <= set(dir(data))
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        data.lod  # noqa: B018


def test_every_name_of_the_design_is_known():
    for name in DESIGN:
        assert data.info(name).name == name


def test_sizes_are_those_of_the_paper():
    for name, (train, test, classes) in PAPER_TABLE.items():
        record = data.info(name)
        assert record.splits["test"] == test
        assert record.num_classes == classes
        assert train is None or record.splits["train"] == train
    for name in data.names():
        if ("lsun" in name or "tiny" in name) and "openood" not in name:
            assert data.info(name).splits["test"] == 10_000
    assert data.info("tiny_imagenet_resize").num_classes == 200


@pytest.mark.parametrize("name", data.names())
def test_records_are_consistent(name):
    record = data.info(name)
    assert len(record.image_shape) == (0 if record.name.startswith("clinc150") else 3)
    assert record.class_names is None or len(set(record.class_names)) == record.num_classes
    assert "test" in record.splits
    assert record.citation
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.name = "other"


def test_an_unknown_name_lists_the_near_ones():
    with pytest.raises(ValueError, match=r"received 'cifar_100'\. Did you mean .*cifar100"):
        data.info("cifar_100")
    with pytest.raises(ValueError, match=r"expected one of .*svhn_cropped"):
        data.load("zzz", "test")


def test_names_need_no_tensorflow(run_python):
    code = (
        "import sys; from s2d_tf import data; data.info('digits'); "
        "print('tensorflow' in sys.modules)"
    )
    assert run_python("-c", code).stdout.strip() == "False"
