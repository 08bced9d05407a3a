"""What timed operations say of a processor: the shares of its libraries, and how its last cache works in fact.

Unknown are the logarithms of the shares, and of the size and rate of the last cache, of which a guest of a shared host
has a part that nobody states. All are normal around what is expected; a row scatters around the formula by Student's t
(`estimators.learning.known_rows`), whose scale is found from the rows as each is predicted by the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slipstick.estimators.calibration.calibration import DRAWS, Calibration, fingerprint
from slipstick.estimators.contract.protocols import Estimator, TimeFunction
from slipstick.estimators.core.estimate import Measurement
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.core.parameters import parameters
from slipstick.estimators.learning.fit import FREEDOM
from slipstick.estimators.learning.known_rows import KnownRows, chosen
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

WIDTH, NOISE, STEP = 0.7, 0.1, 0.05
"""Log standard deviations of what is expected and, before anything is timed, of a row about its formula; a step of
finite differences."""
PASSES, ROUNDS = 4, 50
"""Fits with a scale of the scatter, each from the fit before; rounds in which that scale is found."""
SEED = 17


@dataclass(frozen=True, eq=False)
class ProbedRows(KnownRows):
    """Log seconds of operations over what is unknown.

    Parameters
    ----------
    functions
        One an operation: all unknown quantities by their full names to seconds.
    names, expected, low, high
        Of the unknown quantities.
    """

    functions: tuple[TimeFunction, ...]
    names: tuple[str, ...]
    expected: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(
        cls, model: Estimator, workloads: Sequence[Workload], machine: Machine, shares: Mapping[str, float]
    ) -> ProbedRows:
        """Operations on a machine, not timed yet.

        Parameters
        ----------
        shares
            What is expected of parameters of the estimator, by their dotted names.
        """
        bounds = {name: (one.low, one.high) for name, (_, one) in parameters(model).items()}
        known = {f"estimator.{name}": (value, *bounds[name]) for name, value in shares.items()}
        known |= {f"machine.{path}": (float(machine.get(path)), 0.0, math.inf) for path in last_cache(machine)}
        expected, low, high = (np.array([one[place] for one in known.values()]) for place in range(3))
        functions = tuple(model.compile(one, machine, tuple(known)) for one in workloads)
        none = np.zeros(len(functions))
        return cls(none, none + NOISE, functions, tuple(known), expected, low, high)

    @property
    def size(self) -> int:
        """See `KnownRows`."""
        return len(self.names)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The unknown quantities inside their bounds, shape (..., size)."""
        return np.asarray(np.clip(self.expected * np.exp(WIDTH * coordinates), self.low, self.high))

    def at(self, coordinates: FloatArray) -> FloatArray:
        """See `KnownRows`."""
        return np.asarray(self._logs(coordinates[None])[0])

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `KnownRows`; derivatives by differences."""
        made = self._logs(np.vstack([coordinates, coordinates + STEP * np.eye(self.size)]))
        return made[0], (made[1:] - made[0]).T / STEP

    def _logs(self, points: FloatArray) -> FloatArray:
        values = self.values(points)
        by_name = {name: values[:, place] for place, name in enumerate(self.names)}
        return np.asarray(np.log([np.broadcast_to(one(by_name), len(points)) for one in self.functions])).T

    def order(self) -> list[int]:
        """Numbers of the operations, those first that teach most about all of them."""
        _, slope = self.linear(np.zeros(self.size))
        return [one.place for one in chosen(slope, self.noise, len(slope))]

    def timed(self, seconds: Sequence[float]) -> ProbedRows:
        """The same with what was measured of each, and the scale of the scatter about what the others say of it."""
        rows = replace(self, measured=np.log(seconds))
        best = None
        for _ in range(PASSES):
            best = rows.likeliest(np.ones(len(seconds), dtype=bool), best)
            rows = replace(rows, noise=np.full(len(seconds), rows._scale(best)))
        return rows

    def _scale(self, best: FloatArray) -> float:
        """Of the errors of each row as the others predict it, to first order."""
        here, slope = self.linear(best)
        pulled = self._weights(here) * np.einsum("ij,jk,ik->i", slope, self.left(best), slope)
        return scale_of((self.measured - here) / np.maximum(1 - pulled, LEAST_FREE))

    @cached_property
    def best(self) -> FloatArray:
        """The most likely coordinates."""
        return self.likeliest(np.ones(len(self.functions), dtype=bool))

    def machine(self, machine: Machine) -> Machine:
        """With the last cache as it works in fact."""
        values = dict(zip(self.names, self.values(self.best).tolist(), strict=True))
        return machine.using({path: values[f"machine.{path}"] for path in last_cache(machine)})

    def calibration(self, model: Estimator, rows: Sequence[Measurement], source: str) -> Calibration:
        """The estimator at the most likely shares, with draws of them."""
        here = self.at(self.best)
        generator = np.random.default_rng(SEED)
        points = generator.multivariate_normal(self.best, self.left(self.best), size=DRAWS)
        shares = [place for place, name in enumerate(self.names) if name.startswith("estimator.")]
        names = tuple(self.names[place].removeprefix("estimator.") for place in shares)
        drawn = self.values(points)[:, shares]
        covariance = tuple(map(tuple, np.cov(drawn.T).tolist()))
        best = dict(zip(names, self.values(self.best)[shares].tolist(), strict=True))
        values = {name: value for name, (value, _) in parameters(model).items()}
        return Calibration(
            model.with_parameters({**values, **best}), names, covariance, tuple((here - self.measured).tolist()),
            float(self.noise[0]), float(len(rows)), fingerprint(rows), source,
            residual_freedom=FREEDOM, sample=tuple(map(tuple, drawn.tolist())),
        )  # fmt: skip


LEAST_FREE = 0.2
"""Share of its error that a row keeps at least, however much the fit follows it."""


def last_cache(machine: Machine) -> tuple[str, ...]:
    """Fields of the last cache that the rows may move; none where there is no cache with a rate of its own."""
    levels = list(machine.memory)[:-1]
    if not levels or machine.memory[levels[-1]].bytes_per_cycle is None:
        return ()
    return f"memory.{levels[-1]}.capacity", f"memory.{levels[-1]}.bytes_per_cycle"


def scale_of(errors: FloatArray) -> float:
    """Scale of Student's t with `FREEDOM` degrees around zero, by EM.

    Parameters
    ----------
    errors
        log(measured / predicted), shape (rows,).

    Notes
    -----
    Lange, Little and Taylor, JASA 84 (1989), 881: the likelihood of the learner. A kernel that no share explains widens
    the tails, not the whole band.
    """
    variance = float(np.mean(errors**2)) or 1e-12
    for _ in range(ROUNDS):
        weight = (FREEDOM + 1) / (FREEDOM + errors**2 / variance)
        variance = max(float(np.mean(weight * errors**2)), 1e-12)
    return math.sqrt(variance)
