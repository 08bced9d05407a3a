"""Processors of one kind of core whose prompts were timed: cores and base clocks of data sheets, by name.

Those with two kinds of cores, boards and virtual machines of unknown size are left out. Memory is not in the tables of
runs, so that generation on a processor is not fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

FLOP_PER_CYCLE = {
    "amd-zen2": 32, "amd-zen3": 32, "amd-zen4": 32, "amd-zen5": 64, "intel-sandy-bridge": 16, "intel-ivy-bridge": 16,
    "intel-haswell": 32, "intel-broadwell": 32, "intel-skylake": 32, "intel-skylake-sp": 64, "intel-cascade-lake": 64,
    "intel-tiger-lake": 32, "intel-rocket-lake": 32,
}  # fmt: skip
"""FP32 flop a cycle and core: two 256-bit multiply-adds (or one of 512 bits), two of 512 on servers since Skylake and
on Zen 5, an addition and a product of 256 bits before Haswell (optimisation guides of both makers)."""


@dataclass(frozen=True)
class Processor:
    """What a prompt's speed depends on: family as in the catalogue, cores, base clock in Hz."""

    name: str
    family: str
    cores: int
    clock: float

    @property
    def rate(self) -> float:
        """FP32 flop/s of all cores at the base clock."""
        return self.cores * self.clock * FLOP_PER_CYCLE[self.family]


_LISTED = {
    "amd-zen2": (
        ("Ryzen 7 4800H", 8, 2.9), ("Ryzen 7 4700U", 8, 2.0), ("Ryzen 9 3900X", 12, 3.8), ("Ryzen 7 4800U", 8, 1.8),
        ("Ryzen Threadripper PRO 3955WX", 16, 3.9), ("Ryzen 5 4600G", 6, 3.7), ("Ryzen 7 PRO 4750G", 8, 3.6),
        ("EPYC 7352", 24, 2.3),
    ),
    "amd-zen3": (
        ("Ryzen 9 5950X", 16, 3.4), ("Ryzen 7 5700X3D", 8, 3.0), ("Ryzen 7 5800X3D", 8, 3.4), ("Ryzen 7 5800X", 8, 3.8),
        ("Ryzen 5 5600X", 6, 3.7), ("Ryzen 9 5900HX", 8, 3.3), ("Ryzen 7 5700G", 8, 3.8), ("Ryzen 5 5600U", 6, 2.3),
        ("Ryzen 7 5800H", 8, 3.2), ("Ryzen 5 7535HS", 6, 3.3), ("Ryzen 7 7730U", 8, 2.0),
    ),
    "amd-zen4": (
        ("Ryzen 9 7940HS", 8, 4.0), ("Ryzen 7 7800X3D", 8, 4.2), ("Ryzen 9 7950X3D", 16, 4.2),
        ("Ryzen 9 7950X", 16, 4.5),
        ("Ryzen 9 7900X", 12, 4.7), ("Ryzen 9 7900 12", 12, 3.7), ("Ryzen 5 7600X", 6, 4.7),
        ("Ryzen 9 7945HX", 16, 2.5),
        ("Ryzen 7 7840HS", 8, 3.8), ("Ryzen 7 7840U", 8, 3.3), ("Ryzen 7 PRO 8840U", 8, 3.3),
        ("Ryzen 7 8845HS", 8, 3.8),
        ("Threadripper PRO 7995WX", 96, 2.5),
    ),
    "amd-zen5": (("Ryzen 9 9950X3D", 16, 4.3), ("Ryzen 9 9900X", 12, 4.4)),
    "intel-ivy-bridge": (("E5-2697 v2", 12, 2.7), ("E3-1245 V2", 4, 3.4), ("i7-3720QM", 4, 2.6)),
    "intel-sandy-bridge": (("i5-2500 ", 4, 3.3),),
    "intel-haswell": (
        ("E5-2699 v3", 18, 2.3), ("E5-2667 v3", 8, 3.2), ("E5-2630 v3", 8, 2.4), ("i7-4790", 4, 3.6),
        ("i5-4200M", 2, 2.5), ("i5-4250U", 2, 1.3), ("E3-1240L v3", 4, 2.0),
    ),
    "intel-broadwell": (
        ("E5-1620 v4", 4, 3.5), ("E5-2695 v4", 18, 2.1), ("E5-2680 v4", 14, 2.4), ("E5-2697A v4", 16, 2.6),
        ("i5-5300U", 2, 2.3),
    ),
    "intel-skylake": (
        ("i7-10750H", 6, 2.6), ("i5-8500T", 6, 2.1), ("i7-6600U", 2, 2.6), ("i7-8550U", 4, 1.8), ("i5-10310U", 4, 1.7),
        ("i5-8300H", 4, 2.3), ("i7-6770HQ", 4, 2.6), ("i7-10710U", 6, 1.1), ("i7-8565U", 4, 1.8), ("i5-8350U", 4, 1.7),
        ("i7-8700K", 6, 3.7), ("i7-7700T", 4, 2.9), ("i7-7700 ", 4, 3.6), ("i7-7700HQ", 4, 2.8), ("i7-6920HQ", 4, 2.9),
        ("i7-10870H", 8, 2.2), ("i7-10850H", 6, 2.7), ("i5-6200U", 2, 2.3), ("i5-6600K", 4, 3.5), ("i5-6500T", 4, 2.5),
        ("i9-9900KF", 8, 3.6), ("E3-1260L v5", 4, 2.9),
    ),
    "intel-skylake-sp": (("W-2150B", 10, 3.0),),
    "intel-cascade-lake": (("Platinum 8280 ", 28, 2.7), ("Gold 5218 ", 16, 2.3), ("Silver 4210R", 10, 2.4)),
    "intel-tiger-lake": (
        ("i7-1185G7", 4, 3.0), ("i5-1135G7", 4, 2.4), ("i7-1165G7", 4, 2.8), ("i7-11800H", 8, 2.3),
        ("i5-11400H", 6, 2.7),
    ),
    "intel-rocket-lake": (
        ("i7-11700F", 8, 2.5), ("i7-11700K", 8, 3.6), ("i7-11700 ", 8, 2.5), ("i5-11400 ", 6, 2.6),
    ),
}  # fmt: skip
PROCESSORS = tuple(
    Processor(name, family, cores, 1e9 * clock) for family, chips in _LISTED.items() for name, cores, clock in chips
)


def processor(name: str) -> Processor | None:
    """The processor that a run names; None where none is listed."""
    return next((one for one in sorted(PROCESSORS, key=lambda p: -len(p.name)) if one.name in name + " "), None)
