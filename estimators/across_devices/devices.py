"""Calibration across devices: few parameters a machine, pooled over its family, narrowed by a few anchors.

Every machine with enough rows of a class of operations has its own fit. A machine without takes the mean of its family
(`pooling.pooled`), and its parameters are known as well as that mean foretold the machines that were fitted:
the log parameters of the new machine are normal around the mean, with the covariance of the deviations d_j of machine j
from the mean that the *others* gave it, relatives of the new machine counting more,

    covariance = sum_j w_j d_j d_j' + w_0 diag(spread of the prior)^2.

Deviations run over all classes at once: a machine whose memory is slow in one class is slow in the next. Anchors (one
product and one addition measured on the new machine) condition this normal law as measurements do (Kalman).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from estimators.across_devices.operation_times import OperationTimes, RowFormula, joined_times, thinned
from estimators.across_devices.pooling import (
    PRIOR_WEIGHT,
    PRIORS,
    ROWWISE_PRIORS,
    MachineFit,
    Prior,
    fit_machine,
    pooled,
    weights,
)
from estimators.calibration import Calibration
from estimators.composite import Composite
from estimators.formula import FloatArray
from estimators.operation.kernel_classes import KernelParameters
from estimators.operation.tiled import TiledRoofline
from estimators.parameters import declared
from estimators.schedule.sequential import Sequential
from hwmodels.files import InputError
from hwmodels.machine import Machine
from hwmodels.records import Table, content_digest
from workloads.workload import Op, Workload

ENOUGH = 24
"""Rows of a class from which a machine has its own fit; fewer are anchors."""
SAMPLE = 400
"""Rows of a machine and class that a fit looks at."""
DRAWS = 200
"""Of the parameters of a machine, for estimates ..."""
FEW_DRAWS = 60
"""... and for the bands of many rows at once (a standard deviation is known to 9 %)."""
SEED = 20_240_301
NORMAL = 1.4826
"""Standard deviation over median absolute deviation, of a normal law."""
LEAST_SCATTER = 0.03
"""No anchor is known better: the spread of repeated measurements."""
DEFAULT = "default"
"""What stands for operations of a class that was not measured on any machine."""
UNKNOWN = 0.3
"""Median |log| error of a class that nobody measured."""
PREFIX = "parameter.kernels.default."


@dataclass(frozen=True)
class KernelClass:
    """The fitted machines of one class of operations ("gemm.float32")."""

    name: str
    fits: tuple[MachineFit, ...]

    @property
    def priors(self) -> Mapping[str, Prior]:
        """What is known of the class's parameters before anything was measured."""
        return ROWWISE_PRIORS if self.name.partition(".")[0] in ("softmax", "norm") else PRIORS

    def of(self, machine: str) -> MachineFit | None:
        """A machine's own fit."""
        return next((fit for fit in self.fits if fit.machine == machine), None)


@dataclass(frozen=True, eq=False)
class Belief:
    """What is known of a machine: log parameters normal around `mean`, with covariance ``roots @ roots.T``.

    Parameters
    ----------
    names
        Class and parameter of each entry.
    scatter
        By class: standard deviation of log(measured / modelled) with the right parameters.
    said
        By class, in words: fitted, pooled over whom, anchored.
    """

    names: tuple[tuple[str, str], ...]
    mean: FloatArray
    roots: FloatArray
    scatter: Mapping[str, float]
    said: Mapping[str, str]

    def values(self, name: str, at: FloatArray | None = None) -> dict[str, float]:
        """Parameters of a class, at the mean or at another point."""
        point = np.exp(self.mean if at is None else at)
        return {p: float(point[i]) for i, (own, p) in enumerate(self.names) if own == name}

    def draws(self, count: int = DRAWS) -> FloatArray:
        """Log parameters drawn, shape (count, parameters)."""
        normal = np.random.default_rng(SEED).standard_normal((count, self.roots.shape[1]))
        return np.asarray(self.mean + normal @ self.roots.T)

    def times(self, formula: RowFormula, name: str, at: FloatArray | None = None) -> FloatArray:
        """Seconds of rows of a class, at the mean or at another point."""
        own = self.values(name, at)
        return formula.evaluate({f"{PREFIX}{parameter}": value for parameter, value in own.items()})

    def predicted(self, forms: Sequence[OperationTimes], count: int = FEW_DRAWS) -> tuple[FloatArray, FloatArray]:
        """Seconds of rows of one class, and the standard deviation of their logarithm, scatter included."""
        name, formula = forms[0].name, RowFormula.of(TiledRoofline(), forms)
        time = self.times(formula, name)
        own = [i for i, (of, _) in enumerate(self.names) if of == name]
        if not np.any(self.roots[own]):
            return time, np.full(len(time), self.scatter[name])
        logs = np.stack([np.log(self.times(formula, name, draw)) for draw in self.draws(count)])
        return time, np.hypot(np.std(logs, axis=0), self.scatter[name])

    def conditioned(self, anchors: Sequence[OperationTimes], steps: int = 3) -> Belief:
        """The same after a few rows were measured on the machine: an iterated extended Kalman update in log time."""
        forms = [form for form in anchors if form.name in self.scatter]
        if not forms:
            return self
        formulas = [RowFormula.of(TiledRoofline(), [form]) for form in forms]
        measured = np.log(joined_times(forms))
        noise = np.concatenate([np.full(len(f), max(self.scatter[f.name], LEAST_SCATTER)) for f in forms])

        def modelled(point: FloatArray) -> FloatArray:
            return np.concatenate(
                [np.log(self.times(f, form.name, point)) for f, form in zip(formulas, forms, strict=True)]
            )

        point = self.mean
        for _ in range(steps):
            here = modelled(point)
            steps_ = 1e-3 * np.eye(len(point))
            slope = np.stack([(modelled(point + step) - here) / 1e-3 for step in steps_], axis=1) @ self.roots
            gain = slope.T @ np.linalg.inv(slope @ slope.T + np.diag(noise**2))
            missing = measured - here - slope @ _coordinates(self.roots, self.mean - point)
            point = self.mean + self.roots @ (gain @ missing)
        left = np.eye(self.roots.shape[1]) - gain @ slope
        size, axes = np.linalg.eigh((left + left.T) / 2)
        roots = self.roots @ (axes * np.sqrt(np.maximum(size, 0.0)))
        touched = {form.name for form in forms}
        said = {
            name: f"{text} and {_count(forms, name)} anchors" if name in touched else text
            for name, text in self.said.items()
        }
        return replace(self, mean=point, roots=roots, said=said)


@dataclass(frozen=True)
class DeviceCalibration:
    """Fits of many machines by class of operations; asked of any machine it gives a `Calibration` for it.

    Parameters
    ----------
    classes
        With the machines that have a fit of their own.
    machines
        Those machines by name.
    anchors
        Rows of machines with too few for a fit.
    fingerprint
        Digest of the measurements.
    source
        In words: what it was fitted to.
    """

    classes: tuple[KernelClass, ...]
    machines: Table[Machine]
    anchors: tuple[OperationTimes, ...] = ()
    fingerprint: str = ""
    source: str = ""

    @cached_property
    def by_name(self) -> dict[str, KernelClass]:
        """Classes by name."""
        return {one.name: one for one in self.classes}

    def belief(self, on: Machine, without: Sequence[str] = ()) -> Belief:
        """What is known of a machine: its own fits, or its family's mean; anchors are not looked at.

        Parameters
        ----------
        without
            Machines that do not count: those held out.
        """
        names: list[tuple[str, str]] = []
        means: list[float] = []
        columns: dict[str, dict[int, float]] = {}
        scatter: dict[str, float] = {}
        said: dict[str, str] = {}
        for one in (*self.classes, KernelClass(DEFAULT, ())):
            own = None if on.name in without else one.of(on.name)
            fits = [fit for fit in one.fits if fit.machine not in (*without, on.name)]
            share = weights(fits, on.family) if fits else np.zeros(0)
            values = own.values if own else pooled(fits, on, one.priors) if fits else _rough(one.priors)
            start = len(names)
            names += [(one.name, parameter) for parameter in values]
            means += [float(np.log(value)) for value in values.values()]
            if own:
                scatter[one.name] = NORMAL * own.scatter
                said[one.name] = f"its own {own.count} rows"
                continue
            scatter[one.name] = NORMAL * float(
                np.average([f.scatter for f in fits], weights=share) if fits else UNKNOWN
            )
            said[one.name] = f"the mean of {len(fits)} machines" if fits else "not measured on any machine"
            total = share.sum() + PRIOR_WEIGHT
            for index, parameter in enumerate(values, start):
                spread = one.priors[parameter].spread * np.sqrt(PRIOR_WEIGHT / total)
                columns[f"{one.name}.{parameter}"] = {index: float(spread)}
            for fit, weight in zip(fits, share, strict=True):
                away = self._deviation(one, fit, fits) * np.sqrt(weight / total)
                for index, (parameter, value) in enumerate(zip(values, away, strict=True), start):
                    columns.setdefault(f"{fit.machine}.{parameter}", {})[index] = float(value)
        roots = np.zeros((len(names), len(columns)))
        for place, column in enumerate(columns.values()):
            roots[list(column), place] = list(column.values())
        return Belief(tuple(names), np.array(means), roots, scatter, said)

    def on(
        self, machine: Machine, workload: Workload | None = None, run: Mapping[str, float] | None = None
    ) -> Calibration:
        """The calibrated estimator for one machine, with the spread that is known of it.

        Parameters
        ----------
        workload, run
            Whose operations' scatter counts; that of the worst class where they are left out.
        """
        known = self.belief(machine).conditioned([form for form in self.anchors if form.machine.name == machine.name])
        kernels = {name: KernelParameters(**_inside(known.values(name))) for name in known.scatter}
        estimator = Composite(TiledRoofline(Table(kernels)), Sequential(), "tiled roofline pooled over devices")
        drawn = np.exp(known.draws())
        bounds = declared(KernelParameters)
        low = np.array([bounds[parameter].low for _, parameter in known.names])
        high = np.array([bounds[parameter].high for _, parameter in known.names])
        free = machine.runtime.free_kinds
        asked = {_class(op, known) for op in workload.operations if op.kind not in free} if workload else known.scatter
        words = [f"{name}: {text}" for name, text in known.said.items() if name in asked]
        return Calibration(
            estimator,
            tuple(f"operation.kernels.{name}.{parameter}" for name, parameter in known.names),
            residual_std=_scatter_of(known, estimator, workload, machine, run),
            fingerprint=self.fingerprint,
            source="; ".join([self.source, *words]),
            sample=tuple(map(tuple, np.clip(drawn, low, high).tolist())),
        )

    def _deviation(self, one: KernelClass, fit: MachineFit, fits: Sequence[MachineFit]) -> FloatArray:
        """How far a machine's own log parameters lie from what the other machines say of it."""
        others = [other for other in fits if other.machine != fit.machine]
        if not others:
            return np.array([one.priors[parameter].spread for parameter in fit.values])
        said = pooled(others, self.machines[fit.machine], one.priors)
        return np.asarray([np.log(value / said[parameter]) for parameter, value in fit.values.items()])


def fit_devices(
    forms: Sequence[OperationTimes],
    source: str = "",
    sample: int = SAMPLE,
    progress: Callable[[str], None] | None = None,
) -> DeviceCalibration:
    """Fit every machine that has enough rows of a class by itself; what is left over are anchors.

    Parameters
    ----------
    sample
        Rows of a machine and class that a fit looks at.
    progress
        Hears the machine and class that is done.

    Raises
    ------
    InputError
        Where no machine has enough rows of any class.
    """
    by_class: dict[str, dict[str, list[OperationTimes]]] = {}
    for form in forms:
        by_class.setdefault(form.name, {}).setdefault(form.machine.name, []).append(form)
    classes: list[KernelClass] = []
    machines: dict[str, Machine] = {}
    anchors: list[OperationTimes] = []
    for name, by_machine in sorted(by_class.items()):
        empty = KernelClass(name, ())
        fits = []
        for machine, own in sorted(by_machine.items()):
            if sum(len(form) for form in own) < ENOUGH:
                anchors += own
                continue
            on = machines.setdefault(machine, own[0].machine)
            chosen = thinned(own, sample)
            formula = RowFormula.of(TiledRoofline(), chosen)
            fits.append(fit_machine(on, machine, formula, {}, joined_times(chosen), empty.priors, PREFIX))
            if progress:
                progress(f"{machine}, {name}")
        if fits:
            classes.append(replace(empty, fits=tuple(fits)))
    if not classes:
        raise InputError(f"no machine has {ENOUGH} rows of one kind and dtype: nothing to fit")
    digest = content_digest(
        [[f.machine.fingerprint, f.name, f.op.identity, content_digest(f.times.tolist())] for f in forms]
    )
    return DeviceCalibration(tuple(classes), Table(machines), tuple(anchors), digest, source)


def _scatter_of(
    known: Belief,
    estimator: Composite,
    workload: Workload | None,
    machine: Machine,
    run: Mapping[str, float] | None,
) -> float:
    """Scatter of a whole: of one class as if all its operations erred alike, of several classes independently."""
    if workload is None or workload.bind_known({**workload.defaults, **(run or {})}).symbols:
        return max(known.scatter.values())
    bound = workload.bind_known(run or {}).bound()
    shares: dict[str, float] = {}
    for op, part in zip(bound.operations, estimator.estimate(workload, machine, run).parts, strict=True):
        name = _class(op, known)
        shares[name] = shares.get(name, 0.0) + part.contribution
    whole = sum(shares.values()) or 1.0
    return float(np.sqrt(sum((known.scatter[name] * time / whole) ** 2 for name, time in shares.items())))


def _class(op: Op, known: Belief) -> str:
    """Which parameters serve an operation, as `TiledRoofline` looks them up."""
    return next(name for name in (f"{op.kind}.{op.dtype}", op.kind, DEFAULT) if name in known.scatter)


def _rough(priors: Mapping[str, Prior]) -> dict[str, float]:
    return {name: prior.value for name, prior in priors.items()}


def _inside(values: Mapping[str, float]) -> dict[str, float]:
    """Parameters moved into their bounds."""
    bounds = declared(KernelParameters)
    return {name: float(np.clip(value, bounds[name].low, bounds[name].high)) for name, value in values.items()}


def _coordinates(roots: FloatArray, away: FloatArray) -> FloatArray:
    """The combination of directions that makes a step."""
    return np.asarray(np.linalg.lstsq(roots, away, rcond=None)[0])


def _count(forms: Sequence[OperationTimes], name: str) -> int:
    return sum(len(form) for form in forms if form.name == name)
