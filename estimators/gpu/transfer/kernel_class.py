"""One class of operations on the machines that were measured: each one's own fit, its residuals, and how the fits are
pooled over families for a machine that nobody measured.

Few physical parameters, each with a prior, are fitted to every measured machine by itself. A new machine takes a mean
of those machines, in which relatives weigh more (same chip, same generation, same vendor) and badly described machines
less, drawn towards the prior. Its error is measured by leaving each measured machine out in turn: those residuals
are also the band of a new machine.

A class that nobody measured has a substitute, which is less sure. Both types of 16 bits run on the same silicon at the
same rate; what moves every byte once reaches the share of the bandwidth that additions reach, in every type;
convolutions in the types of the matrix units are products on them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.common.size_column import Sized, where
from slipstick.estimators.base.machine_family import MOST_WORDS, shared_words
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.similarity_weights import DIFFERENCES, SimilarityWeights
from slipstick.estimators.gpu.kernels.kernel_classes import EXPERTS, KERNELS, OF_STEPS, ROWWISE
from slipstick.estimators.gpu.kernels.tiled_roofline import TiledRoofline
from slipstick.estimators.gpu.transfer.operation_times import OperationTimes, RowFormula, joined_times, thinned
from slipstick.estimators.gpu.transfer.pooling_constants import (
    BORDER,
    CUT,
    KNOWN_ROTATION,
    NEIGHBOURS,
    REACH,
    ROTATION_STATED,
    ROTATION_UNSTATED,
    UNKNOWN,
)
from slipstick.hwmodels.machine import HALF, Machine
from slipstick.workloads.graph.kinds import SIZE_BYTES, family_of
from slipstick.workloads.graph.workload import Op

SINGLE = ("float32", "float64")
"""Types of vector engines; matrix engines multiply the others."""


@dataclass(frozen=True)
class Prior:
    """What is known of a parameter before any machine was measured: value, and spread of its logarithm."""

    value: float
    spread: float


SPREADS: Mapping[str, float] = {
    "overhead": 1.5,
    "compute_efficiency": 0.1,
    "memory_efficiency": 0.1,
    "tile_cycles": 0.7,
    "step_cycles": 0.3,
    "small_tile": 0.7,
    "unaligned": 0.7,
    "split_overhead": 0.5,
    "overlap": 0.5,
    "rotation": 0.7,
    "energy": 0.25,
    "settle": 0.5,
}
"""Of the logarithms of `KernelParameters`, wide where stacks differ."""
OVERHEAD = 2e-6
"""Seconds beside the machine's own launch overhead; a logarithm has no prior at 0."""


def priors_of(name: str, library: str = "") -> FrozenDict[Prior]:
    """Of a class of operations ("gemm.float32"): its `KERNELS`, with spreads; `library`: that was timed."""
    kind, *rest = name.split(".")
    known = replace(KERNELS[kind if kind in KERNELS else "default"], overhead=OVERHEAD)
    if EXPERTS in rest:
        known = replace(known, rotation=2.0)  # between two uses of a product's operands lies the layer's other product
    special = {"step_cycles": 0.7} if kind in ROWWISE else {}  # steps of a row differ more than those of a product
    if {kind, name, *rest} & {*ROTATION_STATED} and library not in ROTATION_UNSTATED:
        special["rotation"] = KNOWN_ROTATION
    return FrozenDict({part: Prior(getattr(known, part), spread) for part, spread in {**SPREADS, **special}.items()})


PRIORS = priors_of("default")
"""Of everything that has no entry of its own."""


@dataclass(frozen=True)
class MachineFit:
    """The parameters of one machine.

    Parameters
    ----------
    machine, family
        Its name, and its family as words joined by hyphens, the vendor first.
    memory
        Technology of its main memory ("HBM", "GDDR").
    values
        By parameter.
    scatter
        Median of |log(predicted / measured)|.
    count
        Of measurements.
    library
        The kernel library that ran (`machine.runtime.library`); "" where it is not stated.
    """

    machine: str
    family: str
    memory: str
    values: FrozenDict[float]
    scatter: float
    count: int
    library: str = ""


@dataclass(frozen=True)
class Scatter:
    """Standard deviations of the normal law whose 80 % band holds log(measured / predicted) of operations predicted
    below and above `BORDER`.

    `common`: the part that all operations of the class have alike, since one of several libraries runs them.
    """

    short: float
    long: float
    common: float = 0.0

    @property
    def unshared(self) -> Scatter:
        """What operations do not have alike: it stays in the ratio of two of them."""
        return Scatter(*(math.sqrt(max(end**2 - self.common**2, 0.0)) for end in (self.short, self.long)))

    def wider(self, more: float) -> Scatter:
        """With another, independent standard deviation."""
        return Scatter(math.hypot(self.short, more), math.hypot(self.long, more), self.common)

    def of(self, predicted: Sized) -> Sized:
        """Of one predicted time in seconds, or of each of many."""
        return where(predicted < BORDER, self.short, self.long)


def weights(fits: Sequence[MachineFit], similarity: SimilarityWeights, family: str, library: str = "") -> FloatArray:
    """What each measured machine counts for a machine of `family`, where the prior counts 1; shape (fits,).

    Parameters
    ----------
    library
        Kernels of the target: what ran others counts less; "" takes a mixture of all.
    """
    weighed = np.array([similarity.weights[shared_words(fit.family, family)] for fit in fits])
    scatter = similarity.scatter + np.array([fit.scatter for fit in fits])
    strange = np.array([bool(library and fit.library) and fit.library != library for fit in fits])
    return np.asarray(weighed * scatter.min() / scatter * np.where(strange, similarity.library, 1.0))


def of_one_chip(fits: Sequence[MachineFit], closest: int) -> bool:
    """Whether all measured machines are one chip (H100 and H200) and the target, which shares `closest` words of the
    family with it, is another: no two of them say how far chips differ."""
    alike = bool(fits) and all(shared_words(fits[0].family, fit.family) == MOST_WORDS for fit in fits)
    return alike and closest < MOST_WORDS


def unknown_part(fit: MachineFit, closest: int) -> str:
    """What machines that share at most `closest` words of its family do not know of one: vendor, generation, chip, or
    all that it is."""
    words = fit.family.split("-")[: closest + 1]
    return " ".join([*words, *([fit.machine] if closest == MOST_WORDS else [])])


def technology(machine: Machine) -> str:
    """The letters that a machine's main memory begins with."""
    return re.match(r"[A-Za-z]*", machine.main_memory)[0]  # type: ignore[index]


@cache
def library_spreads() -> Mapping[str, float]:
    """Standard deviation of log time between two libraries where none is named, by kind of operation; kinds that are
    not in it differ as products do."""
    return {kind: float(spread) for kind, spread in load_fitted(LIBRARIES).facts.items()}


def between_libraries(spreads: Mapping[str, float], name: str) -> float:
    """Standard deviation of log time (of no unit) of a class, such as "attention.bfloat16": what libraries of its kind
    differ by, else those of products."""
    return spreads.get(name.partition(".")[0], spreads.get("gemm", 0.0))


def pooled(
    fits: Sequence[MachineFit], machine: Machine, similarity: SimilarityWeights, priors: Mapping[str, Prior] = PRIORS
) -> FrozenDict[float]:
    """The parameters of a machine that was not measured: weighted means of those measured, in log space.

    Raises
    ------
    InputError
        Where no machine was measured.
    """
    if not fits:
        raise InputError("no measured machine to pool over")
    names = list(fits[0].values)
    share = np.tile(weights(fits, similarity, machine.family, machine.runtime.library)[:, None], len(names))
    if "memory_efficiency" in names:
        alike = np.array([fit.memory == technology(machine) for fit in fits])
        share[:, names.index("memory_efficiency")] *= np.where(alike, 1.0, similarity.memory)
    logs = np.log([[fit.values[name] for name in names] for fit in fits])
    prior = np.log([priors[name].value for name in names])
    mean = ((share * logs).sum(axis=0) + prior) / (share.sum(axis=0) + 1)
    return FrozenDict(dict(zip(names, map(float, np.exp(mean)), strict=True)))


LIBRARIES = "libraries"
"""What is fitted of how far two kernel libraries differ on one device (`slipstick validate --refit libraries`)."""
DEFAULT = "default"
"""What stands for operations of a class that was not measured on any machine."""
NORMAL = 1.4826
"""Standard deviation over median absolute deviation, of a normal law."""
PREFIX = "parameter.kernels.default."
MODEL = TiledRoofline(FrozenDict({"default": KERNELS["default"]}))
"""One class at a time: whatever it is, its parameters are the default's."""
SAMPLED = 300
"""Rows of a machine at which is learned how far others predict it."""


@dataclass(frozen=True)
class ClassParameters:
    """What is known of a machine's parameters of one class of operations.

    `noise`: standard deviation of log(measured / modelled) with the right parameters.
    `note`: in words: fitted, pooled over whom, anchored.
    """

    values: Mapping[str, float]
    noise: float
    note: str


@dataclass(frozen=True, eq=False)
class KernelClass:
    """The fitted machines of one class of operations ("gemm.float32").

    `rows`: by machine: measured rows, at whose shapes the fit's residual is known.
    `typical`: sources whose rows resemble the target's; all where empty.
    `scatters`: where no rows are kept: the scatter of a machine whose closest relative shares 0, 1, 2, 3 words of the
        family.
    """

    name: str
    fits: tuple[MachineFit, ...]
    rows: Mapping[str, tuple[OperationTimes, ...]] = field(default_factory=dict)
    typical: frozenset[str] = frozenset()
    scatters: tuple[Scatter, ...] = ()

    @cached_property
    def priors(self) -> Mapping[str, Prior]:
        """What is known of the class's parameters before anything was measured."""
        return priors_of(self.name)

    def of(self, machine: str, without: Collection[str] = ()) -> MachineFit | None:
        """A machine's own fit; `without`: machines that do not count."""
        return next((fit for fit in self.fits if fit.machine == machine and machine not in without), None)

    def others(self, machine: str, without: Collection[str] = ()) -> list[MachineFit]:
        """The fits of all machines but one, and those that do not count."""
        return [fit for fit in self.fits if fit.machine not in (*without, machine)]

    def parameters_on(
        self, machine: Machine, similarity: SimilarityWeights, without: Collection[str] = ()
    ) -> ClassParameters:
        """What fits alone say of a machine: its own, else its family's mean, else what is expected of the class.

        `similarity`: what they count for one another; `without`: machines that do not count.
        """
        if fit := self.of(machine.name, without):
            return ClassParameters(fit.values, NORMAL * fit.scatter, f"its own {fit.count} rows")
        fits = self.others(machine.name, without)
        if not fits:
            rough = {name: prior.value for name, prior in self.priors.items()}
            return ClassParameters(rough, UNKNOWN, "not measured on any machine")
        share = weights(fits, similarity, machine.family, machine.runtime.library)
        noise = NORMAL * float(np.average([fit.scatter for fit in fits], weights=share))
        return ClassParameters(
            pooled(fits, machine, similarity, self.priors), noise, f"the mean of {len(fits)} machines"
        )

    @cached_property
    def sampled(self) -> dict[str, list[OperationTimes]]:
        """By machine: rows that resemble the target's."""
        chosen = {}
        for machine, forms in self.rows.items():
            alike = [form for form in forms if form.source in self.typical]
            chosen[machine] = thinned(alike or forms, SAMPLED)
        return chosen

    def residual(self, machine: str, kind: Hashable, places: FloatArray, skip: int = 0) -> FloatArray:
        """Mean log(measured / own fit) of a machine at the shapes nearest to places; 0 where it has none of the kind.

        `kind`: of operations whose shapes can be compared (`kind_of`).
        `places`: binary logarithms of dims, shape (rows, dims).
        `skip`: how many of the nearest do not count: 1 leaves out the rows themselves.
        """
        tree, residuals = self._trees.get((machine, kind), (None, np.zeros(0)))
        count = min(NEIGHBOURS + skip, len(residuals))
        if count <= skip:
            return np.zeros(len(places))
        distance, index = tree.query(places, k=np.arange(1 + skip, count + 1))
        closeness = 1 / (distance**2 + REACH**2)
        return np.asarray((residuals[index] * closeness).sum(axis=1) / closeness.sum(axis=1))

    @cached_property
    def _trees(self) -> dict[tuple[str, Hashable], tuple[Any, FloatArray]]:
        """By machine and kind: the shapes, and the residuals there."""
        from scipy.spatial import cKDTree

        groups: dict[tuple[str, Hashable], list[OperationTimes]] = {}
        for machine, forms in self.rows.items():
            for form in forms:
                groups.setdefault((machine, kind_of(form.op)), []).append(form)
        trees = {}
        for (machine, kind), alike in groups.items():
            fit = self.of(machine)
            if fit is not None:
                left = np.log(joined_times(alike) / times(alike, fit.values))
                tree = cKDTree(np.concatenate([form.place() for form in alike]))
                trees[machine, kind] = tree, np.clip(left, -CUT, CUT)
        return trees


def kind_of(op: Op) -> Hashable:
    """What operations have in common whose shapes can be compared: kind, dtype, and what decides the kernel."""
    attributes = {"pass": "forward", "transposed": False, "causal": False, "kv_dtype": op.dtype, "stride": 1}
    facts = {name: op.attributes.get(name, usual) for name, usual in attributes.items()}
    stride = facts["stride"]
    if isinstance(stride, tuple) and len(set(stride)) == 1:
        facts["stride"] = stride[0]
    return op.kind, op.dtype, *facts.values()


def times(forms: Sequence[OperationTimes], values: Mapping[str, float]) -> FloatArray:
    """Seconds of rows on their machine with given parameters."""
    formula = RowFormula.of(MODEL, forms)
    return formula.evaluate({f"{PREFIX}{name}": value for name, value in values.items()})


@dataclass(frozen=True)
class FallbackClass:
    """A measured class as the substitute of another; `spread` is added to its scatter (standard deviations, log time).

    It is that of all differences of the two, as classes of one machine differ that were both measured
    (``slipstick validate --refit operations``).
    """

    measured: str
    spread: float


def fallback_class_for(name: str, measured: Collection[str], similarity: SimilarityWeights) -> FallbackClass | None:
    """The measured class nearest to one (`class_of`); None where none resembles it.

    Of several that are as near, one whose type runs on the same engine, and is as wide. What types differ by says
    nothing of one that is narrower than all that were timed.
    """
    wanted, near = _parts(name), []
    wide = SIZE_BYTES.get(wanted.dtype, 1)
    known = {other: differ for other in measured if (differ := differences(name, other)) is not None}
    narrowest = all(wide < SIZE_BYTES.get(_parts(other).dtype, 1) for other in known)
    spreads = {**similarity.spreads, **({"type": UNKNOWN} if narrowest else {})}
    for other, differ in known.items():
        dtype = _parts(other).dtype
        wider = abs(math.log2(SIZE_BYTES.get(dtype, 1) / wide))
        spread = math.hypot(*(spreads[one] for one in differ))
        near.append((spread, (dtype in SINGLE) != (wanted.dtype in SINGLE), wider, other))
    return FallbackClass(min(near)[-1], min(near)[0]) if near else None


def differences(name: str, other: str) -> tuple[str, ...] | None:
    """In which of `DIFFERENCES` a measured class differs from one whose substitute it may be; None where it may not."""
    wanted, known = _parts(name), _parts(other)
    family = family_of(wanted.kind)
    moves = (family.streams or family.follows) and known.kind == "elementwise"
    tiles = (wanted.kind, known.kind) == ("convolution", "gemm") and not {wanted.dtype, known.dtype} & {*SINGLE}
    less = known.role in ("", wanted.role) and known.stored in ("", wanted.stored)
    if not less or not (wanted.kind == known.kind or moves or tiles):
        return None
    alike = not family.product or wanted.dtype == known.dtype or {wanted.dtype, known.dtype} <= {*HALF}
    differ = {name for name, value in known._asdict().items() if value != wanted._asdict()[name]}
    differ -= {"many"} if "kind" in differ else set()
    return tuple(one for one in DIFFERENCES if one in differ | (set() if alike else {"type"}))


class _NameParts(NamedTuple):
    """Of the name of a class (`class_of`); "" for those that it lacks."""

    kind: str
    dtype: str
    many: str
    role: str
    stored: str


def _parts(name: str) -> _NameParts:
    kind, dtype, *rest = name.split(".")
    many = rest.pop(0) if rest and rest[0] not in OF_STEPS else ""
    role, stored, *_ = (*rest, "", "")
    return _NameParts(kind, dtype, many, role, stored)
