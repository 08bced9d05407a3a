"""What measurements say of a simulated job: its fitted numbers, how sure they are, and the JSON file of it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import of_schema, read_json
from slipstick.common.records import FrozenDict, as_document, of_kind
from slipstick.common.writer import write_json
from slipstick.estimators.fitting.calibration import SEED, gaussian_draws
from slipstick.estimators.simulation.job import Job, job_numbers, with_numbers
from slipstick.estimators.simulation.simulated_quantities import SimulatedFit

SCHEMA = "slipstick-job-calibration-2"
WRITTEN = "make one of another version anew: calibrate JOB.yaml --measured FILE.csv --fit NAMES --out FILE.json"
MOST_NUMBERS = 1000
DRAWS = 400


@dataclass(frozen=True)
class JobCalibration:
    """Numbers of a job that were fitted through its simulation.

    `job`: the job's name, for messages.
    `names`, `values`: the fitted numbers without ``job.``, each in its unit.
    `covariance`: of their errors, in the order of `names`.
    `bases`: of services that a workload's estimate gave: the estimate [s] when they were fitted. What was fitted is a
        factor on it, which holds when the workload or the machine changes.
    `residuals`: simulated minus measured figures, in standard deviations.
    `degrees_of_freedom`: figures less numbers.
    `formula`: what the closed form by itself makes of the same measurements, by name.
    `sample`: draws of the numbers, one a row, where whole numbers are among them.
    `source`, `fingerprint`: what was measured, in words, and its digest.
    """

    job: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    bases: FrozenDict[float] = FrozenDict()
    residuals: tuple[float, ...] = ()
    degrees_of_freedom: int = 0
    formula: FrozenDict[float] = FrozenDict()
    sample: tuple[tuple[float, ...], ...] = ()
    source: str = ""
    fingerprint: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.names)
        if not 0 < len({*self.names}) == size <= MOST_NUMBERS or [*map(math.isfinite, self.values)] != [True] * size:
            raise InputError(f"calibration of job {self.job!r}: want 1 to {MOST_NUMBERS} names, a finite value each")
        rows = self.covariance
        if [len(row) for row in rows] != [size] * size or not np.allclose(rows, np.transpose(rows), equal_nan=True):
            raise InputError(f"calibration of job {self.job!r}: covariance: want a symmetric table of {size} x {size}")
        if {len(row) for row in self.sample} - {size}:
            raise InputError(f"calibration of job {self.job!r}: sample: want draws of {size} numbers")

    def standard_errors(self) -> dict[str, float]:
        """The standard error of each number, in its unit; not a number where the measurements do not fix it."""
        variances = np.diag(np.asarray(self.covariance, dtype=np.float64))
        return dict(zip(self.names, np.sqrt(np.where(variances >= 0, variances, np.nan)).tolist(), strict=True))

    def applied(self, job: Job, values: Mapping[str, float]) -> Job:
        """A job with fitted numbers, or a draw of them; services of workloads are scaled.

        Raises InputError where the job has no such number.
        """
        known = job_numbers(job)
        made = {}
        for name, value in values.items():
            base = self.bases.get(name)
            made[name] = value if base is None or name not in known else known[name].value * value / base
        return with_numbers(job, made)

    def parameter_draws(self, job: Job, count: int) -> FloatArray:
        """Numbers drawn from what is known of them, shape (count, numbers), inside their bounds."""
        if self.sample:
            rows = np.asarray(self.sample, dtype=np.float64)
            return np.asarray(rows[np.random.default_rng(SEED).permutation(len(rows))[np.arange(count) % len(rows)]])
        known = job_numbers(job)
        low = np.array([known[name].note.low for name in self.names])
        high = np.array([known[name].note.high for name in self.names])
        table = np.nan_to_num(np.asarray(self.covariance, dtype=np.float64), nan=0.0)
        return gaussian_draws(np.array(self.values), low, high, table, count)

    def percentiles(self, job: Job, level: float = 0.8) -> dict[str, tuple[float, float]]:
        """Between what each number lies with probability `level`."""
        draws = self.parameter_draws(job, DRAWS)
        ends = np.percentile(draws, [50 * (1 - level), 50 * (1 + level)], axis=0)
        return {name: (float(low), float(high)) for name, low, high in zip(self.names, *ends, strict=True)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON file, whole or not at all; an unknown variance is null."""
        known = [[None if value != value else value for value in row] for row in self.covariance]
        write_json(path, {**as_document(self, SCHEMA), "covariance": known}, indent=1)


def from_fit(
    job: str, fit: SimulatedFit, bases: Mapping[str, float], source: str, fingerprint: str, warnings: tuple[str, ...]
) -> JobCalibration:
    """The calibration of a fit; draws are kept where whole numbers are among the fitted ones."""
    return JobCalibration(
        job,
        fit.names,
        fit.values,
        fit.covariance,
        FrozenDict(bases),
        fit.residuals,
        fit.degrees_of_freedom,
        FrozenDict(fit.formula),
        _sample(fit),
        source,
        fingerprint,
        warnings,
    )


def load_job_calibration(path: str | os.PathLike[str]) -> JobCalibration:
    """The calibration of a job from its file.

    Raises
    ------
    InputError
        Where the file is no calibration of a job; names the file and the field.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> known = JobCalibration("loader", ("decode.service",), (0.08,), ((4e-6,),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     known.save(pathlib.Path(folder, "fitted.json"))
    ...     load_job_calibration(pathlib.Path(folder, "fitted.json")).standard_errors()
    {'decode.service': 0.002}
    """
    fields = of_schema(read_json(path), SCHEMA, path, WRITTEN)
    table = of_kind(tuple[tuple[float | None, ...], ...], fields.get("covariance"), f"{path}: covariance")
    known = [[math.nan if value is None else value for value in row] for row in table]
    return of_kind(JobCalibration, {**fields, "covariance": known}, str(path))


def _sample(fit: SimulatedFit) -> tuple[tuple[float, ...], ...]:
    if not fit.whole:
        return ()
    generator = np.random.default_rng(SEED)
    mean = np.array(fit.values)
    table = np.nan_to_num(np.asarray(fit.covariance, dtype=np.float64), nan=0.0)
    counted = {name for point, _ in fit.whole for name, value in point.items() if value == round(value)}
    counted &= {name for name, value in zip(fit.names, fit.values, strict=True) if value == round(value)}
    for place, name in enumerate(fit.names):
        if name in counted:
            table[place, :] = table[:, place] = 0.0
    free = np.full(len(mean), np.inf)
    around = gaussian_draws(mean, np.where(mean >= 0, 0.0, -free), free, table, DRAWS) - mean
    chosen = generator.choice(len(fit.whole), size=DRAWS, p=[share for _, share in fit.whole])
    rows = []
    for number, noise in zip(chosen, around, strict=True):
        point = fit.whole[number][0]
        centre = np.array([point.get(name, value) for name, value in zip(fit.names, fit.values, strict=True)])
        rows.append(tuple(float(f"{value:.9g}") for value in np.where(centre + noise > 0, centre + noise, centre)))
    return tuple(rows)
