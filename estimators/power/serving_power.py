"""Power of devices that serve a language model: a share of their power cap, by what they read and multiply.

With x the log odds, P = MOST x cap / (1 + exp(-x)): static power at no work, power that grows with bytes and flop of a
second, and a clock that the cap holds back softly. What it draws beyond idle depends on how long a device works at all:
a device without requests draws its idle power. The cap is the board's rated one and the work that of its rated clock;
another clock and a lower cap follow the law of `power_cap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.estimators.power.power_cap import BusyPower, cap_watts, rated_watts
from slipstick.estimators.power.serving_power_law import COLUMNS, MOST, TEXT, power_fit, power_groups
from slipstick.estimators.power.voltage import knee
from slipstick.estimators.symbolic.formula import CheckedParameters, Parameter
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True)
class ServingWork:
    """What one device does while it serves; floats, or arrays of one shape.

    `read`: bytes of weights and cache that a step reads, over what the board's memory could read in its time.
    `flop`: flop of a step, prompts included, over what the board's matrix engines could do in its time. Either may
        exceed 1 on a machine of higher rates than the board that was metered (`share_of_board`).
    `ranks`: devices that share each layer (tensor x pipeline).
    `sequences`: sequences that get a token in a step, in one group of ranks.
    `narrow`: 1 where weights of experts have less than 16 bits, which cost more to widen than their bytes say.
    `grouped`: 1 where attention runs in groups of ranks beside shared experts (data parallel).
    """

    read: npt.ArrayLike
    flop: npt.ArrayLike
    ranks: npt.ArrayLike = 1.0
    sequences: npt.ArrayLike = 1.0
    narrow: npt.ArrayLike = 0.0
    grouped: npt.ArrayLike = 0.0

    def columns(self) -> FloatArray:
        """What the log odds are linear in, shape (6, n): read, flop, log2 ranks, ln sequences, narrow, grouped.

        Raises InputError where an amount is negative or not finite.
        """
        read, flop, ranks, sequences, narrow, grouped = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(v, dtype=np.float64)) for v in self._values())
        )
        for name, values in (("read", read), ("flop", flop), ("ranks", ranks), ("sequences", sequences)):
            if not np.all(np.isfinite(values) & (values >= 0)):
                raise InputError(f"{name} = {float(np.min(values)):g}: want a finite number, at least 0")
        return np.stack(
            [
                read, flop, np.log2(np.maximum(ranks, 1.0)), np.log(np.maximum(sequences, 1.0)), narrow, grouped,
            ]
        )  # fmt: skip

    def _values(self) -> tuple[npt.ArrayLike, ...]:
        return self.read, self.flop, self.ranks, self.sequences, self.narrow, self.grouped


@dataclass(frozen=True)
class ServingPower(CheckedParameters):
    """The law of the module's first lines; `of` gives the parameters that metered runs make most probable."""

    base: Annotated[float, Parameter("1", "log odds of the share of the cap at no work", -10.0, 10.0)]
    read: Annotated[float, Parameter("1", "more at full memory bandwidth", -10.0, 20.0)]
    flop: Annotated[float, Parameter("1", "more at the peak of the matrix engines", -10.0, 40.0)]
    ranks: Annotated[float, Parameter("1", "more for each doubling of the ranks of a layer", -2.0, 2.0)]
    sequences: Annotated[float, Parameter("1", "more for sequences e times as many", -2.0, 2.0)]
    narrow: Annotated[float, Parameter("1", "more where experts' weights have less than 16 bits", -5.0, 5.0)]
    grouped: Annotated[float, Parameter("1", "more where attention runs in groups of ranks", -5.0, 5.0)]

    @classmethod
    def of(cls, machine: Machine, kind: str = TEXT) -> ServingPower:
        """Parameters for a machine, pooled over vLLM runs that were metered (``slipstick validate energy``)."""
        return cls(**power_fit().slopes(power_groups(machine, kind)))

    def share(self, work: ServingWork) -> FloatArray:
        """Power of a device that works all the time, over its cap.

        Raises InputError where an amount is negative or not finite.
        """
        odds = self.base + np.array([getattr(self, name) for name in COLUMNS]) @ work.columns()
        return np.asarray(MOST / (1 + np.exp(-odds)))

    def watts(self, machine: Machine, work: ServingWork, busy: float = 1.0) -> float:
        """Mean power of one device [W] that works for the share `busy` of the time and is idle for the rest.

        `machine`: at its clock, which may differ from the stated one (`Machine.using`), as may its cap.
        `work`: of the machine at its stated clock.
        Raises InputError where the machine states no power cap, or `busy` is no share.
        """
        if not 0 <= busy <= 1:
            raise InputError(f"busy = {busy:g}: want a share from 0 to 1")
        rated, idle = rated_watts(machine)
        power = self._parts(rated, idle, work)
        working = float(power.static + power.dynamic)
        if machine.clock != (stated := machine.stated.clock):
            working = min(float(power.watts(machine.clock / stated, knee(machine) / stated)), MOST * rated)
        if (cap := cap_watts(machine)) < rated:
            working = min(working, cap)
        return busy * working + (1 - busy) * idle

    def held_clock(self, machine: Machine, work: ServingWork) -> float:
        """The clock [Hz] at which the power of a device that works is at its cap; the machine's where it is below.

        A cap above the rated one raises no clock. Parameters as of `watts`.
        Raises InputError where the machine states no power cap, or one that idle power and that of memory reach.
        """
        rated, idle = rated_watts(machine)
        cap, stated = cap_watts(machine), machine.stated.clock
        power = self._parts(rated, idle, work)
        if cap <= power.static:
            raise InputError(
                f"machine {machine.name!r}: power.cap = {cap:g} W: want more than {float(power.static):.4g} W, which "
                f"idle power ({idle:g} W) and memory draw here at any clock"
            )
        top = max(machine.clock, stated)
        power = BusyPower(power.static, power.watts(top / stated, knee(machine) / stated) - power.static)
        held = top * float(power.clock(cap, knee(machine) / top))
        return min(machine.clock, max(held, stated) if cap == rated else held)

    def _parts(self, rated: float, idle: float, work: ServingWork) -> BusyPower:
        """Watts that no clock lowers and those that follow it, of a device that works at its stated clock."""
        return BusyPower.of(float(self.share(work)[0]) * rated, idle, rated, float(work.columns()[0, 0]))
