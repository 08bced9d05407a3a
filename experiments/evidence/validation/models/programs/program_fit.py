"""Fitting `ProgramKernels` to times of whole programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.gpu.programs.program_classes import FEATURES, class_of, features
from slipstick.estimators.operation.gpu.programs.program_sides import PASSES, bounds, joined
from slipstick.estimators.schedule.host_issue import NOT_ISSUED, issues
from slipstick.estimators.tuned.tuned_unseen import (
    BEFORE,
    COMPILED,
    CYCLES,
    CYCLES_OF_ROWS,
    CYCLES_SPREAD,
    EFFICIENCY,
    FEATURE,
    SECONDS,
    SLOW,
    SLOW_CYCLES,
    STEP_CLOCK,
)
from slipstick.experiments.evidence.validation.models.programs.program_data import Program
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.workload import Op

STRENGTH, SOFT = 0.5, 0.15
"""What a prior counts for against a program, and the log error beyond which a program's weight falls."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Operations of many programs as columns; `arithmetic`, `traffic`, `cores` and `main` are the machine's [s]."""

    program: FloatArray
    kinds: FloatArray
    shape: FloatArray
    count: FloatArray
    issued: FloatArray
    step: FloatArray
    arithmetic: FloatArray
    traffic: FloatArray
    cores: FloatArray
    main: FloatArray
    pace: float
    programs: int


def classes(known: Mapping[str, Program]) -> list[str]:
    """All classes of kernels that the programs have."""
    return sorted(
        {class_of(op) for one in known.values() for op in one.operations if op.kind not in ("view", "recurrent")}
    )


def columns(sources: Sequence[str], known: Mapping[str, Program], names: Sequence[str], device: str) -> Rows:
    """The operations of some programs on one device."""
    target, place = machine(device), {name: i for i, name in enumerate(names)}
    placed = [(i, op) for i, source in enumerate(sources) for op in known[source].operations if op.kind != "view"]
    sides = np.array([bounds(op, target) for _, op in placed])
    steps = np.array([op.kind == "recurrent" for _, op in placed])

    def of(value: Callable[[Op], float]) -> FloatArray:
        return np.array([value(op) for _, op in placed], dtype=np.float64)

    return Rows(
        np.array([i for i, _ in placed]),
        of(lambda op: place[class_of(op)] if op.kind != "recurrent" else 0),
        np.array([features(op) for _, op in placed]),
        of(lambda op: float(op.times)),
        of(_issued),
        steps.astype(float),
        sides[:, 0],
        sides[:, 1],
        sides[:, 2],
        sides[:, 3],
        STEP_CLOCK / target.clock,
        len(sources),
    )


def _issued(op: Op) -> float:
    return 0.0 if op.kind in (*NOT_ISSUED, "recurrent") else float(op.times) * issues(op)


def modelled(point: FloatArray, rows: Rows, count: int) -> FloatArray:
    """Seconds of each program; the device's sum and the host's join without a corner."""
    compute, memory, cycles, slow, late, (gap, step, issue) = _parts(point, count)
    kind = rows.kinds.astype(int)
    one = rows.arithmetic * np.exp(compute[kind] + rows.shape @ slow)
    other = rows.traffic * np.exp(memory[kind] + rows.shape @ late)
    each = joined(one, other, rows.cores * np.exp(cycles[kind])) + gap
    each = np.where(rows.step > 0, np.maximum(step * rows.pace, rows.arithmetic), each)
    index = rows.program.astype(int)
    device = np.bincount(index, each * rows.count, rows.programs)
    host = np.bincount(index, rows.issued * issue, rows.programs)
    return np.asarray(device * (1 + (host / device) ** 8) ** 0.125)


def _parts(point: FloatArray, count: int) -> tuple[FloatArray, ...]:
    shapes = len(FEATURES)
    cuts = np.cumsum([count, count, count, shapes, shapes])
    *logs, seconds = np.split(point, cuts)
    return (*logs, np.exp(seconds))


def prior(names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Mean and spread of the point, by classes."""
    shapes, count = len(FEATURES), len(names)
    mean = [-np.log(EFFICIENCY["compute"][0])] * count + [-np.log(EFFICIENCY["memory"][0])] * count
    spread = [EFFICIENCY["compute"][1]] * count + [EFFICIENCY["memory"][1]] * count
    mean += [_cycles(name) for name in names]
    spread += [CYCLES_SPREAD] * count
    mean += [0.0] * (2 * shapes) + [float(np.log(v)) for v in BEFORE.values()]
    spread += [FEATURE] * (2 * shapes) + [SECONDS] * 3
    return np.array(mean), np.array(spread)


def _cycles(name: str) -> float:
    if name.startswith(tuple(PASSES)):
        return CYCLES_OF_ROWS
    return SLOW_CYCLES if name.startswith(SLOW) else CYCLES


def fit(data: Sequence[tuple[Rows, FloatArray, FloatArray]], names: Sequence[str]) -> FloatArray:
    """The point that fits times of programs on several devices best.

    Parameters
    ----------
    data
        Of each device: columns, which programs were timed (indices), and log seconds.
    names
        Of classes.
    """
    mean, spread = prior(names)
    count = len(names)

    def residuals(point: FloatArray) -> FloatArray:
        errors = [np.log(modelled(point, rows, count))[index] - logs for rows, index, logs in data]
        return np.concatenate([*errors, (point - mean) / spread * STRENGTH])

    return np.asarray(least_squares(residuals, mean, loss="soft_l1", f_scale=SOFT, max_nfev=25).x)


def fit_compiled(
    data: Sequence[tuple[Rows, FloatArray, FloatArray]], eager: FloatArray, names: Sequence[str]
) -> FloatArray:
    """The point of compiled programs, near that of eager ones, that gives the change of times best.

    Parameters
    ----------
    data
        Of each device: columns of the compiled programs, which of them were timed both ways (indices), and log seconds
        of the compiled program over the eager one times what the eager point says of that.
    """
    _, spread = prior(names)
    spread = np.minimum(spread, COMPILED)

    def residuals(point: FloatArray) -> FloatArray:
        errors = [np.log(modelled(point, rows, len(names)))[index] - logs for rows, index, logs in data]
        return np.concatenate([*errors, (point - eager) / spread * STRENGTH])

    return np.asarray(least_squares(residuals, eager, loss="soft_l1", f_scale=SOFT, max_nfev=25).x)


def numbers(point: FloatArray, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """The point, shape (parameters,), as `program_kernels.from_numbers` reads it."""
    compute, memory, cycles, slow, late, seconds = (part.tolist() for part in _parts(point, len(names)))

    def short(keys: Sequence[str], values: Sequence[float]) -> dict[str, float]:
        return {key: float(f"{value:.4g}") for key, value in zip(keys, values, strict=True)}

    return {
        "compute": short(names, list(np.exp(compute))),
        "memory": short(names, list(np.exp(memory))),
        "cycles": short(names, list(np.exp(cycles))),
        "convolution_compute": short(FEATURES, slow),
        "convolution_memory": short(FEATURES, late),
        "seconds": short(list(BEFORE), seconds),
    }
