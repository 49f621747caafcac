"""Datasets that only studies need: corrupted images, OpenOOD's lists, CLINC150.

They register themselves with `s2d_tf.data` when this package is imported. Nothing here imports
NumPy, so names cost nothing.
"""

import functools

from s2d_tf import data

from . import clinc150

MAIN_CORRUPTIONS = (
    "gaussian_noise", "shot_noise", "impulse_noise",
    "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness",
    "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
"""The fifteen over which the benchmark's mean is taken.

Names and order as published: Hendrycks and Dietterich, Benchmarking neural network robustness to
common corruptions and perturbations, ICLR 2019, and `ImageNet-C/create_c/make_cifar_c.py` of
https://github.com/hendrycks/robustness.
"""
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The four that were published beside them for validation."""
NOT_GENERATED = ("frost",)
"""It overlays photographs, and none with a free license comes with our dependencies."""
SEVERITIES = (1, 2, 3, 4, 5)

_MODULE = "s2d_tf.trainers.datasets"
_CIFAR100 = data.info("cifar100")
_CORRUPTED = functools.partial(
    data.DatasetInfo, image_shape=(32, 32, 3), splits={"test": 10_000}, num_classes=100,
    class_names=_CIFAR100.class_names, load=f"{_MODULE}.cifar100_c:load",
    fetch=f"{_MODULE}.cifar100_c:fetch",
    citation=f"{_CIFAR100.citation}; Hendrycks and Dietterich, Benchmarking neural network "
    "robustness, ICLR 2019",
)  # fmt: skip
_OPENOOD = functools.partial(
    data.DatasetInfo, image_shape=(32, 32, 3), load=f"{_MODULE}.openood:load",
    fetch=f"{_MODULE}.openood:open_builder",
)  # fmt: skip
_ZHANG = "Zhang et al., OpenOOD v1.5: enhanced benchmark for OOD detection, 2023"
_CLINC = functools.partial(
    data.DatasetInfo, load=f"{_MODULE}.clinc150:load", fetch=f"{_MODULE}.clinc150:read",
    citation="Larson et al., An evaluation dataset for intent classification, EMNLP 2019 "
    "(CC BY 3.0)",
)  # fmt: skip

for _record in (
    _CORRUPTED(name="cifar100_c_generated", title="CIFAR-100-C (generated)", conditions=tuple(
        f"{name}_{level}" for name in MAIN_CORRUPTIONS + EXTRA_CORRUPTIONS
        if name not in NOT_GENERATED for level in SEVERITIES
    )),
    _CORRUPTED(name="cifar100_c", title="CIFAR-100-C", conditions=tuple(
        f"{name}_{level}" for name in MAIN_CORRUPTIONS + EXTRA_CORRUPTIONS for level in SEVERITIES
    )),
    _OPENOOD(name="openood_tiny_imagenet", title="Tiny ImageNet (OpenOOD)", splits={"test": 6_526},
             distance="near",
             citation=f"{data.info('tiny_imagenet_resize').citation}; {_ZHANG}"),
    _OPENOOD(name="openood_mnist", title="MNIST", splits={"test": 70_000}, distance="far",
             citation="LeCun, Cortes and Burges, The MNIST database of handwritten digits, 1998; "
             f"{_ZHANG}"),
    _OPENOOD(name="openood_textures", title="Textures", splits={"test": 5_640}, distance="far",
             citation=f"Cimpoi et al., Describing textures in the wild, CVPR 2014; {_ZHANG}"),
    _OPENOOD(name="openood_places365", title="Places365", splits={"test": 33_773}, distance="far",
             citation="Zhou et al., Places: a 10 million image database for scene recognition, "
             f"TPAMI 2017; {_ZHANG}"),
    _CLINC(name="clinc150", title="CLINC150", num_classes=150, class_names=clinc150.CLASSES,
           splits={"train": 15_000, "validation": 3_000, "test": 4_500}),
    _CLINC(name="clinc150_oos", title="CLINC150 out-of-scope", distance="near",
           splits={"train": 100, "validation": 100, "test": 1_000}),
):  # fmt: skip
    data.register(_record)
