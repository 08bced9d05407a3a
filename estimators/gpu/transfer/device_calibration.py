"""Calibration across devices: few parameters a machine, pooled over its family, narrowed by a few anchors.

Every machine with enough rows of a class of operations has its own fit; `Forecast` predicts any machine from them,
and `measured_step.measured_kernels` makes a model of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights, fitted_similarity
from slipstick.estimators.gpu.transfer.kernel_class import KernelClass, library_spreads
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes
from slipstick.estimators.gpu.transfer.unmeasured_machine import Forecast
from slipstick.hwmodels.machine import Machine


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
