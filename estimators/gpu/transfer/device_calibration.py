"""Calibration across devices: few parameters a machine, pooled over its family, narrowed by a few anchors.

Every machine with enough rows of a class of operations has its own fit; `Forecast` predicts any machine from them,
and `gpu_step.measured_kernels` makes a model of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same, content_digest
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights, fitted_similarity
from slipstick.estimators.gpu.kernels.kernel_classes import apart
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
from slipstick.estimators.gpu.transfer.transfer_bands import library_spreads
from slipstick.estimators.gpu.transfer.unmeasured_machine import Forecast
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
    """Fits of many machines by class of operations; for any machine it gives a `Forecast`.

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
