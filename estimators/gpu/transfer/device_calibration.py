"""Calibration across devices: few parameters a machine, pooled over its family, narrowed by a few anchors.

Every machine with enough rows of a class of operations has its own fit; `Forecast` predicts any machine from them,
and `DeviceCalibration.for_machine` makes an estimator of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same, content_digest
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.composition.composed_estimator import ComposedEstimator
from slipstick.estimators.composition.workload_cache import as_compiled
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights, fitted_similarity
from slipstick.estimators.gpu.kernels.kernel_classes import KernelParameters, apart, entry
from slipstick.estimators.gpu.transfer.kernel_class import (
    MODEL,
    PREFIX,
    KernelClass,
    MachineFit,
    Prior,
    fit_machine,
    priors_of,
)
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times, thinned
from slipstick.estimators.gpu.transfer.parameter_priors import DEFAULT, ParameterPosterior
from slipstick.estimators.gpu.transfer.pooling_constants import MOST_SURE, UNKNOWN
from slipstick.estimators.gpu.transfer.residual_by_shape import ResidualByShape, ResidualByShapeEstimator
from slipstick.estimators.gpu.transfer.transfer_bands import Scatter, library_spreads
from slipstick.estimators.gpu.transfer.unmeasured_machine import Forecast
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.estimators.symbolic.formula import declared
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

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


def variant_name(machine: str, library: str) -> str:
    """What a machine is called in fits to times of a second kernel library."""
    return f"{machine}, {library}"


def is_variant(machine: Machine) -> bool:
    """Whether a fitted machine is one of the others with a second kernel library."""
    return device_name(machine) != machine.name


def device_name(machine: Machine) -> str:
    """The name of a fitted machine without that of a second kernel library."""
    library = machine.runtime.library
    return machine.name.removesuffix(f", {library}") if library else machine.name


@dataclass(frozen=True)
class DeviceCalibration:
    """Fits of many machines by class of operations; for any machine it gives a `Calibration`.

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
    programs
        What whole programs say of kernels; None for what ships.
    similarity
        What machines count for one another; None for what ships, which saw all machines.
    """

    classes: tuple[KernelClass, ...]
    machines: FrozenDict[Machine]
    anchors: tuple[OperationTimes, ...] = ()
    fingerprint: str = ""
    source: str = ""
    programs: Same[FittedFile] | None = None
    similarity: SimilarityWeights | None = None

    @property
    def similarity_weights(self) -> SimilarityWeights:
        """`similarity`, else what ships."""
        return self.similarity or fitted_similarity()

    @property
    def libraries(self) -> tuple[str, ...]:
        """The kernel libraries whose times were fitted."""
        return tuple(sorted({fit.library for one in self.classes for fit in one.fits} - {""}))

    @property
    def devices(self) -> int:
        """How many machines were measured, whatever libraries ran on them."""
        return sum(not is_variant(machine) for machine in self.machines.values())

    def library(self, name: str) -> str:
        """A measured kernel library by its name, the version left out where one alone was measured.

        Raises
        ------
        InputError
            Where none has this name; the known ones are listed.
        """
        named = [one for one in self.libraries if name.lower() in (one, one.partition(" ")[0])]
        if len(named) != 1:
            raise unknown_name("kernel library of a program (a trainer is of train:MODEL)", name, list(self.libraries))
        return named[0]

    def forecast(
        self,
        machine: Machine,
        without: Sequence[str] = (),
        anchors: Sequence[OperationTimes] | None = None,
        similarity: SimilarityWeights | None = None,
    ) -> Forecast:
        """The forecast for a machine, by the library that it names (`machine.runtime.library`) where that was measured.

        Parameters
        ----------
        without
            Machines that do not count: those held out.
        anchors
            Rows measured on it; those that the calibration has where None.
        similarity
            What the fitted machines count for it; that of the calibration where None.
        """
        anchors_here = (
            [form for form in self.anchors if form.machine.name == machine.name] if anchors is None else anchors
        )
        named = machine.runtime.library
        if named and variant_name(machine.name, named) in self.machines:
            machine = machine.model_copy(update={"name": variant_name(machine.name, named)})
        classes = self.classes
        if named not in self.libraries:
            kept = {name for name, one in self.machines.items() if not is_variant(one)}
            classes = tuple(replace(o, fits=tuple(f for f in o.fits if f.machine in kept)) for o in classes)
        unknown = named not in self.libraries and len(self.libraries) > 1
        spreads = library_spreads() if unknown else {}
        counts = similarity or self.similarity_weights
        return Forecast(classes, self.machines, machine, counts, tuple(without), tuple(anchors_here), spreads)

    def for_question(
        self, workload: Workload, machine: Machine, run: Mapping[str, float], instead_of: Estimator
    ) -> Calibration:
        """See `for_machine`."""
        return self.for_machine(machine, workload, run)

    def for_machine(
        self, machine: Machine, workload: Workload | None = None, run: Mapping[str, float] | None = None
    ) -> Calibration:
        """The calibrated estimator for one machine, with the spread that is known of it.

        Parameters
        ----------
        workload, run
            Whose operations' scatter counts; that of the worst class where they are left out.
        """
        forecast = self.forecast(machine)
        known = forecast.belief
        free = machine.runtime.free_kinds
        operations = as_compiled(workload, machine).operations if workload else ()
        classes = {entry(known.noise, op) for op in operations if op.kind not in free} if workload else {*known.noise}
        kernels = {name: KernelParameters(**known.inside(name)) for name in known.noise}
        rules = {name: forecast.rule(name) for name in classes if name != DEFAULT}
        model = ResidualByShape(FrozenDict(kernels), FrozenDict({name: rule.factor for name, rule in rules.items()}))
        estimator = ResidualByShapeEstimator(model, Sequential(), "tiled roofline pooled over devices")
        words = [f"{name}: {text}" for name, text in known.notes.items() if name in classes]
        words += forecast.accepted.doubts if forecast.accepted else ()
        widest = max([UNKNOWN, *(max(vars(rule.scatter).values()) for rule in rules.values())])
        plain = Calibration(
            estimator,
            tuple(f"operation.kernels.{name}.{parameter}" for name, parameter in known.names),
            residual_std=widest,
            fingerprint=self.fingerprint,
            source="; ".join([self.source, *words]),
            sample=_sample(known, 1.0),
        )
        if workload is None or workload.bind_known({**workload.defaults, **(run or {})}).symbols:
            return plain
        scatters = {name: rule.scatter for name, rule in rules.items()}
        band = _band(scatters, known, estimator, workload, machine, run)
        unshared = _band(
            {name: one.unshared for name, one in scatters.items()}, known, estimator, workload, machine, run
        )
        sure = _parameter_std(plain, workload, machine, run)
        if sure > MOST_SURE * band:
            plain = replace(plain, sample=_sample(known, MOST_SURE * band / sure))
            sure = _parameter_std(plain, workload, machine, run)
        left = float(np.sqrt(max(band**2 - sure**2, 0.0)))
        return replace(plain, residual_std=left, common_std=min(left, float(np.sqrt(max(band**2 - unshared**2, 0.0)))))


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
            device = machines.setdefault(machine, forms_of[0].machine)
            priors = {**priors_of(name, device.runtime.library), **_of_the_chip(device, by_class, name, sample)}
            fits.append(_fitted(device, _by_source(forms_of, sample), priors))
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


def _band(
    scatters: Mapping[str, Scatter],
    known: ParameterPosterior,
    estimator: ComposedEstimator,
    workload: Workload,
    machine: Machine,
    run: Mapping[str, float] | None,
) -> float:
    """Scatter of a whole: of one class as if all its operations erred alike, of several classes independently."""
    operations = as_compiled(workload, machine).operations
    errors: dict[str, float] = {}
    whole = 0.0
    for op, part in zip(operations, estimator.estimate(workload, machine, run).parts, strict=True):
        name = entry(known.noise, op)
        std = scatters[name].of(part.time) if name in scatters else UNKNOWN
        errors[name] = errors.get(name, 0.0) + std * part.contribution
        whole += part.contribution
    return float(np.sqrt(sum(error**2 for error in errors.values())) / (whole or 1.0))


def _parameter_std(made: Calibration, workload: Workload, machine: Machine, run: Mapping[str, float] | None) -> float:
    """Standard deviation of log time that uncertain parameters cause."""
    times = made.draws(workload, machine, run)
    return 0.0 if times is None or not np.all(times > 0) else float(np.std(np.log(times), ddof=1))


def _sample(known: ParameterPosterior, spread: float) -> tuple[tuple[float, ...], ...]:
    """Parameters drawn, inside their bounds, their deviations from the mean times `spread`."""
    bounds = declared(KernelParameters)
    low, high = (np.array([getattr(bounds[p], end) for _, p in known.names]) for end in ("low", "high"))
    drawn = np.exp(known.mean + spread * (known.draws() - known.mean))
    return tuple(map(tuple, np.clip(drawn, low, high).tolist()))
