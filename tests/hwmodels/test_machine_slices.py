"""Parts of a GPU that are sold or set as a machine of their own: NVIDIA's slices, AMD's dies."""

from __future__ import annotations

import pytest

from slipstick.common.errors import InputError
from slipstick.hwmodels.catalog import machine


@pytest.mark.parametrize(
    ("name", "cores", "eighths"),
    [
        ("a100-sxm-80gb 1g.10gb", 14, 1), ("A100-80GB:3g.40gb", 42, 4), ("a100-pcie-40gb-2g.10gb", 28, 2),
        ("h100-sxm 1g.10gb", 16, 1), ("h100-sxm 3g.40gb", 60, 4), ("a30 2g.12gb", 28, 4),
    ],
)  # fmt: skip
def test_slices_are_those_of_the_guide(name: str, cores: int, eighths: int) -> None:
    """Multi-Instance GPU User Guide: 14 multiprocessors a slice of an A100, eighths of memory and cache."""
    part = machine(name)
    whole = part.stated
    assert part.cores == cores
    for level in (whole.main_memory, "L2"):
        assert part.memory[level].capacity == pytest.approx(whole.memory[level].capacity * eighths / 8)
    assert part.bandwidth(part.main_memory) == pytest.approx(whole.bandwidth(whole.main_memory) * eighths / 8)


@pytest.mark.parametrize(
    "name",
    [
        "v100-pcie 1g.10gb",
        "h100-sxm 1g.100gb",
        "h100-sxm 7g.10gb",
        "rtx-3090 1g.3gb",
        "h100-sxm 1g.0gb",
        "mi300x 1g.10gb",
        "nothing 1g.10gb",
    ],
)
def test_what_has_no_slices_says_so(name: str) -> None:
    with pytest.raises(InputError, match="no slice|unknown machine"):
        machine(name)


def test_a_die_of_an_mi300x_is_a_partition_of_it() -> None:
    """AMD's CPX mode: eight partitions of 38 compute units and 24 GB."""
    part = machine("mi300x").using({"dies.count": 1})
    assert part.cores == 38
    assert part.memory["HBM3"].capacity == 24e9
    assert part.memory["L2"].capacity == 4 * 2**20
