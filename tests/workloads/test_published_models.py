"""The published table's names and convention, on models whose rows can be checked by hand."""

from __future__ import annotations

import pytest

from slipstick.experiments.scoreboards.graphs.graphs_board import model_name, table_flop
from slipstick.workloads.catalog import workload


@pytest.mark.parametrize(
    ("section", "printed", "name"),
    [
        ("ImageNet-1K", "ResNet-18 x0.5", "resnet18_wd2"),
        ("ImageNet-1K", "SE-ResNeXt-101 (32x4d)", "seresnext101_32x4d"),
        ("ImageNet-1K", "RegNetY-1.6GF", "regnety016"),
        ("ImageNet-1K", "MobileNetV3 L/224/1.0", "mobilenetv3_large_w1"),
        ("ImageNet-1K", "EfficientNet-Edge-Small-b*", "efficientnet_edge_small_b"),
        ("ImageNet-1K", "352-MENet-12x1 (g=8)", "menet352_12x1_g8"),
        ("CIFAR-10", "PyramidNet-110 (a=84)", "pyramidnet110_a84_cifar10"),
        ("CIFAR-100", "X-DenseNet-BC-40-2 (k=24)", "xdensenet40_2_k24_bc_cifar100"),
        ("CUB-200-2011", "MobileNet x1.0", "mobilenet_w1_cub"),
        ("Cityscapes", "ICNet", None),
    ],
)
def test_printed_names_become_pytorchcv_s(section: str, printed: str, name: str | None) -> None:
    assert model_name(section, printed) == name


# osmr/imgclsmob, README: FLOPs / 2 of ResNet-50b 4,110.48 M, VGG-16 15,480.10 M, ResNet-18 1,820.41 M.
@pytest.mark.parametrize(("name", "half"), [("resnet50", 4110.48e6), ("vgg16", 15480.10e6), ("resnet18", 1820.41e6)])
def test_built_in_networks_have_the_table_s_flops_in_its_convention(name: str, half: float) -> None:
    assert table_flop(workload(f"{name}-inference").bind(batch=1)) / 2 == pytest.approx(half, rel=1e-4)
