"""What the measured machines say of one machine: times of operations, and how far measured ones will scatter.

The time of an operation is that of the tiled roofline with the machine's parameters (its own, or its relatives' mean,
moved by anchors), times what the relatives took over their own fits at the nearest shapes, as far as such residuals
repeat from machine to machine. How far they do, and how far measured times scatter, is learned on the sources: each is
left out in turn and predicted from others, with anchors of its own where the target has some. Relatives closer than the
target's closest are taken away there as well: a source of whose chip another board was measured does not speak for a
target without one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights
from slipstick.estimators.gpu.transfer.kernel_class import (
    SAMPLED,
    KernelClass,
    MachineFit,
    kind_of,
    of_one_chip,
    pooled,
    times,
    unknown_part,
    weights,
)
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, joined_times, thinned
from slipstick.estimators.gpu.transfer.parameter_priors import NORMAL, ParameterPosterior, believed
from slipstick.estimators.gpu.transfer.pooling_constants import LEAST_NOISE, UNKNOWN
from slipstick.estimators.gpu.transfer.posterior_weight import PosteriorWeight, accepted
from slipstick.estimators.gpu.transfer.residual_by_shape import DistanceWeighted, ShapeFactor
from slipstick.estimators.gpu.transfer.transfer_bands import (
    LeaveOneOutDevice,
    Scatter,
    at_least,
    between_libraries,
    left,
    of_one_source,
    repeats,
    scatter,
    widened,
)
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True, eq=False)
class RowForecast:
    """Forecast of rows of one machine, in seconds."""

    time: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Rule:
    """For one class of operations on the machine: the factor of an operation's shape, and the scatter."""

    factor: ShapeFactor
    scatter: Scatter


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
        time = times(here, self.belief.values(name)) * np.exp(logs)
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

    @property
    def known(self) -> frozenset[str]:
        """Classes of operations of which some machine's times were fitted."""
        return frozenset(self._by_name)

    @property
    def unused(self) -> list[OperationTimes]:
        """Rows measured on the machine of classes of which no machine's times were fitted: they move nothing."""
        return [form for form in self.measured if form.name not in self._by_name]

    def _sources(self, one: KernelClass) -> list[MachineFit]:
        return one.others(self.machine.name, self.without)

    def _plain_rule(self, name: str) -> Rule:
        """Without anchors."""
        if name not in self._rules:
            one = self._by_name[name]
            fit = one.of(self.machine.name, self.without)
            rule = _repeated(one, fit, self.similarity) if fit else self._transferred(one)
            doubt = between_libraries(self.libraries, name) if any(source.library for source in one.fits) else 0.0
            self._rules[name] = replace(rule, scatter=replace(rule.scatter.wider(doubt), common=doubt))
        return self._rules[name]

    def _transferred(self, one: KernelClass) -> Rule:
        if one.scatters:
            return Rule(ShapeFactor(one, {}), one.scatters[self._closest(one)])
        trials = []
        for fit, others in self._turns(one):
            values = pooled(others, self.machines[fit.machine], self.similarity, one.priors)
            trials.append(self._trial(one, fit, others, values))
        share = repeats(trials)
        sources, closest = self._sources(one), self._closest(one)
        transferred = left(trials, share, self.similarity.tails) if trials else self._scatter_of_one(one)
        if of_one_chip(sources, closest):
            transferred = at_least(transferred, of_one_source(closest, self.similarity))
        return Rule(_factor(one, sources, self.machine, share, self.similarity), transferred)

    def _scatter_of_one(self, one: KernelClass) -> Scatter:
        """Where no measured machine can be left out, since there is one or none."""
        if not self._sources(one):
            return Scatter(UNKNOWN, UNKNOWN)
        return of_one_source(self._closest(one), self.similarity)

    def _turns(self, one: KernelClass) -> Iterator[tuple[MachineFit, list[MachineFit]]]:
        """Each source, and the others that may predict it: no closer relatives than the target has."""
        sources = self._sources(one)
        for fit in sources:
            others = [other for other in sources if other.machine != fit.machine]
            others = [o for o in others if shared_words(fit.family, o.family) <= self._closest(one)] or others
            if others and one.sampled.get(fit.machine):
                yield fit, others

    def _closest(self, one: KernelClass) -> int:
        return max((shared_words(self.machine.family, fit.family) for fit in self._sources(one)), default=0)

    def _trial(
        self, one: KernelClass, fit: MachineFit, others: Sequence[MachineFit], values: Mapping[str, float]
    ) -> LeaveOneOutDevice:
        forms = one.sampled[fit.machine]
        factor = _factor(one, others, self.machines[fit.machine], 1.0, self.similarity)
        closeness = max(shared_words(fit.family, other.family) for other in others)
        return LeaveOneOutDevice(
            np.log(times(forms, values)),
            np.concatenate([factor.logs(form) for form in forms]),
            np.log(joined_times(forms)),
            scale=self.similarity.shaped[self._closest(one)] / self.similarity.shaped[closeness],
            new=unknown_part(fit, closeness),
        )


def _factor(
    one: KernelClass, fits: Sequence[MachineFit], machine: Machine, share: float, similarity: SimilarityWeights
) -> ShapeFactor:
    """Of several machines' residuals, relatives counting more."""
    if not fits:
        return ShapeFactor(one, {})
    each = weights(fits, similarity, machine.family, machine.runtime.library)
    each = share * each / each.sum()
    return ShapeFactor(one, {fit.machine: float(part) for fit, part in zip(fits, each, strict=True)})


def _repeated(one: KernelClass, fit: MachineFit, similarity: SimilarityWeights) -> Rule:
    """A measured machine: as much of its own residual at the nearest shapes as repeats among its rows."""
    forms = thinned(one.rows.get(fit.machine, ()), 2 * SAMPLED)
    if not forms:
        alone = max(NORMAL * fit.scatter, LEAST_NOISE)
        return Rule(ShapeFactor(one, {}), Scatter(alone, alone))
    predicted = np.log(times(forms, fit.values))
    around = np.concatenate([one.residual(fit.machine, kind_of(form.op), form.place(), skip=1) for form in forms])
    residual = np.log(joined_times(forms)) - predicted
    share = float(np.clip(around @ residual / (float(around @ around) + 1e-12), 0.0, 1.0))
    predicted = predicted + share * around
    repeated = scatter([np.log(joined_times(forms)) - predicted], [np.exp(predicted)], similarity.tails)
    return Rule(ShapeFactor(one, {fit.machine: share}), repeated)
