"""What a deployment draws while it serves: watts of all its devices, joules of an output token, with 80 % bands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_device import Device
from slipstick.estimators.engine_steps.step_time import StepTime
from slipstick.estimators.power.power_cap import cap_watts, share_of_board
from slipstick.estimators.power.serving_power import ServingPower, ServingWork
from slipstick.estimators.power.serving_power_law import COLUMNS, power_fit, power_groups
from slipstick.estimators.serving.batching.simulation_result import SimulationResult
from slipstick.estimators.serving.deployment import Deployment

NO_POWER: Mapping[str, Any] = dict.fromkeys(
    (
        "power_W", "low_power_W", "high_power_W", "energy_J_per_token", "low_energy_J_per_token",
        "high_energy_J_per_token",
    )
)  # fmt: skip
"""The figures of a machine that states no power cap."""
SAME_CLOCK = 1e-9
"""Share of a clock that is rounding."""


@dataclass(frozen=True)
class DeploymentPower:
    """Mean power of all devices of a deployment [W], hosts and cooling apart, and half of the 80 % band of its log."""

    watts: float
    half_width: float
    cap: float

    def row(self, rate: tuple[float, float, float]) -> dict[str, Any]:
        """Figures with their bands; `rate` is output tokens/s with low and high.

        Power and pace are taken as independent, so that the band of a token's energy is wider than each alone; it ends
        at the cap at the slow end of the pace.
        """
        middle, low, high = rate
        paces = max(abs(math.log(middle / low)), abs(math.log(high / middle)))
        both = math.exp(math.hypot(self.half_width, paces))
        width, joules = math.exp(self.half_width), self.watts / middle
        return {
            "power_W": self.watts,
            "low_power_W": self.watts / width,
            "high_power_W": min(self.watts * width, self.cap),
            "energy_J_per_token": joules,
            "low_energy_J_per_token": joules / both,
            "high_energy_J_per_token": min(joules * both, self.most_joules(low)),
        }

    def most_joules(self, low: float) -> float:
        """Joules of an output token at the cap, where the deployment makes `low` tokens/s, the slow end of the band."""
        return self.cap / low


def drawn_power(deployment: Deployment, served: SimulationResult) -> DeploymentPower | None:
    """Mean power over a simulated run; None where the machine states no power cap."""
    machine, layout = deployment.machine, deployment.layout
    if machine.power.cap is None:
        return None
    if deployment.prefill:
        pools = (drawn_power(*one) for one in _pools(deployment, served))
        return _together([one for one in pools if one is not None])
    busy = served.share("busy")
    work = _mean_work(deployment, served)
    watts = min(ServingPower.of(machine).watts(machine, work, min(busy, 1.0)), cap_watts(machine)) * layout.devices
    half = power_fit().half_width(dict(zip(COLUMNS, work.columns(), strict=True)), power_groups(machine))
    return DeploymentPower(watts, half, cap_watts(machine) * layout.devices)


def _pools(deployment: Deployment, served: SimulationResult) -> tuple[tuple[Deployment, SimulationResult], ...]:
    """The workers that decode and those that read prompts, each with its steps."""
    decoding = replace(deployment, prefill=None, link_bandwidth=0.0)
    return (decoding, served.of_workers(read=False)), (deployment.reader, served.of_workers(read=True))


def _together(pools: Sequence[DeploymentPower]) -> DeploymentPower:
    """Power of all: errors of one law, so that widths do not average out."""
    watts, cap = sum(one.watts for one in pools), sum(one.cap for one in pools)
    return DeploymentPower(watts, sum(one.half_width * one.watts for one in pools) / watts, cap)


def held_back(deployment: Deployment, served: SimulationResult) -> Deployment:
    """The deployment at the clock that its power cap leaves; the same one where the cap holds nothing back.

    Nothing is held back at the stated cap and clock: measured times of a board are already those under its rated power.
    One clock holds for the whole run, that of its mean power while busy.
    Raises InputError where a cap was set that idle power and that of memory reach.
    """
    machine = deployment.machine
    board = machine.stated
    if machine.power.cap is None or (machine.power.cap, machine.clock) == (board.power.cap, board.clock):
        return deployment
    if deployment.prefill:
        decoding, reading = (held_back(*one) for one in _pools(deployment, served))
        return replace(deployment, machine=decoding.machine, prefill=reading)
    clock = ServingPower.of(machine).held_clock(machine, _mean_work(deployment, served))
    if clock >= machine.clock * (1 - SAME_CLOCK):
        return deployment
    return replace(deployment, machine=machine.using({"clock": clock}))


def _mean_work(deployment: Deployment, served: SimulationResult) -> ServingWork:
    """What one device does in a mean step of a run, at the clock that its machine states."""
    rows, layout = served.stretches, deployment.layout
    machine, step = deployment.machine, deployment.step
    steps = float(rows[:, 3].sum())
    seconds = float((rows[:, 2] - rows[:, 1]).sum()) / steps
    decodes = float((rows[:, 3] * rows[:, 4]).sum()) / steps / layout.data
    prompts = float((rows[:, 3] * rows[:, 5]).sum()) / steps / layout.data
    length = float(served.input_tokens.mean())
    context = length + float(served.output_tokens.mean()) / 2
    decoding = Batch(max(decodes, 1.0), context)
    chunk = max(1.0, min(length, float(deployment.rules.token_budget)))
    reading = Batch(prompt=chunk, chunk=chunk, finished=chunk / max(length, 1.0))
    if machine.clock != machine.stated.clock:
        stated = replace(deployment, machine=machine.using({"clock": machine.stated.clock})).step

        def mean_step(time: StepTime) -> float:
            return time.seconds(decoding) + time.seconds(reading) * prompts / chunk

        seconds *= mean_step(stated) / mean_step(step)
        step = stated
    shares = deployment.shares
    board = replace(step, device=Device.of(machine.stated, shares.kind.compute, shares.layout))

    def done(one: StepTime) -> tuple[float, float]:
        (read, flop), (_, more) = one.demands(decoding), one.demands(reading)
        return read, flop + more * prompts / chunk

    read, flop = (share_of_board(machine, *both, seconds) for both in zip(done(board), done(step), strict=True))
    return ServingWork(
        read,
        flop,
        layout.tensor * layout.data * layout.pipeline,
        max(decodes, 1.0),
        float(deployment.shares.narrow_experts),
        float(layout.data > 1),
    )
