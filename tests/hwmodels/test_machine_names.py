"""Machines are found by the names that people and profilers give them."""

import pytest

from slipstick.common.errors import InputError
from slipstick.hwmodels.catalog import aliases, machine, machine_of_device
from slipstick.hwmodels.catalog.names import tokens


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100", "H100 SXM5 80 GB"),
        ("h100_sxm", "H100 SXM5 80 GB"),
        ("A100-80GB", "A100 SXM4 80 GB"),
        ("a100 40gb", "A100 SXM4 40 GB"),
        ("MI300X", "Instinct MI300X"),
    ],
)
def test_people_write_names_in_many_ways(written: str, name: str) -> None:
    assert machine(written).name.split()[0] == name.split()[0]
    assert machine(written).name == machine(written.lower()).name


@pytest.mark.parametrize(
    ("device", "name"),
    [  # as profilers write them
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA L4", "l4"),
        ("Tesla V100-DGXS-32GB", "v100-sxm"),
        ("Tesla V100-PCIE-16GB", "v100-pcie"),
        ("Tesla P100-PCIE-16GB", "p100-pcie"),
        ("Tesla T4", "t4"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI250X", "mi250x-gcd"),
        ("AMD Instinct MI250", "mi250-gcd"),
    ],
)
def test_devices_of_profilers(device: str, name: str) -> None:
    found = machine_of_device(device)
    assert found is not None and found.name == machine(name).name


def test_unknown_devices_are_none() -> None:
    assert machine_of_device("Quantum Thing 9") is None


def test_no_two_machines_share_an_alias() -> None:
    seen: dict[frozenset[str], str] = {}
    for name, own in aliases().items():
        for one in {tokens(text) for text in own}:
            assert seen.setdefault(one, name) == name, (sorted(one), name, seen[one])


@pytest.mark.parametrize(("written", "first"), [("H1000", None), ("h100-sxm5-96gb", "h100-sxm"), ("v100x", "v100")])
def test_what_is_suggested_shares_the_model(written: str, first: str | None) -> None:
    with pytest.raises(InputError) as caught:
        machine(written)
    hint = str(caught.value).partition("(known")[0]
    assert "mi100" not in hint
    assert first is None or first in hint


def test_several_machines_where_one_is_wanted() -> None:
    with pytest.raises(InputError, match="'L4,A100': want one machine, not several"):
        machine("L4,A100")


ON_BOXES = {
    "Jetson Orin": ("jetson-agx-orin", 42.5), "DGX Spark": ("dgx-spark", 125.0), "GB10": ("dgx-spark", 125.0),
    "Strix Halo": ("strix-halo", 59.4), "Ryzen AI Max+ 395": ("strix-halo", 59.4),
    "GeForce RTX 5060 Ti": ("rtx-5060-ti", 47.4), "R9700": ("radeon-ai-pro-r9700", 191.0),
    "TPU v7": ("tpu-v7", 2307.0), "Ironwood": ("tpu-v7", 2307.0),
}  # fmt: skip
"""Names on boxes, the machine, and its 16-bit TFLOP/s (products, no sparsity) as its maker states or implies them."""


@pytest.mark.parametrize(("name", "meant"), ON_BOXES.items())
def test_machines_under_the_names_on_their_boxes(name: str, meant: tuple[str, float]) -> None:
    found, tera = machine(name), meant[1]
    assert found == machine(meant[0])
    kind = "float16" if "float16" in found.engines["matrix"].flop_per_cycle else "bfloat16"
    assert found.peak("matrix", kind) / 1e12 == pytest.approx(tera, rel=0.01)


def test_what_apple_does_not_state_stays_out() -> None:
    assert [set(machine(name).engines) for name in ("M5", "M5 Max")] == [{"vector"}, {"vector"}]


def test_the_bandwidth_of_memory_has_the_memory_s_name() -> None:
    with pytest.raises(InputError, match="did you mean 'memory.HBM3.bandwidth'"):
        machine("h100-sxm").using({"memory.bandwidth": 1e12})
