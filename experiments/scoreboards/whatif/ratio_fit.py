"""How ratios scatter (`slipstick validate --refit ratios`), from pairs that `slipstick validate whatif` does not score.

Machines that a model finds alike: B200, B300, GB200 and GB300 have one chip with other clocks, memories and hosts, and
each is predicted from each other. Other sizes: products of 2, 4 and 8 times the rows and attention of twice the length,
on machines that are in no fit, and whole networks of another batch. Each number is the one with which 80 % of the
ratios lie in their bands. Kinds of kernels count alike, and chips within each: four boards of one chip are no four.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from typing import Literal

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.estimate import quantile
from slipstick.estimators.base.ratio_band import NEAR, RatioBand
from slipstick.estimators.fitting import scores
from slipstick.estimators.fitting.fitted_file import FittedFile, OuterScore, digest
from slipstick.estimators.fitting.prediction_bands import WORTH, Places, folds
from slipstick.estimators.fitting.ratio_uncertainty import NAME, OTHER_MACHINE, OTHER_NETWORKS, OTHER_SIZES
from slipstick.estimators.gpu.transfer.kernel_class import times
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.whatif.kernel_pairs import (
    SAMPLE,
    STACK,
    KernelRows,
    attention,
    products,
)
from slipstick.experiments.scoreboards.whatif.known_time import LABELS, batches
from slipstick.experiments.scoreboards.whatif.lengths import doubled

MACHINES = ("b200-sxm", "b300-sxm", "gb200", "gb300")
CHIPS = {**dict.fromkeys(MACHINES, "Blackwell"), "l40s": "Ada"}
STRANGE: dict[str, tuple[str, ...]] = {"l40s": ("L40S",), "b200-sxm": (), "b300-sxm": (), "gb200": (), "gb300": ()}
"""Machines, and which fits would know them: the calibration that ships has none of Blackwell."""
FACTORS = (2, 4, 8)
LEAST = 64
"""Rows of a product from which one is no matrix times a vector; groups of fewer pairs are left out."""
DTYPES = ("bfloat16", "float8", "float8_block")
NETWORKS = "whole networks"
SOURCES = tuple(f"{group}/{STACK.replace(' ', '/')}/*_perf.parquet" for group in ("gemm", "attention"))
NOTE = "Boards of Blackwell and an L40S (aiconfigurator), networks of NeuSight; the board whatif scores other machines."
APART, ALIKE = 1e-9, 1e9
"""`RatioBand.kept` with which two sizes err independently, and with which they do not part."""


@dataclass(frozen=True, eq=False)
class RatioRows:
    """Measured ratios beside predicted ones, arrays of shape (rows,).

    `table`: shape (4, rows): errors log(predicted / measured); the part of the half-width (log) that a number does not
        move; what it moves, the half-width for a number of 1 (`other`) or of two times that err independently (`kept`);
        |log| of the predicted ratio.
    `kind`, `chip`: of the kernels, and of the machines.
    """

    table: FloatArray
    kind: Sequence[str]
    chip: Sequence[str]

    def __add__(self, other: RatioRows) -> RatioRows:
        return RatioRows(np.hstack([self.table, other.table]), [*self.kind, *other.kind], [*self.chip, *other.chip])

    @property
    def weights(self) -> FloatArray:
        """Kinds alike, chips alike within each, rows alike within those."""
        pairs = list(zip(self.kind, self.chip, strict=True))
        rows, chips = Counter(pairs), Counter(kind for kind, _ in set(pairs))
        return np.array([1 / rows[pair] / chips[pair[0]] for pair in pairs])

    def take(self, places: Places) -> RatioRows:
        """Some of the rows, by their numbers."""
        return RatioRows(self.table[:, places], *([names[at] for at in places] for names in (self.kind, self.chip)))

    @property
    def missed(self) -> FloatArray:
        """The square of what the fixed part leaves of each error, over that of the scale; shape (rows,)."""
        errors, fixed, scale, _ = self.table
        return np.asarray(np.maximum(errors**2 - fixed**2, 0.0) / scale**2)

    def other(self) -> float:
        """`RatioBand.other` with which 80 % of the ratios lie in their bands."""
        return scores.weighted_quantile(np.sqrt(self.missed), self.weights, scores.LEVEL)

    def kept(self) -> float:
        """`RatioBand.kept` with which 80 % lie in their bands: each ratio lies inside up to one of its own."""
        with np.errstate(divide="ignore"):
            most = self.table[3] / -np.log1p(-np.minimum(self.missed, 1.0))
        return max(scores.weighted_quantile(most, self.weights, 1 - scores.LEVEL), APART)

    def half(self, other: float = 0.0, kept: float = APART) -> FloatArray:
        """Half of the band with a number, shape (rows,)."""
        _, fixed, scale, log_ratio = self.table
        moved = other if other else np.sqrt(1 - np.exp(-log_ratio / kept))
        return np.asarray(np.hypot(fixed, scale * moved))


def machine_rows() -> RatioRows:
    """All ordered pairs of machines that a model finds alike, of all kinds of kernels.

    Raises InputError where there are no public measurements.
    """
    folder = needed_folder()
    every = [*products(folder, DTYPES), *attention(folder)]
    return reduce(RatioRows.__add__, (made for kernels in every for made in _of(kernels)))


def _of(kernels: KernelRows) -> Iterator[RatioRows]:
    present = [name for name in MACHINES if (kernels.frame["machine"] == name).any()]
    fits = {name: kernels.fitted(name) for name in present}
    for before, after in permutations(present, 2):
        one = kernels.pair(before, after, fits[before], RatioBand(0.0))
        if one is not None:
            logs = np.log(one.ours)
            near = quantile(scores.LEVEL, None) * np.sqrt(1 - np.exp(-one.change / NEAR)) * np.ones(len(logs))
            errors = logs - np.log(one.measured)
            yield _rows(errors, one.half, near, np.abs(logs), kernels.name, f"{before} -> {after}")


def size_rows() -> RatioRows:
    """Kernels of other sizes on machines that are in no fit.

    Raises InputError where there are no public measurements.
    """
    folder = needed_folder()
    made = [
        _larger(kernels, name, left_out, factor)
        for kernels in products(folder, DTYPES)
        for name, left_out in STRANGE.items()
        for factor in FACTORS
    ]
    made += [_longer(kernels, name, left) for kernels in attention(folder) for name, left in STRANGE.items()]
    return reduce(RatioRows.__add__, (one for one in made if one is not None))


def _longer(kernels: KernelRows, name: str, left_out: tuple[str, ...]) -> RatioRows | None:
    """Attention of twice the length."""
    alike, apart = (doubled(kernels, name, left_out, RatioBand(0.0, kept)) for kept in (ALIKE, APART))
    if alike is None or apart is None:
        return None
    logs = np.log(alike.ours)
    scale = np.sqrt(np.maximum(apart.half**2 - alike.half**2, 1e-12))
    return _rows(logs - np.log(alike.measured), alike.half, scale, np.abs(logs), kernels.name, CHIPS[name])


def _larger(kernels: KernelRows, name: str, left_out: tuple[str, ...], factor: int) -> RatioRows | None:
    """Products of some times the rows."""
    rows = kernels.frame[(kernels.frame["machine"] == name) & (kernels.frame["n"] >= LEAST)]
    longer = rows[["m", "k", "n", "time"]].rename(columns={"n": "n_long", "time": "time_long"})
    both = rows.assign(n_long=factor * rows["n"]).merge(longer, on=["m", "k", "n_long"])
    if len(both) < LEAST:
        return None
    both = both.sample(min(SAMPLE, len(both)), random_state=0)
    board = OperationBoard(kernels.frame, kernels.kind, kernels.dtype)
    forms = [board.rows(name, both), board.rows(name, both.assign(n=both["n_long"]))]
    variants = tuple(f"{one}, {library}" for one in left_out for library in gpu_kernels().libraries)
    forecast = gpu_kernels().forecast(board.machine(name), (*left_out, *variants), ())
    label = forms[0].name
    short, long = (times([form], forecast.belief.values(label)) for form in forms)
    unshared = forecast.rule(label).scatter.unshared
    scale = quantile(scores.LEVEL, None) * np.hypot(unshared.of(short), unshared.of(long))
    logs = np.log(long / short)
    errors = logs - np.log((both["time_long"] / both["time"]).to_numpy(dtype=float))
    return _rows(errors, np.zeros(len(logs)), scale, np.abs(logs), kernels.name, CHIPS[name])


def _rows(
    errors: FloatArray, fixed: FloatArray, scale: FloatArray, log_ratio: FloatArray, kind: str, chip: str
) -> RatioRows:
    return RatioRows(np.array([errors, fixed, scale, log_ratio]), [kind] * len(errors), [chip] * len(errors))


def network_rows() -> RatioRows:
    """Whole networks of another batch.

    Raises InputError where there are no public measurements.
    """
    made = []
    for device, answers in batches():
        for place, (seconds, one) in enumerate(answers):
            for later, other in answers[place + 1 :]:
                ratio = np.log(other.time / one.time)
                unshared = [np.sqrt((s.total or 0.0) ** 2 - s.common**2) for s in (one.spread, other.spread)]
                scale = quantile(scores.LEVEL, None) * np.hypot(*unshared)
                made.append(((ratio - np.log(later / seconds), 0.0, scale, abs(ratio)), device))
    return RatioRows(np.array([row for row, _ in made]).T, [NETWORKS] * len(made), [device for _, device in made])


def drawn_to(kept: float, kernels: float, groups: int) -> float:
    """The number of whole networks, drawn in its logarithm towards that of single kernels, which is worth `WORTH`
    groups."""
    return float(np.exp((groups * np.log(kept) + WORTH * np.log(kernels)) / (groups + WORTH)))


def refit() -> FittedFile:
    """The numbers of all rows; outer folds leave a kind of kernels out, and a device that networks ran on.

    Raises InputError where there are no public measurements.
    """
    machines, sizes, networks = machine_rows(), size_rows(), network_rows()

    def of_networks(rows: RatioRows) -> float:
        return drawn_to(rows.kept(), kept, len(set(rows.chip)))

    other, kept = machines.other(), sizes.kept()
    facts = {OTHER_MACHINE: _short(other), OTHER_SIZES: _short(kept), OTHER_NETWORKS: _short(of_networks(networks))}
    outer = (
        _outer("kind of kernels unseen", "two boards of one chip", machines, machines.kind, RatioRows.other, "other"),
        _outer("kind of kernels unseen", "kernels of other sizes", sizes, sizes.kind, RatioRows.kept, "kept"),
        _outer("device unseen", "networks of another batch", networks, networks.chip, of_networks, "kept"),
    )
    folder = needed_folder()
    boards = [folder / "gpu/aiconfigurator" / name.replace("-", "_") for name in STRANGE]
    files = [folder / LABELS, *(path for board in boards for name in SOURCES for path in sorted(board.glob(name)))]
    used = sum(len(one.kind) for one in (machines, sizes, networks))
    rows = {path.relative_to(folder).as_posix(): digest(path) for path in files}
    return FittedFile(NAME, rows, used, {}, outer, NOTE, facts)


def _outer(
    held_out: str,
    title: str,
    rows: RatioRows,
    keys: Sequence[str],
    fitted: Callable[[RatioRows], float],
    number: Literal["other", "kept"],
) -> OuterScore:
    """How bands held the rows of each key, with the number that the other rows ask for."""
    half = np.empty(len(keys))
    for fold in folds(keys):
        half[fold.scored] = rows.take(fold.scored).half(**{number: fitted(rows.take(fold.known))})
    return OuterScore.of(held_out, title, len(set(keys)), np.exp(rows.table[0]), np.ones(len(keys)), half)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
