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

from slipstick.estimators.base.estimate import Measurement
from slipstick.estimators.base.protocols import Estimator, TimeFunction
from slipstick.estimators.fitting.calibration import DRAWS, Calibration, fingerprint
from slipstick.estimators.fitting.fit_model import FREEDOM
from slipstick.estimators.fitting.user_rows import KnownRows, chosen
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.estimators.symbolic.parameters import parameters
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

WIDTH, NOISE, STEP = 0.7, 0.1, 0.05
"""Log standard deviations of what is expected and, before anything is timed, of a row about its formula; a step of
finite differences."""
SCATTER, BEFORE = 0.18, 10.0
"""Scatter of the operations of a probe about its formula, and how many operations' errors that counts for: scale of
Student's t of 70 operations on an EPYC of a shared host (docs/notes/cpu-and-systolic.md)."""
PASSES, ROUNDS = 4, 50
"""Fits with a scale of the scatter, each from the fit before; rounds in which that scale is found."""
SEED = 17
UNKNOWN = "estimator.operation.fresh"
"""A share that no row reads: Jeffreys' prior of a share, whose ends are likelier than its middle."""
LOGISTIC = 1.702
"""A logistic curve of this slope is the normal distribution's within .01 (Haley, 1952)."""


@dataclass(frozen=True, eq=False)
class ProbedRows(KnownRows):
    """Log seconds of operations over what is unknown.

    Parameters
    ----------
    functions
        One an operation: the unknown quantities that it reads, by their full names, to seconds.
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
        functions = tuple(_reading(model, one, machine, tuple(known)) for one in workloads)
        none = np.zeros(len(functions))
        return cls(none, none + NOISE, functions, tuple(known), expected, low, high)

    @property
    def size(self) -> int:
        """See `KnownRows`."""
        return len(self.names)

    def values(self, coordinates: FloatArray) -> FloatArray:
        """The unknown quantities inside their bounds, shape (..., size)."""
        made = np.clip(self.expected * np.exp(WIDTH * coordinates), self.low, self.high)
        anywhere = np.sin(np.pi / 2 / (1 + np.exp(-LOGISTIC * coordinates))) ** 2
        return np.where([name == UNKNOWN for name in self.names], anywhere, made)

    def at(self, coordinates: FloatArray) -> FloatArray:
        """See `KnownRows`."""
        values = dict(zip(self.names, self.values(coordinates), strict=True))
        return np.log([float(one({name: values[name] for name in one.free})) for one in self.functions])

    def linear(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `KnownRows`; derivatives by differences, each by the quantities that its operation reads."""
        values = self.values(coordinates)
        stepped, place = self.values(coordinates + STEP), {name: number for number, name in enumerate(self.names)}
        here, slope = np.empty(len(self.functions)), np.zeros((len(self.functions), self.size))
        for row, one in enumerate(self.functions):
            read = [place[name] for name in one.free]
            points = np.tile(values[read], (len(read) + 1, 1))
            points[np.arange(1, len(read) + 1), np.arange(len(read))] = stepped[read]
            logs = np.log(one(dict(zip(one.free, points.T, strict=True))))
            here[row], slope[row, read] = logs[0], (logs[1:] - logs[0]) / STEP
        return here, slope

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
        pulled = self._weights(here) * np.einsum("ij,ij->i", slope @ self.left(best), slope)
        free = np.maximum(1 - pulled, LEAST_FREE)
        return scale_of((self.measured - here) / free, free)

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
        points = generator.multivariate_normal(self.best, self.left(self.best), size=DRAWS, method="cholesky")
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


def scale_of(errors: FloatArray, free: FloatArray | None = None, rows: float = BEFORE) -> float:
    """Scale of Student's t with `FREEDOM` degrees around zero, by EM.

    Parameters
    ----------
    errors
        log(measured / predicted), shape (rows,).
    free
        How much each error says of the scale: the share of it that the fit could not follow; all of it where None.
    rows
        How many errors the scale that is expected (`SCATTER`) counts for.

    Notes
    -----
    Lange, Little and Taylor, JASA 84 (1989), 881: the likelihood of the learner. A kernel that no share explains widens
    the tails, not the whole band. Few rows under many unknowns follow whatever was measured, so that their errors say
    little of the next operation's.
    """
    counted = np.ones_like(errors) if free is None else free
    variance = float(np.mean(errors**2)) or 1e-12
    for _ in range(ROUNDS):
        weight = counted * (FREEDOM + 1) / (FREEDOM + errors**2 / variance)
        total = float(np.sum(weight * errors**2)) + rows * SCATTER**2
        variance = max(total / (float(counted.sum()) + rows), 1e-12)
    return math.sqrt(variance)


def _reading(model: Estimator, workload: Workload, machine: Machine, names: tuple[str, ...]) -> TimeFunction:
    """Seconds of an operation as a function of those of some quantities that have a say."""
    whole = model.compile(workload, machine, names)
    if whole.read is None:
        return whole
    return model.compile(workload, machine, tuple(name for name in names if name in whole.read))
