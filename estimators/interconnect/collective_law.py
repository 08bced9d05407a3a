"""What timings say of collectives: shares of links, latencies and floors, as a law over generations and systems.

A row is one call of a function on a system. Its time is the formula of `Collectives` on the system's links; the law's
parameters stand in the places of the formula's, those of NVLink with the effect of its generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.operation_model import amount_of, machine_values
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import UNGROUPED, Columns, Grouping, LawFit, ParameterPrior
from slipstick.estimators.interconnect.collective_libraries import LIBRARIES, NVLINK
from slipstick.estimators.interconnect.collectives import Collectives
from slipstick.estimators.symbolic.formula import Formula, parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import SIZE_BYTES, operation
from slipstick.workloads.graph.workload import Op

NAME = "collectives"
COUNTED = {3: 240 / 300, 4: 371 / 450, 5: 722 / 900}
"""Of the nominal bandwidth of NVLink, what NCCL counts (src/graph/topo.h: 20, 20.6 and 40.1 GB/s a link)."""
ELSEWHERE = 0.8
"""The same of other generations."""
ENTRIES = (*NVLINK, *(f"{name}{number}" for number in COUNTED for name in NVLINK))
"""Names of NVLink in the library's tables, with and without its generation."""
STATED = ("nvlink", "nvswitch", "pcie")
UNSTATED = ("host", "network")
"""Links by data sheet, and those whose rate none states."""
LIBRARY = Collectives(
    efficiency=FrozenDict(dict.fromkeys(("default", *STATED, *UNSTATED), 1.0)),
    floor=FrozenDict(default=0.0, all_reduce=0.0, send_recv=0.0),
    relayed=FrozenDict(default=1.0, network=1.0, **dict.fromkeys(ENTRIES, 1.0)),
    latency=FrozenDict(default=1.0, **dict.fromkeys(ENTRIES, 1.0)),
    tree_share=0.92,
    # 16 channels of 20 GB/s at 5/6 (NCCL 2.22) over a ring's rate; Blackwell 0.74 where Hopper has 0.85 (NCCL 2.27)
    in_switch=FrozenDict(default=0.0, nvswitch4=0.77, nvswitch5=0.67, nvlink5=0.67),
    protocols=LIBRARIES,
    algorithms=("ring", "tree"),
)
"""What is published, with the entries that the law's parameters fill."""
GENERATION, SYSTEM = "generation", "system"
LOOP, CALL = "loop", "call"
"""Ways of timing: a loop of calls, as NCCL's own tests do, and calls by themselves from Python."""


def _prior(
    name: str, meaning: str, value: float, width: float, kind: str, *levels: str, unit: str = "1"
) -> ParameterPrior:
    return ParameterPrior(name, unit, meaning, value, width, value / 30, value * 30, kind, levels)


PRIORS = (
    _prior("efficiency.nvlink", "share of NVLink's rate that a copy reaches", 0.95, 0.1, "stated"),
    _prior("efficiency.nvswitch", "share of a switch's rate that a copy reaches", 0.95, 0.1, "stated"),
    _prior("efficiency.pcie", "share of PCIe's rate that is reached", 0.75, 0.1, "stated"),
    _prior("efficiency.host", "share of the rate through the host's memory", 0.4, 0.5, "unstated", SYSTEM),
    _prior("efficiency.network", "share of a rented network's rate", 0.4, 0.5, "unstated", SYSTEM),
    _prior("efficiency.other", "share of the rate of links of no public timing", 0.9, 0.5, "unstated"),
    _prior("relayed", "share left in rings of what NCCL counts", 0.9, 0.1, "ring", GENERATION),
    _prior("relayed.network", "share of a network's rate left in rings", 0.75, 0.2, "ring"),
    _prior("copied", "time of a ring's last copy over a link's", 0.3, 1.0, "copy"),
    _prior("latency", "latencies over NCCL's", 1.0, 0.3, "latency", GENERATION),
    _prior("floor.all_reduce", "the least of a call from Python", 55e-6, 0.5, "call", unit="s"),
    _prior("floor.send_recv", "the least of a call from Python", 14e-6, 0.5, "call", unit="s"),
    _prior("launch.call", "added to an all-reduce from Python", 25e-6, 0.5, "call", unit="s"),
    _prior("launch.loop", "added to a call in a loop of calls", 5e-6, 0.5, "call", unit="s"),
)
LEVELS = (Grouping(GENERATION, 0.1), Grouping(SYSTEM, 0.5))


@dataclass(frozen=True)
class CollectiveCase:
    """A function of a library on a system, timed in a way (`LOOP`, `CALL`)."""

    machine: Machine
    function: str
    timing: str

    @property
    def groups(self) -> dict[str, str]:
        """By level: the generation of the system's NVLink, and the system where a link is in no data sheet."""
        known = [str(link.generation) for link in self.machine.links.values() if link.generation]
        unstated = set(UNSTATED) & set(self.machine.links)
        return {GENERATION: known[0] if known else UNGROUPED, SYSTEM: self.machine.name if unstated else UNGROUPED}

    def formula(self) -> Formula:
        """Seconds; sizes, devices and their distance are symbols."""
        dims = {"elements": 1, "participants": 2, "stride": 1}
        return LIBRARY.formula(
            operation("row", "collective", dims, "float16", {"function": self.function}), self.machine
        )

    def value(self, name: str, values: Mapping[str, FloatArray]) -> FloatArray | float:
        """A parameter of the formula, from the law's."""
        table, _, entry = name.partition(".")
        if table in ("relayed", "latency") and entry in ENTRIES:
            return _of_nvlink(table, entry, values)
        if table == "launch":
            called = 0.0 if self.function != "all_reduce" else values["launch.call"]
            return values["launch.loop"] if self.timing == LOOP else called
        if table == "floor":  # as long as the latencies of the links' generation are
            return 0.0 if self.timing == LOOP or name not in values else values[name] * values["latency"]
        if name == "efficiency.default":
            return values["efficiency.other"]
        return values[name] if name in values else parameters(LIBRARY)[name][0]


def _generation(entry: str) -> str:
    """Of NVLink, by the name of a table's entry."""
    return entry[-1] if entry[-1].isdigit() else UNGROUPED


def _of_nvlink(table: str, entry: str, values: Mapping[str, FloatArray]) -> FloatArray:
    """An entry of the tables `relayed` and `latency`."""
    generation = _generation(entry)
    counted = COUNTED.get(int(generation), ELSEWHERE) if generation else ELSEWHERE
    return values[table] * (counted if table == "relayed" else 1.0)


@dataclass(frozen=True, eq=False)
class CollectiveLaw:
    """Seconds of a call. Columns: `case` (a number of `cases`), `bytes`, `participants`, and how far apart these stand
    (`stride`).
    """

    cases: Sequence[CollectiveCase]
    name: str = NAME
    parameters: Sequence[ParameterPrior] = PRIORS
    levels: Sequence[Grouping] = LEVELS
    formulas: tuple[Formula, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "formulas", tuple(case.formula() for case in self.cases))

    def predict(self, parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        """Seconds of each row."""
        seconds = np.empty(len(columns["case"]))
        for at, (case, formula) in enumerate(zip(self.cases, self.formulas, strict=True)):
            rows = np.flatnonzero(columns["case"] == at)
            values = {name: value if len(value) == 1 else value[rows] for name, value in parameters.items()}
            names = [name for name in formula.names if name.startswith("parameter.")]
            put = {name: case.value(name.removeprefix("parameter."), values) for name in names}
            sizes = {f"operation.{name}": columns[name][rows] for name in ("participants", "stride")}
            sizes["operation.elements"] = columns["bytes"][rows] / SIZE_BYTES["float16"]
            seconds[rows] = formula.evaluate({**put, **machine_values(formula, case.machine), **sizes})
        return seconds

    def groups(self, case: FloatArray) -> dict[str, list[str]]:
        """By level, the group of rows of these cases."""
        each = [one.groups for one in self.cases]
        return {level.name: [each[at][level.name] for at in case.astype(int)] for level in self.levels}


@cache
def shipped() -> LawFit:
    """What all public timings say."""
    return load_fitted(NAME).fit(NAME)


def nccl() -> Collectives:
    """Rings, trees and adding switches by NCCL's protocols (RCCL's over xgmi), as all public timings fit them.

    Fitted by `slipstick validate --refit collectives`. What a network reaches is of InfiniBand with one card a device:
    a round number, since the systems' own networks were rented. Infinity Fabric has no public timings here: it keeps
    what its library's source says. The launch is that of a call in a loop of calls; a call by itself from Python takes
    up to 31 us more, and never less than 40.
    """
    return library(shipped())


def library(fit: LawFit) -> Collectives:
    """The library as a fit has it, in a loop of calls: no floor, and one launch for every function."""
    law, none = CollectiveLaw(()), {level.name: [UNGROUPED] for level in LEVELS}
    plain = fit.values(law, none)

    def by_link(table: str) -> dict[str, float]:
        of = {name: fit.values(law, {**none, GENERATION: [_generation(name)]}) for name in ENTRIES}
        return {name: float(_of_nvlink(table, name, values)[0]) for name, values in of.items()}

    reached = {name: float(plain[f"efficiency.{name}"][0]) for name in (*STATED, "host")}
    return replace(
        LIBRARY,
        # of networks those that were rented alone were timed: they say nothing of others
        efficiency=FrozenDict(default=float(plain["efficiency.other"][0]), **reached),
        launch=FrozenDict(default=float(plain["launch.loop"][0])),
        floor=FrozenDict(default=0.0),
        relayed=FrozenDict(default=1.0, **by_link("relayed")),
        latency=FrozenDict(default=1.0, **by_link("latency")),
        copied=float(plain["copied"][0]),
    )


def half_width(fit: LawFit, op: Op, machine: Machine) -> float:
    """Half of the 80 % band of log time of a collective whose sizes are known, in a loop of calls."""
    law = CollectiveLaw((CollectiveCase(machine, str(op.attributes.get("function", "all_reduce")), LOOP),))
    apart = float(amount_of(op, "stride")) if "stride" in op.dims else 1.0
    sizes = {
        "bytes": float(amount_of(op, "elements")) * SIZE_BYTES[op.dtype],
        "participants": float(amount_of(op, "participants")),
        "stride": apart,
    }
    columns = {"case": np.zeros(1), **{name: np.array([size]) for name, size in sizes.items()}}
    return float(fit.half_width(law, columns, law.groups(columns["case"]))[0])
