"""A measured run under power limits: the law fitted to metered training, as an estimator that reads the cap alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Estimate, Spread, quantile
from slipstick.estimators.base.estimator_base import EstimatorBase
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.base.quantity import Quantity
from slipstick.estimators.base.ratio_band import CAP, MeasuredUncertainty
from slipstick.estimators.power.power_cap import cap_watts, rated_watts
from slipstick.estimators.power.power_limit import PowerLimit, fitted_limit
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

SOURCE = "training on one GPU; fitted on P100, V100 and RTX 6000 (validate energy); bands 80 %"


@dataclass(frozen=True)
class PowerLimitRun(EstimatorBase):
    """A run whose time and mean power were measured without a limit, under the machine's power cap.

    `time`, `power`: seconds, and mean watts of the device.
    `ran`: what ran, with its numbers, and the fingerprint of its machine without a cap; None until a question says it.

    Raises
    ------
    InputError
        Where a number is not above 0.
    """

    time: float
    power: float
    law: PowerLimit = field(default_factory=fitted_limit)
    ran: tuple[Workload, FrozenDict[float], str] | None = None

    def __post_init__(self) -> None:
        for name, value in (("time", self.time), ("power", self.power)):
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"{name} = {value:g}: want a finite number > 0")

    def run_names(self, workload: Workload, machine: Machine) -> frozenset[str]:
        """None: another run was not measured."""
        return frozenset()

    def measured_uncertainty(self, machine: Machine) -> MeasuredUncertainty:
        """Of the run without a limit: what another epoch differs by."""
        return MeasuredUncertainty(None, self.law.time_spread[1])

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Estimator:
        """Itself: seconds of the run, whatever model would answer without the measurement.

        Raises InputError where the question is another than that of the run.
        """
        uncapped = machine.unchecked(power=machine.power.model_copy(update={"cap": None})).fingerprint
        question = workload, FrozenDict({name: float(value) for name, value in run.items()}), uncapped
        if self.ran not in (None, question):
            raise InputError(
                "a run that was metered says how a cap changes its own time, not how another one's differs"
            )
        return replace(self, ran=question)

    def estimate(self, workload: Workload, machine: Machine, run: Mapping[str, float] | None = None) -> Estimate:
        """Seconds, power and energy of the run under the machine's cap.

        Raises InputError where the machine states no power cap, or the run drew far more than it.
        """
        return self.under(cap_watts(machine), rated_watts(machine)[0])

    def under(self, limit: float, rated: float) -> Estimate:
        """The same under a limit on a board of a rated power, both in watts.

        A limit makes no run faster: the band of its time begins at the measured one.
        Raises InputError where a power is not above 0, or the run drew far more than the rated one.
        """
        slower, drawn = map(float, self.law.ratios(self.power, limit, rated))
        free_time, free_power = map(float, self.law.ratios(self.power, rated, rated))
        slower, drawn = slower / free_time, drawn / free_power  # measured at the rated limit: that is met
        of_time, of_power = map(float, self.law.spreads(self.power, limit))
        width = quantile(DEFAULT_LEVEL, None)
        time, watts = self.time * slower, self.power * drawn
        watts = watts if limit >= self.power else min(watts, limit)
        joules, both = time * watts, math.exp(width * math.hypot(of_time, of_power))
        wide = math.exp(width * of_power)
        return Estimate(
            time,
            energy=joules,
            spread=Spread(residual=of_time),
            rule="measured, and slower by the law of the limit",
            assumptions=(f"measured without a limit: {self.time:g} s at {self.power:g} W", SOURCE),
            others=(
                Quantity("power", watts, "W", watts / wide, watts * wide, meaning="mean power of the device"),
                Quantity("energy", joules, "J", joules / both, joules * both, meaning="of the run"),
            ),
            band=(min(max(self.time, time * math.exp(-width * of_time)), time), time * math.exp(width * of_time)),
        )

    def reads(self, workload: Workload, machine: Machine, run: Mapping[str, float]) -> dict[str, float]:
        """The cap [W] alone."""
        return {CAP: cap_watts(machine)}
