"""Every machine with enough rows of a class of operations fitted by itself: what a calibration across devices holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict, content_digest
from slipstick.estimators.gpu.kernels.kernel_classes import apart
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration
from slipstick.estimators.gpu.transfer.kernel_class import (
    MODEL,
    PREFIX,
    PRIORS,
    KernelClass,
    MachineFit,
    Prior,
    priors_of,
    technology,
)
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times, thinned
from slipstick.estimators.gpu.transfer.pooling_constants import PRIOR_STRENGTH, SOFT
from slipstick.estimators.symbolic.formula import Formula
from slipstick.hwmodels.machine import Machine

ENOUGH = 24
"""Rows of a class from which a machine has its own fit; fewer are anchors."""
SAMPLE = 400
"""Rows of a machine, class and source that a fit looks at."""
OF_THE_CHIP = ("energy", "settle")
"""Parameters that the units of the arithmetic have, whichever kernel feeds them."""
HELD = 1e-3
"""Spread of the logarithm of what was fitted before."""
KEPT = 5000
"""Rows of a machine, class and source that are kept for their shapes."""


def fit_machine(
    machine: Machine,
    formula: Formula,
    values: Mapping[str, FloatArray | float],
    measured: FloatArray,
    priors: Mapping[str, Prior] = PRIORS,
    prefix: str = "parameter.kernels.default.",
) -> MachineFit:
    """Fit a machine's parameters to times of one class of operations, in log time, outliers held down.

    Parameters
    ----------
    formula
        In the parameters (``PREFIX.NAME``) and the symbols of `values`.
    measured
        Seconds, shape (n,).

    Raises
    ------
    InputError
        Where a measured time is not positive.
    """
    from scipy.optimize import least_squares

    if not np.all(measured > 0):
        raise InputError(f"measured times of {machine.name}: want seconds > 0, got {float(np.min(measured))!r}")
    names = [name for name in priors if f"{prefix}{name}" in formula.names]
    mean = np.log([priors[name].value for name in names])
    spread = np.array([priors[name].spread for name in names])
    target = np.log(measured)

    def times(point: FloatArray) -> FloatArray:
        scaled = {f"{prefix}{name}": value for name, value in zip(names, np.exp(point), strict=True)}
        return np.log(formula.evaluate({**values, **scaled}))

    def residuals(point: FloatArray) -> FloatArray:
        return np.concatenate([times(point) - target, (point - mean) / spread * PRIOR_STRENGTH])

    solution = least_squares(residuals, mean, loss="soft_l1", f_scale=SOFT, x_scale=spread, max_nfev=15)
    scatter = float(np.median(np.abs(times(solution.x) - target)))
    return MachineFit(
        machine.name,
        machine.family,
        technology(machine),
        FrozenDict(dict(zip(names, map(float, np.exp(solution.x)), strict=True))),
        scatter,
        len(target),
        machine.runtime.library,
    )


def fit_devices(
    forms: Sequence[OperationTimes],
    source: str = "",
    sample: int = SAMPLE,
    progress: Callable[[str], None] | None = None,
    typical: Sequence[str] = (),
) -> DeviceCalibration:
    """Fit every machine that has enough rows of a class by itself; the remaining rows are anchors.

    `sample`: rows of a machine, class and source that a fit looks at.
    `progress`: hears the machine and class that is done.
    `typical`: sources whose rows resemble the target's: how well machines predict each other is learned there.
    Raises InputError where no machine has enough rows of any class.
    """
    by_class: dict[str, dict[str, list[OperationTimes]]] = {}
    for form in forms:
        by_class.setdefault(form.name, {}).setdefault(form.machine.name, []).append(form)
    classes: list[KernelClass] = []
    machines: dict[str, Machine] = {}
    anchors: list[OperationTimes] = []
    for name, by_machine in sorted(by_class.items()):
        fits, rows = [], {}
        for machine, forms_of in sorted(by_machine.items()):
            if sum(len(form) for form in forms_of) < ENOUGH:
                anchors += forms_of
                continue
            ran = forms_of[0].machine  # of a class: by the library that ran it there
            machines.setdefault(machine, ran)
            priors = {**priors_of(name, ran.runtime.library), **_of_the_chip(ran, by_class, name, sample)}
            fits.append(_fitted(ran, _by_source(forms_of, sample), priors))
            rows[machine] = tuple(_by_source(forms_of, KEPT))
            if progress:
                progress(f"{machine}, {name}")
        if fits:
            classes.append(KernelClass(name, filled(fits, priors_of(name)), rows, frozenset(typical)))
    if not classes:
        raise InputError(f"no machine has {ENOUGH} rows of one kind and dtype: nothing to fit")
    digest = content_digest(
        [[f.machine.fingerprint, f.name, f.op.identity, content_digest(f.times.tolist())] for f in forms]
    )
    return DeviceCalibration(tuple(classes), FrozenDict(machines), tuple(anchors), digest, source)


def filled(fits: Sequence[MachineFit], priors: Mapping[str, Prior]) -> tuple[MachineFit, ...]:
    """Fits with all parameters that any of them has: a machine that states no energy of a flop keeps what is usual."""
    names = list(dict.fromkeys(name for fit in fits for name in fit.values))
    values = ({name: fit.values.get(name, priors[name].value) for name in names} for fit in fits)
    return tuple(replace(fit, values=FrozenDict(each)) for fit, each in zip(fits, values, strict=True))


def _of_the_chip(
    machine: Machine, by_class: Mapping[str, Mapping[str, Sequence[OperationTimes]]], name: str, sample: int
) -> dict[str, Prior]:
    """What all kernels of one arithmetic share on a chip, from both sides of a class that is apart; none of others.

    Under a power cap one side alone leaves open whether its rate is low or its energy a flop high.
    """
    one = apart(name)
    sides = [by_class.get(side, {}).get(machine.name, ()) for side in (one.plain, one.many)] if one else []
    if not sides or not all(sides):
        return {}
    both = _fitted(machine, [form for forms in sides for form in _by_source(forms, sample)], priors_of(name)).values
    return {part: Prior(both[part], HELD) for part in OF_THE_CHIP if part in both}


def _fitted(machine: Machine, forms: Sequence[OperationTimes], priors: Mapping[str, Prior]) -> MachineFit:
    formula = RowFormula.of(MODEL, forms)
    return fit_machine(machine, formula, {}, joined_times(forms), priors, PREFIX)


def _by_source(forms: Sequence[OperationTimes], count: int) -> list[OperationTimes]:
    """At most about `count` rows of each source."""
    sources = sorted({form.source for form in forms})
    return [kept for name in sources for kept in thinned([form for form in forms if form.source == name], count)]
