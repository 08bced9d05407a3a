"""How wide the band of a step on a GPU is, and for what: a condition each."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import share_shown
from slipstick.common.size_column import SizeColumn, Sized, aligned, largest, log, log2, number, smallest
from slipstick.estimators.base.conditions import LEFT_OUT, UNMEASURED, Condition
from slipstick.estimators.gpu.kernels.kernel_classes import class_of, of_step
from slipstick.estimators.gpu.transfer.device_calibration import Forecast
from slipstick.estimators.gpu.transfer.kernel_class import Scatter
from slipstick.estimators.gpu.transfer.pooling_constants import FARTHEST_OUT, MEASURED_RANGES, PER_OCTAVE
from slipstick.estimators.schedules.host_constants import CONVOLUTIONAL, HOST, LINKS, WHOLE
from slipstick.hwmodels.machine import HALF
from slipstick.workloads.graph.workload import Op, Workload

NODES = 15
"""Points of the quadrature over a normal law: the third digit of its moments."""
ROW = 8
"""16-bit numbers of the widest load, 16 bytes."""
UNEVEN = 0.17
"""Added where rows do not fill it: nanoGPT ran 25 % faster with 50,304 words than with 50,257 (A. Karpathy, 2023,
https://x.com/karpathy/status/1621578354024677377), taken as an end of the 80 % band; compilers pad such products."""
LEAST_SHARE = 0.05
"""Share of the time from which operations outside what was measured are named."""

ATTENTION = "attention"
UNCOUNTED = 1.0
"""Standard deviation of the log of an operation's time of which only the bytes are counted. Set by hand: no row has
such operations."""
LIBRARY, SHAPES, STORED, ROWS = "machine.runtime.library", "shapes", "weights", "rows"
"""Names of conditions that widen the band."""


@dataclass(frozen=True)
class Spent:
    """On an operation and all that are like it: seconds of one execution, and of the whole that they account for;
    `programs` is the share of whole programs in its log time (`SharedKernels.share`)."""

    op: Op
    time: Sized
    contribution: Sized
    programs: float = 0.0


@dataclass(frozen=True)
class Beyond:
    """How far an operation lies outside the shapes that its class was fitted to: the dimension that is farthest out."""

    dim: str
    value: float
    low: float
    high: float

    @property
    def octaves(self) -> float:
        """Beyond the nearer end."""
        return float(_octaves(self.value, self.low, self.high))


def beyond(op: Op) -> Beyond | None:
    """Where an operation's shape lies outside what was measured of its kind; None inside, or where nothing is known.

    Sizes must be numbers.
    """
    places = (Beyond(dim, float(op.dims[dim]), *ends) for dim, ends in _measured(op).items())
    return max((place for place in places if place.octaves > 0), key=lambda place: place.octaves, default=None)


def _octaves(value: Sized, low: float, high: float) -> Sized:
    """Beyond the nearer end of a range; 0 or less inside."""
    return log2(largest(low / value, value / high))


def _measured(op: Op) -> dict[str, tuple[float, float]]:
    """The range of each of its dimensions in what was measured of its kind; none of what a step declares a role of."""
    if of_step(class_of(op)):
        return {}
    return {dim: ends for dim, ends in _ranges(op.kind, op.dtype).items() if dim in op.dims}


@cache
def _ranges(kind: str, dtype: str) -> Mapping[str, tuple[float, float]]:
    """The range of each dimension in what was measured of a kind, or of its most usual data type."""
    names = (f"{kind}.{dtype}", f"{kind}.float32", f"{kind}.bfloat16")
    return next((MEASURED_RANGES[name] for name in names if name in MEASURED_RANGES), {})


def spread_beyond(op: Op) -> Sized:
    """What is added to the scatter of an operation's class outside of the measured shapes, standard deviation of log
    time; of sizes in columns point by point."""
    octaves = (_octaves(number(op.dims[dim]), *ends) for dim, ends in _measured(op).items())
    return smallest(FARTHEST_OUT, PER_OCTAVE * reduce(largest, octaves, 0.0))


def stored_narrower(op: Op) -> bool:
    """Whether a product's weights are stored in a narrower type than it multiplies in, which its class does not say.

    Kernels differ by a factor of two and more. Against gpt-fast's README (A100, Llama 2 7B, one sequence; 105, 156 and
    197 tokens/s with weights in BF16, INT8 and INT4) answers by 16-bit products are 18, 26 and 35 % low.
    """
    return op.kind == "gemm" and "weights" in op.attributes and not of_step(class_of(op))


def spent_on(bound: Workload, seconds: FloatArray, programs: Callable[[Op], float]) -> list[Spent]:
    """`seconds` of one execution of each distinct operation, shape (distinct,), or at many sizes (distinct, points)."""
    operations = bound.distinct.operations
    counts = np.bincount(bound.distinct.place, bound.executions, len(operations))
    each = [np.ascontiguousarray(one) for one in (seconds, (seconds.T * counts).T)]
    times, whole = (one.tolist() if one.ndim == 1 else one.view(SizeColumn) for one in each)
    return list(map(Spent, operations, times, whole, map(programs, operations)))


def uneven_share(spent: Sequence[Spent]) -> Sized:
    """Share of the time of products of 16-bit numbers whose rows do not fill the widest loads."""
    odd = sum(one.contribution * (_odd_rows(one.op) > 0) for one in spent)
    return odd / (sum(one.contribution for one in spent) or 1.0)


def _odd_rows(op: Op) -> Sized:
    """The longest of an operation's rows that do not fill the widest loads; 0 where all do."""
    half = op.kind == "gemm" and op.dtype in HALF
    # the gradient of weights reads its other operand by rows of n, the gradient of the result
    names = ("m", "k", "n") if op.attributes.get("phase") == "backward" else ("m", "k")
    sizes = [number(op.dims[name]) for name in names] if half else []
    return reduce(largest, [size * ((size > ROW) & (size % ROW != 0)) for size in sizes], 0.0)


def uneven(spent: Sequence[Spent]) -> list[Condition]:
    """Products of 16-bit numbers whose rows do not fill the widest loads; none where they take little time."""
    share = uneven_share(spent)
    if share < LEAST_SHARE:
        return []
    sizes = sorted({_odd_rows(one.op) for one in spent} - {0.0}, reverse=True)
    rows = ", ".join(f"{size:,.0f}" for size in sizes[:3])
    words = f"16-bit products with rows of {rows}, no multiple of {ROW}: {share_shown(share)} of the time"
    return [Condition(ROWS, words, UNMEASURED)]


def outside(spent: Sequence[Spent]) -> list[Condition]:
    """Shapes and stored weights that were not measured, where they take a noticeable time."""
    whole = sum(one.contribution for one in spent) or 1.0
    shares: dict[tuple[str, str], tuple[float, Beyond]] = {}
    for one in spent:
        place = beyond(one.op) if one.contribution > 0 else None
        if place is None or one.programs == 1:
            continue
        name = f"{one.op.kind}.{one.op.dtype}"
        share, farthest = shares.get((name, place.dim), (0.0, place))
        worse = max(place, farthest, key=lambda each: each.octaves)
        shares[name, place.dim] = share + one.contribution / whole, worse
    places = [
        f"{name} {dim} {place.value:,.0f} ({_range(place)}) {share_shown(share)} of the time"
        for (name, dim), (share, place) in sorted(shares.items(), key=lambda entry: -entry[1][0])
        if share >= LEAST_SHARE
    ]
    narrow = sum(one.contribution for one in spent if stored_narrower(one.op)) / whole
    made = [Condition(SHAPES, f"shapes beyond the measured: {'; '.join(places)}", UNMEASURED)] if places else []
    if narrow >= LEAST_SHARE:
        words = f"weights stored narrower than multiplied: {share_shown(narrow)} of the time"
        made.append(Condition(STORED, words, UNMEASURED))
    return made


def of_libraries(forecast: Forecast, spent: Sequence[Spent], named: str) -> list[Condition]:
    """Whose attention was fitted, where the machine names no library of these and attention takes a noticeable time.

    `named`: the library that the machine names and that was not measured, else "".
    """
    classes = {class_of(one.op) for one in spent}
    fitted = [one for one in forecast.classes if one.name.partition(".")[0] == ATTENTION]
    fitted = [one for one in fitted if one.name in classes] or fitted  # of a substitute, any
    names = sorted({fit.library for one in fitted for fit in one.fits} - {""})
    taken = sum(one.contribution * (1 - one.programs) for one in spent if one.op.kind == ATTENTION)
    share = taken / (sum(one.contribution for one in spent) or 1.0)
    ran = forecast.libraries and names and share >= LEAST_SHARE
    texts = ["not measured: kernels as of any of them"] if named else []
    texts += [f"attention as {' and '.join(names)} ran it, {share_shown(share)} of the time"] if ran else []
    return [Condition(LIBRARY, named or "not named", "file" if named else "unknown", "; ".join(texts))] if texts else []


def _range(place: Beyond) -> str:
    return f"{place.low:,.0f}" if place.low == place.high else f"{place.low:,.0f}..{place.high:,.0f}"


def band(
    scatter: Mapping[str, Scatter],
    spent: Sequence[Spent],
    stored: float,
    host: float = 0.0,
    of_programs: FloatArray | float = 0.0,
    *,
    network: bool = True,
    without: Collection[str] = (),
) -> Sized:
    """Standard deviation of log time of a whole: of one class as if all its operations erred alike, of several
    classes independently; wider beyond the measured shapes, for weights stored narrower than they are multiplied, for
    the convolutions of a `network`, and for operations of which the bytes alone are counted. Where a host issues the
    operations, in `host` seconds, either may be the longer (`longer_of`). What programs say errs by `of_programs`,
    of all or of each.

    `stored`: added where weights are stored narrower (`SimilarityWeights.spreads`).
    `without`: names of conditions that add nothing: `SHAPES`, `STORED`, `LEFT_OUT`.
    """
    names = [class_of(one.op) for one in spent]
    stds = [scatter[name].of(one.time) if name in scatter else LINKS for name, one in zip(names, spent, strict=True)]
    unmeasured = [spread_beyond(one.op) if one.contribution > 0 and SHAPES not in without else 0.0 for one in spent]
    narrow = [stored if STORED not in without and stored_narrower(one.op) else 0.0 for one in spent]
    unknown = [LEFT_OUT not in without and one.op.kind == "uncounted" for one in spent]
    programs = [one.programs for one in spent]
    of_each = np.broadcast_to(of_programs, len(spent)).tolist()
    has = aligned(
        {"stds": stds, "unmeasured": unmeasured, "narrow": narrow, "programs": programs, "of programs": of_each,
         "unknown": unknown}
    )  # fmt: skip
    alone = np.hypot(np.hypot(has["stds"], has["unmeasured"]), has["narrow"])
    errors: dict[str, Sized] = {}
    whole: Sized = 0.0
    convolutions: Sized = 0.0
    known = np.hypot((1 - has["programs"]) * alone, has["programs"] * has["of programs"])
    known = np.where(has["unknown"], UNCOUNTED, known)
    for one, name, std in zip(spent, names, known.tolist() if known.ndim == 1 else known.view(SizeColumn), strict=True):
        errors[name] = errors.get(name, 0.0) + std * one.contribution
        whole += one.contribution
        convolutions += one.contribution * (1 - one.programs) if one.op.kind == "convolution" else 0.0
    kernels = number(np.sqrt(sum(error**2 for error in errors.values())) / (whole or 1.0))
    if network:
        kernels = number(np.hypot(kernels, CONVOLUTIONAL * smallest(1.0, 4 * convolutions / (whole or 1.0))))
    return number(np.hypot(longer_of(whole, kernels, host, HOST), WHOLE))


def longer_of(device: Sized, of_device: Sized, host: float, of_host: float) -> Sized:
    """Root mean square of log(longer / the longer of two times), each of a normal logarithm.

    `device`, `host`: seconds.
    `of_device`, `of_host`: standard deviations of their logs.

    Examples
    --------
    A device that takes much longer than its host, a host that takes much longer, and both alike:

    >>> [round(longer_of(one, 0.1, other, 0.6), 2) for one, other in ((1.0, 0.01), (0.01, 1.0), (1.0, 1.0))]
    [0.1, 0.6, 0.43]
    """
    if host <= 0 or device <= 0:
        return of_device
    points, weights = _nodes()
    sides = log(device), of_device, log(largest(device, host))
    center, scatter, middle = (np.asarray(each)[..., None, None] for each in sides)
    longer = np.maximum(center + scatter * points[:, None], math.log(host) + of_host * points[None, :])
    squares = (longer - middle) ** 2
    mean = np.sum(weights[:, None] * weights[None, :] * squares, axis=(-2, -1)) / (2 * np.pi)
    return number(np.sqrt(mean).view(SizeColumn) if np.ndim(mean) else np.sqrt(mean))


@cache
def _nodes() -> tuple[FloatArray, FloatArray]:
    """Of Gauss's rule for normal distributions, and their weights; each of shape (NODES,)."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return points, weights
