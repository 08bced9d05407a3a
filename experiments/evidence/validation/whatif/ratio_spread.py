"""How ratios scatter, from pairs that no board scores: ``python -m ...validation.whatif.ratio_spread`` prints both.

Machines that a model finds alike: B200, B300, GB200 and GB300 have one chip with other clocks, memories and hosts, and
each is predicted from each other. Other sizes: products of 2, 4 and 8 times the rows, and attention of twice the
length, on machines that are in no fit.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from slipstick.estimators.across_devices.kernel_class import times
from slipstick.estimators.core.estimate import quantile
from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.learning import scores
from slipstick.estimators.tuned.tuned_ratios import NEAR, OTHER_MACHINE, OTHER_SIZES
from slipstick.experiments.calibrate.public_data import needed_folder
from slipstick.experiments.evidence.validation.gpu.gpu_boards import OperationBoard
from slipstick.experiments.evidence.validation.whatif.kernel_pairs import SAMPLE, KernelRows, attention, products
from slipstick.experiments.evidence.validation.whatif.lengths import doubled
from slipstick.experiments.evidence.validation.whatif.ratios import Ratios
from slipstick.experiments.question.defaults import gpu_kernels

MACHINES = ("b200-sxm", "b300-sxm", "gb200", "gb300")
STRANGE: dict[str, tuple[str, ...]] = {"l40s": ("L40S",), "b200-sxm": (), "b300-sxm": (), "gb200": (), "gb300": ()}
"""Machines, and which fits would know them: the calibration that ships has none of Blackwell."""
FACTORS = (2, 4, 8)
LEAST = 64
"""Rows of a product from which one is no matrix times a vector; groups of fewer pairs are left out."""


def pairs() -> list[Ratios]:
    """All ordered pairs of all classes.

    Raises InputError where there are no public measurements.
    """
    folder = needed_folder()
    result: list[Ratios] = []
    for kernels in [*products(folder, ("bfloat16", "float8")), *attention(folder)]:
        present = [name for name in MACHINES if (kernels.frame["machine"] == name).any()]
        result += _of(kernels, present)
    return result


def _of(kernels: KernelRows, present: list[str]) -> list[Ratios]:
    fits = {name: kernels.fitted(name) for name in present}
    made = [kernels.pair(before, after, fits[before]) for before, after in permutations(present, 2)]
    return [one for one in made if one is not None]


def spread(known: list[Ratios]) -> float:
    """The standard deviation with which 80 % of the ratios lie in their bands; each pair counts alike."""
    normal = quantile(scores.LEVEL, None)
    candidates = np.geomspace(0.005, 0.5, 200)
    covered = []
    for value in candidates:
        inside = []
        for one in known:
            floor = normal * OTHER_MACHINE * np.sqrt(1 - np.exp(-one.change / NEAR))
            rest = np.sqrt(np.maximum(one.half**2 - floor**2, 0.0))
            half = np.hypot(rest, floor * value / OTHER_MACHINE)
            inside.append(float(np.mean(scores.log_errors(one.ours, one.measured) <= half)))
        covered.append(float(np.mean(inside)))
    return float(candidates[int(np.argmin(np.abs(np.array(covered) - scores.LEVEL)))])


def sizes() -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """(log ratio, error, half-width if the two times erred independently) of each class, machine and factor.

    Raises InputError where there are no public measurements.
    """
    folder = needed_folder()
    result = [
        one
        for kernels in products(folder, ("bfloat16", "float8"))
        for name, left_out in STRANGE.items()
        for factor in FACTORS
        if (one := _larger(kernels, name, left_out, factor)) is not None
    ]
    for kernels in attention(folder):
        for name, left_out in STRANGE.items():
            made = doubled(kernels, name, left_out)
            if made is not None:
                errors = scores.log_errors(made.ours, made.measured)
                apart = np.sqrt(1 - np.exp(-np.abs(np.log(made.ours)) / OTHER_SIZES))
                result.append((np.abs(np.log(made.ours)), errors, made.half / apart))
    return result


def _larger(
    kernels: KernelRows, name: str, left_out: tuple[str, ...], factor: int
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
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
    scatter = forecast.rule(label).scatter
    half = quantile(scores.LEVEL, None) * np.hypot(scatter.of(short), scatter.of(long))
    logs = np.log(long / short)
    return np.abs(logs), np.abs(logs - np.log((both["time_long"] / both["time"]).to_numpy(dtype=float))), half


def kept(known: list[tuple[FloatArray, FloatArray, FloatArray]]) -> float:
    """`RatioBand.kept` of other sizes with which 80 % of the ratios lie in their bands; each group counts alike."""
    candidates = np.geomspace(0.1, 10, 100)
    covered = [
        np.mean([np.mean(error <= half * np.sqrt(1 - np.exp(-ratio / value))) for ratio, error, half in known])
        for value in candidates
    ]
    return float(candidates[int(np.argmin(np.abs(np.array(covered) - scores.LEVEL)))])


if __name__ == "__main__":
    everything = pairs()
    print(f"OTHER_MACHINE = {spread(everything):.3f} from {len(everything)} pairs")
    for left in sorted({one.case.partition(",")[0] for one in everything}):
        rest = [one for one in everything if not one.case.startswith(left)]
        print(f"  without {left}: {spread(rest):.3f}")
    groups = sizes()
    print(f"OTHER_SIZES = {kept(groups):.2f} from {len(groups)} groups of class, machine and factor")
