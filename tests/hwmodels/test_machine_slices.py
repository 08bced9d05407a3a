"""Parts of a GPU that are sold or set as a machine of their own: NVIDIA's slices, AMD's dies."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.hwmodels.catalog import MIG, machine


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
    whole = machine(name[: MIG.fullmatch(name).end(1)])  # type: ignore[union-attr]
    assert part.cores == cores and part.stated == part
    for level in (whole.main_memory, "L2"):
        assert part.memory[level].capacity == pytest.approx(whole.memory[level].capacity * eighths / 8)
    assert part.bandwidth(part.main_memory) == pytest.approx(whole.bandwidth(whole.main_memory) * eighths / 8)
    assert not part.links, "the guide: no peer-to-peer between instances"
    assert part.source_of("price").startswith(whole.source_of("price"))


@pytest.mark.parametrize(
    "name",
    [
        "v100-pcie 1g.10gb",
        "h100-sxm 1g.100gb",
        "h100-sxm 7g.10gb",
        "rtx-3090 1g.3gb",
        "h100-sxm 1g.0gb",
        "h100-sxm 1g.12gb",
        "h100-sxm 3g.42gb",
        "mi300x 1g.10gb",
        "nothing 1g.10gb",
    ],
)
def test_what_has_no_slices_says_so(name: str) -> None:
    with pytest.raises(InputError, match="no slice|unknown machine"):
        machine(name)


@pytest.mark.parametrize(
    ("card", "sold"),
    [
        ("a30", "1g.6gb, 2g.12gb, 4g.24gb"),
        ("a100-sxm-40gb", "1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"),
        ("h100-sxm", "1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"),
        ("h100-nvl", "1g.12gb, 1g.24gb, 2g.24gb, 3g.47gb, 4g.47gb, 7g.94gb"),
        ("gh200", "1g.12gb, 1g.24gb, 2g.24gb, 3g.48gb, 4g.48gb, 7g.96gb"),
        ("h200-sxm", "1g.18gb, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb"),
        ("b200-sxm", "1g.23gb, 1g.45gb, 2g.45gb, 3g.90gb, 4g.90gb, 7g.180gb"),
        ("b300-sxm", "1g.34gb, 1g.67gb, 2g.67gb, 3g.135gb, 4g.135gb, 7g.269gb"),
    ],
)
def test_a_card_has_the_profiles_of_the_guide_and_no_others(card: str, sold: str) -> None:
    """Multi-Instance GPU User Guide, supported profiles; a B300's as its nodes list them."""
    for name in sold.split(", "):
        assert machine(f"{card} {name}").memory[machine(card).main_memory].capacity == float(name[3:-2]) * 1e9
        compute, size = name.split(".")
        for other in (int(size[:-2]) * 1.2 + 1, int(size[:-2]) * 0.9 - 1):
            if f"{compute}.{other:.0f}gb" not in sold:
                with pytest.raises(InputError, match=rf"no slice {compute}\.{other:.0f}gb: want 1g\.\d+gb, "):
                    machine(f"{card} {compute}.{other:.0f}gb")


@pytest.mark.parametrize(("name", "watts"), [("a100-sxm-80gb 1g.10gb", 400 / 7), ("a30 2g.12gb", 165 / 2)])
def test_slices_share_the_power_of_a_card(name: str, watts: float) -> None:
    """Data sheets: 400 and 165 W a card, which hold for all of its slices together."""
    part = machine(name)
    assert (part.power.cap, part.stated.power.cap) == pytest.approx((watts, watts))
    assert part.power.idle == pytest.approx(0.15 * watts)
    answer = ss.estimate("gemm", part)
    assert answer.energy is not None
    assert answer.energy <= watts * answer.time * 1.001


def test_a_die_of_an_mi300x_is_a_partition_of_it() -> None:
    """AMD's CPX mode: eight partitions of 38 compute units and 24 GB."""
    part = machine("mi300x").using({"dies.count": 1})
    assert part.cores == 38
    assert part.memory["HBM3"].capacity == 24e9
    assert part.memory["L2"].capacity == 4 * 2**20


def test_eight_dies_share_the_power_and_the_price_of_a_card() -> None:
    """750 W and 2.59 $/h of the catalogue; the same power and cost by a what-if, where the dies are an array's."""
    whole = machine("mi300x")
    part = whole.using({"dies.count": 1})
    assert (part.power.cap, part.stated.power.cap) == (750 / 8, 750 / 8)
    assert part.price == pytest.approx(whole.price / 8 if whole.price else None)
    varied, alone = ss.whatif("gpt2", "mi300x", ["machine.dies.count=1,8"]).rows()[0], ss.estimate("gpt2", part)
    assert varied["energy_J"] == pytest.approx(alone.energy, rel=1e-6)
    assert varied["cost_usd"] == pytest.approx(part.price * alone.time / 3600 if part.price else None)
