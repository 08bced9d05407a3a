"""What is known of a machine's parameters, before and after a few rows were measured on it: a normal law.

A machine without a fit of its own takes the mean of its family (`kernel_class.pooled`), and its parameters are known
as well as that mean predicted the machines that were fitted: the log parameters of the new machine are normal around
the mean, with the covariance of the deviations d_j of machine j from the mean that the *others* gave it, relatives of
the new machine counting more,

    covariance = sum_j w_j d_j d_j' + w_0 diag(spread of the prior)^2, the sum of the weights being 1.

Deviations run over all classes at once: a machine whose memory is slow in one class is slow in the next. Anchors (rows
measured on the new machine) move it where they predict each other better (`posterior_weight`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights
from slipstick.estimators.gpu.transfer.kernel_class import (
    DEFAULT,
    ClassParameters,
    KernelClass,
    MachineFit,
    pooled,
    weights,
)
from slipstick.hwmodels.machine import Machine


@dataclass(frozen=True, eq=False)
class ParameterPosterior:
    """What is known of a machine: log parameters normal around `mean`, with covariance ``roots @ roots.T``.

    `names`: class and parameter of each entry.
    `noise`: by class: standard deviation of log(measured / modelled) with the right parameters.
    `notes`: by class, in words: fitted, pooled over whom, anchored.
    """

    names: tuple[tuple[str, str], ...]
    mean: FloatArray
    roots: FloatArray
    noise: Mapping[str, float]
    notes: Mapping[str, str]

    def values(self, name: str) -> dict[str, float]:
        """Parameters of a class, at the mean."""
        point = np.exp(self.mean)
        return {p: float(point[i]) for i, (owner, p) in enumerate(self.names) if owner == name}

    def parameters_of(self, name: str) -> ClassParameters:
        """What is known of a class."""
        return ClassParameters(self.values(name), self.noise[name], self.notes[name])


def believed(
    classes: Sequence[KernelClass],
    machines: Mapping[str, Machine],
    machine: Machine,
    similarity: SimilarityWeights,
    without: Sequence[str] = (),
) -> ParameterPosterior:
    """What is known of a machine from fits alone: its own, or its family's mean; anchors are not looked at.

    `machines`: those that were fitted, by name.
    `without`: machines that do not count: those held out.
    """
    names: list[tuple[str, str]] = []
    means: list[float] = []
    columns: dict[str, dict[int, float]] = {}
    noise: dict[str, float] = {}
    notes: dict[str, str] = {}
    for one in (*classes, KernelClass(DEFAULT, ())):
        known, start = one.parameters_on(machine, similarity, without), len(names)
        names += [(one.name, parameter) for parameter in known.values]
        means += [float(np.log(value)) for value in known.values.values()]
        noise[one.name], notes[one.name] = known.noise, known.note
        if one.of(machine.name, without):
            continue
        fits = one.others(machine.name, without)
        share = weights(fits, similarity, machine.family, machine.runtime.library) if fits else np.zeros(0)
        total = share.sum() + 1
        for index, parameter in enumerate(known.values, start):
            spread = one.priors[parameter].spread / np.sqrt(total)
            columns[f"{one.name}.{parameter}"] = {index: float(spread)}
        for fit, weight in zip(fits, share, strict=True):
            away = _deviation(one, machines[fit.machine], fit, fits, similarity) * np.sqrt(weight / total)
            for index, (parameter, value) in enumerate(zip(known.values, away, strict=True), start):
                columns.setdefault(f"{fit.machine}.{parameter}", {})[index] = float(value)
    roots = np.zeros((len(names), len(columns)))
    for place, column in enumerate(columns.values()):
        roots[list(column), place] = list(column.values())
    return ParameterPosterior(tuple(names), np.array(means), roots, noise, notes)


def _deviation(
    one: KernelClass, machine: Machine, fit: MachineFit, fits: Sequence[MachineFit], similarity: SimilarityWeights
) -> FloatArray:
    """How far a machine's own log parameters lie from what the other machines say of it."""
    others = [other for other in fits if other.machine != fit.machine]
    if not others:
        return np.array([one.priors[parameter].spread for parameter in fit.values])
    predicted = pooled(others, machine, similarity, one.priors)
    return np.asarray([np.log(value / predicted[parameter]) for parameter, value in fit.values.items()])
