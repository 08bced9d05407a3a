"""One clock, one power cap, or twice the cores: kernels and programs measured on one machine as it was changed.

CUDA kernels of the SDK (NV-DVFS-Benchmark) whose sources say what they compute, at core clocks below the highest; whole
programs and a matrix product under power caps; streams of likwid-bench on twice the cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.frames import csv_frame
from slipstick.estimators.composition.power_capped import CAP
from slipstick.estimators.cpu.multicore_loops import MulticoreLoops
from slipstick.estimators.power.power_limit import PowerLimit
from slipstick.estimators.power.power_limit_run import PowerLimitRun
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.scoreboards.cpu.bandwidth_board import chip_of
from slipstick.experiments.scoreboards.cpu.bandwidth_data import FILE as STREAMS
from slipstick.experiments.scoreboards.cpu.bandwidth_data import read_bandwidths
from slipstick.experiments.scoreboards.cpu.loop_scores import chosen, law_rows, streams_of, sweep
from slipstick.experiments.scoreboards.energy.power_limit_scores import FILE as LIMITS
from slipstick.experiments.scoreboards.energy.power_limit_scores import board_of, fitted, limited_runs
from slipstick.experiments.scoreboards.whatif.asked_changes import Change, ratios
from slipstick.experiments.scoreboards.whatif.ratios import SAME_HOST, Ratios
from slipstick.experiments.scoring.score import Data
from slipstick.experiments.scoring.unseen_answers import kernel
from slipstick.hwmodels.catalog import machine, machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.layers.single import gemm

if TYPE_CHECKING:
    import pandas as pd

FILE = "whatif/clocks_and_caps.csv.gz"
CLOCK = "machine.clock"
SAME_CHIP = {"Quadro RTX 8000": "quadro-rtx-6000"}
"""Boards that the catalogue lacks, and those of the same chip, clock and memory bandwidth (Turing whitepaper)."""
BEYOND = 0.2
"""Share of a device's kernels that a clock may slow by more than its ratio: at more of them it was not the clock alone
that changed (a V100 below 700 MHz: up to 7 times slower at 1 / 3.4 of the clock)."""


def _dims(**dims: float) -> dict[str, Any]:
    return dims


OPTIONS, LINE, ROWS, WALSH = 28_672_000, 8192.0, 10_240.0, 2.0**28
CUDA_KERNELS: dict[str, Op] = {
    "BlackScholes": operation(
        "k", "elementwise", _dims(elements=2 * OPTIONS, reads=3 * OPTIONS, writes=2 * OPTIONS), "float32"
    ),
    "matrixMul": gemm("k", 2048, 2048, 2048),
    "scalarProd": operation("k", "reduction", _dims(elements=2 * OPTIONS, outputs=64), "float32"),
    "transpose": operation("k", "move", _dims(reads=LINE**2, writes=LINE**2), "float32"),
    "fastWalshTransform": operation("k", "move", _dims(reads=WALSH, writes=WALSH), "float32"),
    "convolutionSeparable": operation(
        "k", "convolution",
        _dims(batch=1, channels_in=1, channels_out=1, groups=1, in_depth=1, in_height=ROWS, in_width=ROWS + 16,
              out_depth=1, out_height=ROWS, out_width=ROWS, kernel_depth=1, kernel_height=1, kernel_width=17),
        "float32", {"stride": (1, 1)},
    ),
}  # fmt: skip
"""Kernels of the CUDA samples at the sizes of their command lines: five arrays of options, 2048 x 2048 tiles, two
vectors, 8192 x 8192 elements moved, one pass over 2^28 floats, rows under 17 taps."""


RUN = kernel(gemm("run", 1, 1, 1))
"""Stands for what ran: a measured run answers whatever it was."""


def clocks(data: Data) -> list[Ratios]:
    """CUDA kernels at lower core clocks, of which the time at the highest is known; the memory's clock stays."""
    frame = _frame(data)
    result: list[Ratios] = []
    for device, rows in frame[frame.kernel.notna() & frame.core_clock_hz.notna()].groupby("device"):
        if (board := _machine(str(device))) is None:
            continue
        usable = _usable(rows)
        for program, op in CUDA_KERNELS.items():
            mine = usable[usable.program == program]
            if mine.empty:
                continue
            here = board.using(clock=float(mine.top.iloc[0]))
            pairs = [Change(kernel(op), here, {CLOCK: clock}, ratio) for clock, ratio in _pairs(mine, "core_clock_hz")]
            differs = f"{CLOCK} {here.clock / 1e6:.0f} -> {mine.core_clock_hz.min() / 1e6:.0f} MHz and more"
            result += ratios(f"{program}, {device}", "the kernel", differs, pairs, noise=SAME_HOST)
    return result


def _usable(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows below the highest clock, with their ratio to it; without clocks that changed more than themselves."""
    keys = ["program", "argument", "kernel"]
    top = float(rows.core_clock_hz.max())
    base = rows[rows.core_clock_hz == top].set_index(keys).time_s.rename("base")
    lower = rows[rows.core_clock_hz < top].join(base, on=keys).dropna(subset="base").assign(top=top)
    lower["ratio"] = lower.time_s / lower.base
    odd = lower.ratio * lower.core_clock_hz / top > np.exp(SAME_HOST)
    usable: pd.DataFrame = lower[odd.groupby(lower.core_clock_hz).transform("mean") <= BEYOND]
    return usable


def _pairs(frame: pd.DataFrame, changed: str) -> list[tuple[float, float]]:
    """A column that changes beside the measured ratio."""
    return [(float(row[changed]), float(row["ratio"])) for row in frame.to_dict("records")]


def caps(data: Data) -> list[Ratios]:
    """Programs and a product under power caps; of the programs time and power under the highest one are known."""
    frame = _frame(data)
    frame = frame[frame.power_cap_w.notna() & frame.core_clock_hz.notna() & frame.kernel.isna()]
    result: list[Ratios] = []
    for name, rows in frame.groupby(frame.program + ", " + frame.device):
        if (board := _machine(str(rows.device.iloc[0]))) is None:
            continue
        fastest = rows[rows.core_clock_hz == rows.core_clock_hz.max()].sort_values("power_cap_w")
        free = fastest.iloc[-1]
        run = PowerLimitRun(float(free.time_s), float(free.mean_power_w))
        result += _capped(str(name), board, RUN, fastest, run)
    alone = _frame(data)
    for device, rows in alone[alone.kernel.astype(str).str.fullmatch(r"cap-\d+w")].groupby("device"):
        if (board := _machine(str(device))) is not None:
            product = kernel(gemm("product", 8192, 8192, 8192, dtype="bfloat16"))
            result += _capped(f"8,192-wide bfloat16 product, {device}", board, product, rows.sort_values("power_cap_w"))
    return result


def _capped(
    case: str, board: Machine, work: Workload, rows: pd.DataFrame, run: PowerLimitRun | None = None
) -> list[Ratios]:
    """Rows by their cap, of which the last one is known."""
    lower = rows.iloc[:-1].assign(ratio=rows.time_s / float(rows.time_s.iloc[-1]))
    pairs = [Change(work, board, {CAP: cap}, ratio, run) for cap, ratio in _pairs(lower, "power_cap_w")]
    differs = f"{CAP} {board.power.cap:g} W -> {rows.power_cap_w.min():g} W and more"
    return ratios(case, "the board", differs, pairs, noise=SAME_HOST)


def limits(data: Data) -> list[Ratios]:
    """Epochs of training under a power limit, each device from the others; the run without it is known."""
    known, tested = (limited_runs(csv_frame(path)) for path in (data.known(LIMITS), data.judged(LIMITS)))
    result: list[Ratios] = []
    for device in sorted(tested.gpu.unique()):
        mine, others = tested[tested.gpu == device], known[known.gpu != device]
        board = board_of(device)
        if board is None or others.empty:
            continue
        law = fitted(others)
        free = others[others.power_limit_w >= others.mean_power_w_free]
        noise = float(np.std(np.log(free.epoch_s / free.epoch_s_free)))
        note = f"a direction is more than {noise:.1%}, runs that no limit touches elsewhere"
        differs = f"{CAP} {board.power.cap:g} W -> {mine.power_limit_w.min():g} .. {mine.power_limit_w.max():g} W"
        pairs = _limited(mine, board, law)
        result += ratios(f"power limit, {device}", str(device), differs, pairs, note, noise)
    return result


def _limited(runs: pd.DataFrame, board: Machine, law: PowerLimit) -> Iterator[Change]:
    for row in runs.to_dict("records"):
        run = PowerLimitRun(float(row["epoch_s_free"]), float(row["mean_power_w_free"]), law)
        ratio = float(row["epoch_s"] / row["epoch_s_free"])
        yield Change(RUN, board, {CAP: float(row["power_limit_w"])}, ratio, run)


def cores(data: Data) -> list[Ratios]:
    """Streams of main memory on twice the cores, of CPUs of which no row was fitted."""
    known, tested = (
        {name: one for name, each in read_bandwidths(path).items() if (one := streams_of(each)) is not None}
        for path in (data.known(STREAMS), data.judged(STREAMS))
    )
    result: list[Ratios] = []
    for name, one in tested.items():
        model = chosen([law_rows(other) for label, other in known.items() if chip_of(label) != chip_of(name)])
        answers = MulticoreLoops(model, Sequential(), "streams from the data sheet")
        seconds = dict(zip(zip(one.loops, one.cores, strict=True), one.seconds, strict=True))
        pairs = [
            Change(
                Workload(loop, sweep(loop)), one.machine, {"run.threads": 2.0 * n}, float(then / now),
                estimator=answers, settings={"run.threads": float(n)},
            )
            for (loop, n), now in seconds.items()
            if (then := seconds.get((loop, 2 * n))) is not None
        ]  # fmt: skip
        result += ratios(f"streams, {name}", "the chip", "run.threads x 2", pairs, noise=SAME_HOST)
    return result


def _frame(data: Data) -> pd.DataFrame:
    """Rows without a doubt; of Breeze's mean power, which only its own time is scored with, too."""
    frame = csv_frame(data.judged(FILE))
    return frame[frame.suspicious.isna() | (frame.program == "breeze")]


def _machine(device: str) -> Machine | None:
    return machine(SAME_CHIP[device]) if device in SAME_CHIP else machine_of_device(device)
