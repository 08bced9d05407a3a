"""What a step of a server reads of a machine: rates of its memory, products and links, and what it must widen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.estimators.engine_steps.vendor_efficiency import libraries_of
from slipstick.hwmodels.compute import Engine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.language.layout import Layout

ONE_DEVICE = Layout()
FOUR_BITS = ("float4", "nvfp4", "mxfp4")
SINGLE = ("tfloat32", "float32")
WIDE = ("bfloat16", "float16", *SINGLE)
PCIE_RANK_LATENCY = 0.67
"""What each rank beyond the second adds to an all-reduce of no bytes over PCIe, over one of two ranks: a rank reads the
others' parts one after another. Least squares in log time of SGLang's all-reduces of up to 1 KB in recorded graphs on
two, four and eight L40S: 0.67 with a standard error of 0.04 (``python -m
slipstick.experiments.scoreboards.serving.vendor_libraries``; ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10). Over the
NVLink of H100s the same take 4.6, 4.7 and 5.0 us."""


def _multiplied(engine: Engine, compute: str) -> str:
    """The entry of the table of rates for weights in a data type; one FP4 format runs at another's rate."""
    return engine.rated(compute) or ("float4" if compute in FOUR_BITS and "float4" in engine.flop_per_cycle else "")


def widening(machine: Machine, compute: str) -> str:
    """In words, where a machine does not multiply weights of a data type as they are stored; "" where it does."""
    engine = machine.engines["matrix" if "matrix" in machine.engines else "vector"]
    if engine.rated(compute):
        return ""
    if compute == "tfloat32":
        return f"{machine.name} has no TF32: products of 32 bits run at float32's rate"
    if compute in WIDE:
        return ""
    if _multiplied(engine, compute):
        return f"{machine.name} has no {compute} products: at the rate of its other FP4 format"
    return f"{machine.name} has no {compute} products: weights are widened to 16 bits on the way"


@dataclass(frozen=True)
class Device:
    """What a step reads of a machine: rates in bytes/s and flop/s, capacity in bytes.

    `reading`, `computing` and `fixed` are times that its maker's libraries take over NVIDIA's (`vendor_efficiency`);
    `rank_latency` what an all-reduce of no bytes takes over one of two ranks.
    """

    bandwidth: float
    capacity: float
    peak: float
    narrow_peak: float
    link: float
    widened: int = 0
    reading: float = 1.0
    computing: float = 1.0
    fixed: float = 1.0
    rank_latency: float = 1.0

    @property
    def narrower(self) -> Any:
        """Whether weights are multiplied at a higher rate than 16-bit numbers."""
        return self.narrow_peak > self.peak

    @classmethod
    def of(cls, machine: Machine, compute: str, layout: Layout = ONE_DEVICE) -> Device:
        """The rates of a machine for weights computed in one data type, on the ranks of a layout.

        Bytes go over the link that joins a stage's ranks; all-reduces wait for those of its tensor ranks alone.

        Raises
        ------
        InputError
            Where the machine has no 16-bit products, or several ranks and no link to join them.
        """
        unit, plain, narrow = rated_types(machine, compute)
        level = machine.memory[machine.main_memory]
        joined = link_of(machine, layout.group) if layout.group > 1 else ""
        over_pcie = layout.tensor > 2 and link_of(machine, layout.tensor) == "pcie"
        if level.capacity is None:
            raise InputError(f"machine {machine.name!r}: memory.{machine.main_memory}.capacity is not stated")
        return cls(
            machine.bandwidth(machine.main_memory),
            float(level.capacity),
            machine.peak(unit, plain),
            machine.peak(unit, narrow),
            machine.links[joined].bandwidth if joined else math.inf,
            int(compute in FOUR_BITS and narrow == plain),
            **vars(libraries_of(machine.family)),
            rank_latency=1 + PCIE_RANK_LATENCY * (layout.tensor - 2) * over_pcie,
        )


def link_of(machine: Machine, ranks: int) -> str:
    """The nearest link that joins so many devices.

    Raises InputError where none does; says how to state one.
    """
    links = {name: link for name, link in machine.links.items() if name != "infeed"}
    for name, link in links.items():
        if link.width >= ranks:
            return name
    held = ", ".join(f"{name} of {link.width}" for name, link in links.items()) or "none"
    wider = f"--set machine.links.{next(reversed(links))}.width={ranks}, or " if links else ""
    raise InputError(
        f"machine {machine.name!r}: no link joins {ranks} devices (links: {held}): use fewer ranks (--tp), or "
        f"state the network that joins them: {wider}links: {{network: {{bandwidth: 50 GB/s, width: {ranks}}}}} in a "
        "machine file that extends this one"
    )


def joining(machine: Machine, ranks: int) -> str:
    """The topology that is taken of so many devices, in words."""
    name = link_of(machine, ranks)
    link = machine.links[name]
    return f" over {name} ({format_quantity(link.bandwidth, 'byte/s')} a device one way, at most {link.width} devices)"


def rated_types(machine: Machine, compute: str) -> tuple[str, str, str]:
    """The engine of products, and the entries of its table of rates for 16-bit numbers and for weights in a data type.

    Types that libraries compute in float32 there (`Machine.slow_halves`) are none of them. Numbers of 32 bits run at
    float32's rate where the machine has none of their own, on vector units where matrix units have neither.

    Raises
    ------
    InputError
        Where the machine has no 16-bit products.
    """
    unit = "matrix" if "matrix" in machine.engines else "vector"
    rates = [name for name in machine.engines[unit].flop_per_cycle if (unit, name) not in machine.slow_halves]
    if compute in SINGLE and compute not in rates:
        if "float32" not in rates:
            return "vector", "float32", "float32"
        compute = "float32"
    plain = next((name for name in ("bfloat16", "float16", "float32") if name in rates), None)
    if plain is None:
        raise InputError(f"machine {machine.name!r}: no {unit} products in bfloat16, float16 or float32")
    narrow = _multiplied(machine.engines[unit], compute)
    return unit, plain, narrow if narrow in rates else plain
