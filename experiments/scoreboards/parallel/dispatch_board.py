"""Scoreboard: eager training steps on our own host, from operations measured alone plus dispatch.

The times are ours and are bundled (`measured/steps.csv`, how they were taken beside it); `slipstick measure steps`
takes them anew, and `--data DIR` scores DIR/steps.csv with the dispatch cost calibrated on the bundled ones. What an
operation takes alone is known; what the framework adds to each, and to a step, is calibrated on the other networks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstick.common.records import FrozenDict
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, Measurement
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.fitting.calibration import calibrate
from slipstick.estimators.roofline.measured_table import MeasuredTimes
from slipstick.estimators.schedules.dispatch import AsynchronousDispatch
from slipstick.experiments.measure.training.step_files import Step, read_steps
from slipstick.experiments.scoring.score import Board, Data, MissingError
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine

BUNDLED = Path(__file__).parent / "measured" / "steps.csv"
HOST = "cloud-cascade-lake-core"
GOAL = 0.08
PARAMETERS = ("schedule.issue", "schedule.begin")


def _networks(data: Data) -> list[ValidationRow]:
    """The median error over the networks, each left out of the calibration, then each by itself."""
    known = read_steps(BUNDLED)
    path = (data.scored or BUNDLED.parent) / BUNDLED.name
    if not path.exists():
        raise MissingError(f"no {path.name} in {data.scored} (slipstick measure steps --out {path.name})")
    tested = read_steps(path)
    target = machine(HOST)
    scores = [_predicted(step, [other for other in known if other.name != step.name], target) for step in tested]
    errors = [abs(row.ours or 0.0) for row in scores]
    sums = {name: float(np.median([abs(row.baselines[name]) for row in scores])) for name in scores[0].baselines}
    inside = float(np.mean([row.interval_coverage or 0.0 for row in scores]))
    width = float(np.median([row.interval_width or np.nan for row in scores]))
    whole = ValidationRow(
        dataset="dispatch",
        case=f"eager CPU training steps of {len(scores)} networks",
        held_out="each network",
        n=len(scores),
        metric="median |step / measured - 1|",
        unit="1",
        ours=float(np.median(errors)),
        baselines=sums,
        goal=GOAL,
        ok=float(np.median(errors)) <= GOAL,
        interval_level=DEFAULT_LEVEL,
        interval_coverage=inside,
        interval_width=width,
        noise_floor=float(np.median([step.repeat for step in tested])),
        reason="operations measured alone on the same host; cost of dispatch from the other networks",
    ).over([row.case for row in scores], [row.interval_coverage or 0.0 for row in scores])
    return [whole, *scores]


def _predicted(step: Step, others: list[Step], machine: Machine) -> ValidationRow:
    """One network, with the dispatch cost of the others."""
    times = MeasuredTimes(
        FrozenDict({k: t for s in (step, *others) for k, t in s.seconds.items()}), machine.fingerprint
    )
    measurements = [Measurement(other.workload, machine, other.measured) for other in others]
    fitted = calibrate(ComposedEstimator(times, AsynchronousDispatch(1e-6, 1e-5)), measurements, PARAMETERS)
    estimate = fitted.estimate(step.workload, machine)
    band = estimate.interval() or (np.nan, np.nan)
    plain = sum(step.seconds[op.name] * float(op.times) for op in step.workload)
    empty = ValidationRow("dispatch", step.name, step.name, 1, "step / measured - 1", "1", None)
    return replace(
        empty,
        ours=estimate.time / step.measured - 1,
        baselines={"sum of operations": plain / step.measured - 1, "sum of calls": step.alone / step.measured - 1},
        interval_level=DEFAULT_LEVEL,
        interval_coverage=float(band[0] <= step.measured <= band[1]),
        interval_width=band[1] / band[0],
        noise_floor=step.repeat,
        reason="; ".join(f"{name.partition('.')[2]} {value * 1e6:.1f} us" for name, value in fitted.values.items()),
    )


BOARD = Board("How long does an eager training step take, from its operations measured alone?", {"dispatch": _networks})
