"""A device that works while the next batch comes in: the steady state of a double-buffered infeed, by formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.expressions import sp, symbol
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.schedule_model import FormulaSchedule, Outcome
from slipstick.estimators.symbolic.formula import Formula, Parameter, check_parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Op, Workload

SOURCE = "double buffering: the longer of device and infeed, plus a share of the shorter"


@dataclass(frozen=True)
class InfeedOverlap(FormulaSchedule):
    """t = max(device, start + infeed) + exposed x min(device, start + infeed).

    Lanes: `infeed` holds the operations of kind `host`, `device` all others. `simulation/input_pipeline.py` is the same
    as an event simulation, with buffers and variation.
    """

    start: Annotated[float, Parameter("s", "of every transfer from the host", 0.0, 1.0)] = 2.29e-3
    exposed: Annotated[float, Parameter("1", "share of the shorter side that is not hidden", 0.0, 1.0)] = 0.139

    def __post_init__(self) -> None:
        check_parameters(self)

    def lane(self, op: Op) -> str:
        """The host's operations apart from the device's."""
        return "infeed" if op.kind == "host" else "device"

    def formula(self, workload: Workload, machine: Machine) -> Formula:
        """Symbols: time.device, time.infeed, parameter.start, parameter.exposed."""
        device, infeed = symbol("time.device"), symbol("parameter.start") + symbol("time.infeed")
        whole = sp.Max(device, infeed) + symbol("parameter.exposed") * sp.Min(device, infeed)
        return Formula(whole, "s", SOURCE, FrozenDict(device=device, infeed=infeed))

    def combine(self, workload: Workload, times: FloatArray, machine: Machine, run: Mapping[str, float]) -> Outcome:
        """See `Schedule.combine`; metrics are shares of the step.

        infeed: the device waits for input; device: it works; host: it hands in data; matrix: of the peak rate.
        """
        outcome = FormulaSchedule.combine(self, workload, times, machine, run)
        counts = np.array([float(op.times) for op in workload])
        inside = np.array([self.lane(op) == "infeed" for op in workload])
        infeed = self.start + float(np.sum((times * counts)[inside]))
        device = float(np.sum((times * counts)[~inside]))
        flop = sum(float(op.cost.flop) * float(op.times) for op in workload if op.kind == "gemm")
        metrics: dict[str, float] = {
            "infeed": float(infeed_share(device, infeed, outcome.time)),
            "device": device / outcome.time,
            "host": infeed / outcome.time,
        }
        if "matrix" in machine.engines:
            dtype = next(iter(machine.engines["matrix"].flop_per_cycle))
            metrics["matrix"] = flop * machine.cores / machine.peak("matrix", dtype) / outcome.time
        return replace(outcome, metrics=FrozenDict(metrics))

    def metric_at(self, name: str, metrics: Mapping[str, float], factor: float) -> float:
        """See `Schedule.metric_at`; for infeed the factor is that of the host's time over the device's."""
        if name != "infeed":
            return FormulaSchedule.metric_at(self, name, metrics, factor)
        device, infeed = metrics["device"], metrics["host"] * factor
        step = np.maximum(device, infeed) + self.exposed * np.minimum(device, infeed)
        share: float = infeed_share(device, infeed, step)  # type: ignore[assignment]
        return share if np.ndim(share) else float(share)


def infeed_share(device: FloatArray | float, infeed: FloatArray | float, step: FloatArray | float) -> FloatArray:
    """Share of the step in which the device waits for input: what the infeed takes longer than the device's work.

    The exposed rest is work of the device on the data that came in, not waiting.
    """
    return np.asarray(np.maximum(np.subtract(infeed, device), 0.0) / step)
