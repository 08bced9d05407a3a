"""Calibration across devices: few parameters a machine, pooled over its family, narrowed by a few anchors.

Every machine with enough rows of a class of operations has its own fit (`device_fits`); `Forecast` is what they say of
any machine, and `step_of_kernels.measured_kernels` makes a model of it.

The time of an operation is that of the tiled roofline with the machine's parameters (its own, or its relatives' mean,
moved by anchors), times what the relatives took over their own fits at the nearest shapes, as far as such residuals
repeat from machine to machine. How far they do, and how far measured times scatter, is learned on the sources: each is
left out in turn and predicted from others, with anchors of its own where the target has some. Relatives closer than the
target's closest are taken away there as well: a source of whose chip another board was measured says nothing of the
error of a target without one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Same
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.fitted_file import FittedFile
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights, fitted_similarity
from slipstick.estimators.gpu.transfer.kernel_class import (
    DEFAULT,
    NORMAL,
    ClassParameters,
    KernelClass,
    Scatter,
    between_libraries,
    library_spreads,
    times,
)
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, joined_times
from slipstick.estimators.gpu.transfer.parameter_priors import ParameterPosterior, believed
from slipstick.estimators.gpu.transfer.pooling_constants import LEAST_NOISE
from slipstick.estimators.gpu.transfer.posterior_weight import PosteriorWeight, accepted
from slipstick.estimators.gpu.transfer.residual_by_shape import DistanceWeighted, Rule, ShapeFactor
from slipstick.estimators.gpu.transfer.transfer_bands import repeated, transferred, widened
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True, eq=False)
class RowForecast:
    """Forecast of rows of one machine, in seconds."""

    time: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Forecast:
    """The forecast for one machine.

    `classes`, `machines`: what was fitted, and the fitted machines by name.
    `similarity`: what they count for one another.
    `without`: machines that do not count: those held out.
    `measured`: rows measured on the machine, too few for a fit; those of classes that were fitted count.
    `libraries`: standard deviation of log time between kernel libraries of which the machine names none, by kind of
        operation, in classes of which it is known who ran them; empty where it names one.
    """

    classes: tuple[KernelClass, ...]
    machines: Mapping[str, Machine]
    machine: Machine
    similarity: SimilarityWeights
    without: tuple[str, ...] = ()
    measured: tuple[OperationTimes, ...] = ()
    libraries: Mapping[str, float] = field(default_factory=dict)

    def predict(self, forms: Sequence[OperationTimes], level: float = DEFAULT_LEVEL) -> RowForecast:
        """Times of rows of one class on this machine, with a band; the times that the rows hold are not looked at."""
        name = forms[0].name
        rule = self.rule(name)
        here = [replace(form, machine=self.machine) for form in forms]
        logs = np.concatenate([rule.factor.logs(form) for form in here])
        time = times(here, self.parameters_of(name).values) * np.exp(logs)
        wide = np.exp(quantile(level, None) * rule.scatter.of(time))
        return RowForecast(time, time / wide, time * wide)

    @cached_property
    def belief(self) -> ParameterPosterior:
        """Of the machine's parameters, anchors counted as far as they are believed."""
        return self.accepted.belief if self.accepted else self._before

    @cached_property
    def accepted(self) -> PosteriorWeight | None:
        """What the anchors change; None where there are none."""
        if not self._anchors:
            return None
        logs = [self._plain_rule(form.name).factor.logs(form) for form in self._anchors]
        return accepted(self._before, self._anchors, np.concatenate(logs))

    @cached_property
    def _before(self) -> ParameterPosterior:
        return believed(self.classes, self.machines, self.machine, self.similarity, self.without)

    def rule(self, name: str) -> Rule:
        """Of one class of operations."""
        plain = self._plain_rule(name)
        changed = self.accepted
        if changed is None or self._by_name[name].of(self.machine.name, self.without):
            return plain
        result = plain
        if changed.shares[name]:
            values = self._before.values(name), self.belief.values(name)
            weighted = DistanceWeighted(self.machine, values[0], *values, *changed.range[name])
            result = replace(result, factor=replace(result.factor, weighted=weighted, known={}))
        if name in changed.errors:
            anchors = [form for form in self._anchors if form.name == name]
            predicted = joined_times(anchors) * np.exp(-changed.errors[name])
            result = replace(
                result, scatter=widened(plain.scatter, changed.errors[name], predicted, self.similarity.tails)
            )
        return result

    @cached_property
    def _by_name(self) -> dict[str, KernelClass]:
        return {one.name: one for one in self.classes}

    @cached_property
    def _rules(self) -> dict[str, Rule]:
        return {}

    @cached_property
    def _anchors(self) -> list[OperationTimes]:
        return [form for form in self.measured if form.name in self._by_name]

    def parameters_of(self, name: str) -> ClassParameters:
        """What is known of the machine's parameters of a class, anchors counted; of any other, what is usual."""
        if self.accepted:
            return self.accepted.belief.parameters_of(name)
        return self._by_name.get(name, KernelClass(DEFAULT, ())).parameters_on(
            self.machine, self.similarity, self.without
        )

    @property
    def known(self) -> frozenset[str]:
        """Classes of operations of which some machine's times were fitted."""
        return frozenset(self._by_name)

    @property
    def unused(self) -> list[OperationTimes]:
        """Rows measured on the machine of classes of which no machine's times were fitted: they move nothing."""
        return [form for form in self.measured if form.name not in self._by_name]

    def _plain_rule(self, name: str) -> Rule:
        """Without anchors."""
        if name not in self._rules:
            one = self._by_name[name]
            fit, sources = one.of(self.machine.name, self.without), one.others(self.machine.name, self.without)
            closest = max((shared_words(self.machine.family, other.family) for other in sources), default=0)
            if fit and one.rows.get(fit.machine):
                rule = repeated(one, fit, self.similarity)
            elif fit or one.scatters:
                alone = Scatter(*2 * [max(NORMAL * fit.scatter, LEAST_NOISE)]) if fit else one.scatters[closest]
                rule = Rule(ShapeFactor(one, {}), alone)
            else:
                rule = transferred(one, sources, self.machines, self.machine, closest, self.similarity)
            doubt = between_libraries(self.libraries, name) if any(source.library for source in one.fits) else 0.0
            self._rules[name] = replace(rule, scatter=replace(rule.scatter.wider(doubt), common=doubt))
        return self._rules[name]


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
