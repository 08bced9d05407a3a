"""Fitting a step's parameters to measured rows: all engines, versions and systems at once, with partial pooling.

Each row's time of a further token is the closed loop's two-point form: a decode step, and the share of steps that also
read a prompt. Factors of engines, versions and systems are drawn towards one, parameters towards what was expected;
rows of one family (model, engine, version, system, type) count at most as `FAMILY_ROWS`. The widths of these pulls and
the expected values were chosen on these rows (2026-11-22).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from slipstick.estimators.core.parameters import parameters
from slipstick.estimators.operation.serving.engines import FirstToken, ServingCalibration
from slipstick.estimators.operation.serving.prompts import prompt_seconds
from slipstick.estimators.operation.serving.step_amounts import Amounts, Batch, Shares
from slipstick.estimators.operation.serving.step_time import (
    Device,
    LayerCounts,
    Pace,
    StepParameters,
    StepTime,
    step_parts,
)
from slipstick.estimators.tuned.tuned_serving import FAMILY_ROWS, POOL, SCATTER, WIDTH
from slipstick.experiments.evidence.validation.serving.silicon import Case
from slipstick.hwmodels.files.records import Table
from slipstick.workloads.language.weight_types import weight_type

FloatArray = npt.NDArray[np.float64]
BUDGET = 8192


def shares_of(case: Case) -> Shares:
    """The model of a case on its devices; the cache is kept in 16 bits, as the exports do not say."""
    return Shares(case.model, case.layout, weight_type(case.stored), 2.0)


class Steps:
    """Cases as arrays: what one decode step and one with a prompt ask of a device."""

    def __init__(self, cases: Sequence[Case]) -> None:
        plain, mixed, share, devices, layers, stages = [], [], [], [], [], []
        for case in cases:
            shares, load = shares_of(case), case.load
            one = Device.of(case.machine, shares.kind.compute, shares.layout.group)
            decodes = load.users / case.layout.replicas / case.layout.data
            context = load.input_tokens + load.output_tokens / 2
            chunk = min(load.input_tokens, BUDGET)
            chunks = decodes * load.input_tokens / load.output_tokens / chunk
            count = max(1.0, chunks)
            batch = Batch(decodes, context, count * chunk, 0.0, chunk, count * chunk / load.input_tokens)
            plain.append(shares.amounts(Batch(decodes, context)))
            mixed.append(shares.amounts(batch))
            share.append(min(1.0, chunks))
            devices.append(one)
            layers.append(LayerCounts.of(shares, one))
            stages.append(case.layout.pipeline)
        self.plain, self.mixed = _stacked(Amounts, plain), _stacked(Amounts, mixed)
        self.device, self.layers = _stacked(Device, devices), _stacked(LayerCounts, layers)
        self.share, self.stages = np.array(share), np.array(stages)
        self.decodes = np.array([c.load.users / c.layout.replicas / c.layout.data for c in cases])

    def tpot(self, q: StepParameters, pace: Pace) -> FloatArray:
        """Seconds of a further token of each case."""
        plain = step_parts(self.plain, self.decodes, self.device, self.layers, q, pace, self.stages).seconds
        mixed = step_parts(self.mixed, self.decodes, self.device, self.layers, q, pace, self.stages).seconds
        return np.asarray(plain + q.prompt * self.share * (mixed - plain), dtype=float)


def _stacked(kind: Any, records: Sequence[Any]) -> Any:
    return kind(**{f.name: np.array([getattr(r, f.name) for r in records], dtype=float) for f in fields(kind)})


class Pools:
    """Factors of engines, systems and versions as one vector of logs."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.engines = sorted({c.engine for c in cases})
        self.systems = sorted({c.machine_name for c in cases})
        self.versions = sorted({_version(c) for c in cases})
        self.size = 2 * len(self.engines) + 2 * len(self.systems) + len(self.versions)
        self.width = np.r_[
            np.full(2 * len(self.engines), POOL["engines"]),
            np.full(2 * len(self.systems), POOL["systems"]),
            np.full(len(self.versions), POOL["versions"]),
        ]

    def split(self, logs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Engines (kernels, fixed), systems (kernels, fixed), versions (fixed)."""
        a, b = 2 * len(self.engines), 2 * (len(self.engines) + len(self.systems))
        return logs[:a].reshape(-1, 2), logs[a:b].reshape(-1, 2), logs[b:]

    def places(self, cases: Sequence[Case]) -> tuple[npt.NDArray[np.int64], ...]:
        """Where each case's factors stand; -1 for what the fit did not see."""

        def at(names: Sequence[str], wanted: Sequence[str]) -> npt.NDArray[np.int64]:
            index = {name: i for i, name in enumerate(names)}
            return np.array([index.get(name, -1) for name in wanted], dtype=np.int64)

        return (
            at(self.engines, [c.engine for c in cases]),
            at(self.systems, [c.machine_name for c in cases]),
            at(self.versions, [_version(c) for c in cases]),
        )

    def pace(self, logs: FloatArray, places: tuple[npt.NDArray[np.int64], ...]) -> Pace:
        """Factors of each case."""
        engines, systems, versions = self.split(logs)
        e, s, v = places
        engines, systems = np.vstack([engines, [0, 0]]), np.vstack([systems, [0, 0]])
        return _paces(
            np.exp(engines[e, 0] + systems[s, 0]),
            np.exp(engines[e, 1] + systems[s, 1] + np.append(versions, 0.0)[v]),
        )


def _paces(kernels: Any, fixed: Any) -> Pace:
    """Factors of many cases at once."""
    return Pace(kernels, fixed)


def _version(case: Case) -> str:
    return f"{case.engine} {case.version} {case.kind}"


def fit(cases: Sequence[Case]) -> ServingCalibration:
    """Parameters and factors that fit the measured times of further tokens best, in log time."""
    steps, pools = Steps(cases), Pools(cases)
    places, measured = pools.places(cases), np.log([c.tpot for c in cases])
    names = list(WIDTH)
    expected = np.log([getattr(StepParameters(), name) for name in names])
    width = np.r_[list(WIDTH.values()), pools.width]
    start = np.r_[expected, np.zeros(pools.size)]
    counts: dict[str, int] = {}
    for case in cases:
        counts[case.family] = counts.get(case.family, 0) + 1
    weight = np.sqrt([FAMILY_ROWS / max(FAMILY_ROWS, counts[c.family]) for c in cases]) / SCATTER

    def residuals(logs: FloatArray) -> FloatArray:
        pace = pools.pace(logs[len(names) :], places)
        off = np.log(steps.tpot(_values(names, logs), pace)) - measured
        soft: FloatArray = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + (off / SCATTER) ** 2) - 1)) * SCATTER
        return np.concatenate([soft * weight, (logs - start) / width])

    logs = least_squares(residuals, start, max_nfev=40).x
    engines, systems, versions = pools.split(logs[len(names) :])
    return ServingCalibration(
        _values(names, logs),
        Table({n: Pace(*map(float, np.exp(f))) for n, f in zip(pools.engines, engines, strict=True)}),
        Table({n: Pace(*map(float, np.exp(f))) for n, f in zip(pools.systems, systems, strict=True)}),
        Table({n: Pace(1.0, float(np.exp(f))) for n, f in zip(pools.versions, versions, strict=True)}),
    )


FIRST_WIDTH = 1.0
"""Standard deviation of the logs of `FirstToken`'s parameters around what was expected: hardly a pull."""


def with_first(calibration: ServingCalibration, cases: Sequence[Case]) -> ServingCalibration:
    """The calibration with the time to the first token fitted, given its steps; the constant by engine."""
    parts = first_parts(calibration, cases)
    engines = sorted({c.engine for c in cases})
    place = np.array([engines.index(c.engine) for c in cases])
    names = ("prompt", "burst", "steps", "user")
    expected = np.log([getattr(FirstToken(), name) for name in names] + [FirstToken().constant] * len(engines))
    measured = np.log([c.ttft for c in cases])

    def seconds(logs: FloatArray) -> FloatArray:
        values = np.exp(logs)
        made = FirstToken(values[len(names) :][place], *values[: len(names)])
        return np.asarray(made.seconds(*parts), dtype=float)

    def residuals(logs: FloatArray) -> FloatArray:
        off = np.log(seconds(logs)) - measured
        return np.concatenate(
            [np.sign(off) * np.sqrt(2 * (np.sqrt(1 + (off / 0.5) ** 2) - 1)), (logs - expected) / FIRST_WIDTH]
        )

    factors = np.exp(least_squares(residuals, expected).x)
    values = dict(zip(names, map(float, factors[: len(names)]), strict=True))
    constants = dict(zip(engines, map(float, factors[len(names) :]), strict=True))
    middle = float(np.exp(np.mean(np.log(factors[len(names) :]))))
    return replace(calibration, first=FirstToken(middle, **values), first_constant=Table(constants))


def first_parts(calibration: ServingCalibration, cases: Sequence[Case]) -> tuple[FloatArray, ...]:
    """Of each case: its prompt alone, all users' prompts in full steps, a further token (seconds), and its users."""
    rows = []
    for case, tpot in zip(cases, predict(calibration, cases), strict=True):
        pace = calibration.pace(case.engine, case.version, case.machine_name, case.kind)
        step = StepTime.for_machine(case.machine, shares_of(case), calibration.parameters, pace)
        alone, each = prompt_seconds(step, case.load.input_tokens, BUDGET)
        rows.append((alone, each * case.load.users / case.layout.data / case.layout.replicas, tpot, case.load.users))
    return tuple(np.array(rows).T)


def predict_first(calibration: ServingCalibration, cases: Sequence[Case]) -> FloatArray:
    """Seconds to the first token of each case."""
    parts = first_parts(calibration, cases)
    constants = np.array([calibration.first_token(c.engine).constant for c in cases])
    return np.asarray(calibration.first.seconds(*parts) - calibration.first.constant + constants, dtype=float)


def predict(calibration: ServingCalibration, cases: Sequence[Case]) -> FloatArray:
    """Seconds of a further token of each case; what the calibration has not seen has no factor."""
    paces = [calibration.pace(c.engine, c.version, c.machine_name, c.kind) for c in cases]
    together = _paces(np.array([p.kernels for p in paces]), np.array([p.fixed for p in paces]))
    return Steps(cases).tpot(calibration.parameters, together)


def _values(names: Sequence[str], logs: FloatArray) -> StepParameters:
    made = replace(StepParameters(), **{name: float(np.exp(v)) for name, v in zip(names, logs, strict=False)})
    for name, (_, note) in parameters(made).items():
        low, high = note.low, note.high
        made = replace(made, **{name: float(np.clip(getattr(made, name), low, high))})
    return made
