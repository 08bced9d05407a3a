"""What-ifs judged: pairs of measurements between which one or few fields changed, scored as ratios of their times.

One side is measured and known, the other was in no fit: an A100 of 40 or 80 GB, H100 and H200, cards of one chip, a
lower clock, a power limit, twice the cores, a cloud instance with fewer cores, loading workers, a longer sequence.
Each is asked as a user asks: a question whose machine or run changes. Beside "no change" (the ratio is 1) and the data
sheet's roofline: error of the ratio, its direction, whether the changed part bounds, and how often the 80 % band of the
ratio holds. Nothing was chosen on these pairs.

Image networks of the DLBricks authors as graphs of their layers, with their whole latency on each instance.

One clock, one power cap, or twice the cores: kernels and programs measured on one machine as it was changed.

CUDA kernels of the SDK (NV-DVFS-Benchmark) whose sources say what they compute, at core clocks below the highest; whole
programs and a matrix product under power caps; streams of likwid-bench on twice the cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.frames import csv_frame
from slipstick.estimators.composition.power_capped import CAP
from slipstick.estimators.cpu.multicore_loops import MulticoreLoops
from slipstick.estimators.power.power_limit import PowerLimit
from slipstick.estimators.power.power_limit_run import PowerLimitRun
from slipstick.estimators.schedules.sequential import Sequential
from slipstick.experiments.replay.trace_whatif import TraceChange, trace_whatif
from slipstick.experiments.scoreboards.cpu.bandwidth_board import chip_of
from slipstick.experiments.scoreboards.cpu.bandwidth_data import FILE as STREAMS
from slipstick.experiments.scoreboards.cpu.bandwidth_data import read_bandwidths
from slipstick.experiments.scoreboards.cpu.loop_scores import chosen, law_rows, streams_of, sweep
from slipstick.experiments.scoreboards.dlbricks.layer_tables import CONVOLUTION, FILE, KINDS, layer_frame
from slipstick.experiments.scoreboards.energy.power_limit_scores import FILE as LIMITS
from slipstick.experiments.scoreboards.energy.power_limit_scores import board_of, fitted, limited_runs
from slipstick.experiments.scoreboards.programs.program_data import machine_of, programs, times
from slipstick.experiments.scoreboards.whatif.asked_changes import Change, of_machines, ratios
from slipstick.experiments.scoreboards.whatif.kernel_pairs import (
    KernelRows,
    attention,
    deepbench,
    products,
    single_precision,
)
from slipstick.experiments.scoreboards.whatif.lengths import longer
from slipstick.experiments.scoreboards.whatif.ratios import ALIKE, SAME_HOST, Ratios, together
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Score, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.unseen_answers import Fits, kernel, unseen
from slipstick.hwmodels.catalog import aliases, machine, machine_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.cost import Amount
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Op, Workload
from slipstick.workloads.importers.traces.kineto_graph import read_trace_graph
from slipstick.workloads.layers.single import gemm

if TYPE_CHECKING:
    import pandas as pd


CLOCKED = "whatif/clocks_and_caps.csv.gz"
CLOCK = "machine.clock"
SAME_CHIP = {"Quadro RTX 8000": "quadro-rtx-6000"}
"""Boards that the catalogue lacks, and those of the same chip, clock and memory bandwidth (Turing whitepaper)."""
BEYOND = 0.2
"""Share of a device's kernels that a clock may slow by more than its ratio: at more of them it was not the clock alone
that changed (a V100 below 700 MHz: up to 7 times slower at 1 / 3.4 of the clock)."""


def _layer_dims(**dims: float) -> dict[str, Any]:
    return dims


OPTIONS, LINE, ROWS, WALSH = 28_672_000, 8192.0, 10_240.0, 2.0**28
CUDA_KERNELS: dict[str, Op] = {
    "BlackScholes": operation(
        "k", "elementwise", _layer_dims(elements=2 * OPTIONS, reads=3 * OPTIONS, writes=2 * OPTIONS), "float32"
    ),
    "matrixMul": gemm("k", 2048, 2048, 2048),
    "scalarProd": operation("k", "reduction", _layer_dims(elements=2 * OPTIONS, outputs=64), "float32"),
    "transpose": operation("k", "move", _layer_dims(reads=LINE**2, writes=LINE**2), "float32"),
    "fastWalshTransform": operation("k", "move", _layer_dims(reads=WALSH, writes=WALSH), "float32"),
    "convolutionSeparable": operation(
        "k", "convolution",
        _layer_dims(batch=1, channels_in=1, channels_out=1, groups=1, in_depth=1, in_height=ROWS, in_width=ROWS + 16,
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
    frame = csv_frame(data.judged(CLOCKED))
    return frame[frame.suspicious.isna() | (frame.program == "breeze")]


def _machine(device: str) -> Machine | None:
    return machine(SAME_CHIP[device]) if device in SAME_CHIP else machine_of_device(device)


PROGRAMS = 60
"""Programs of a pair that are predicted: every so many in the order of their problems."""
CLOUD = (("ec2-c5-2xlarge", "ec2-c5-xlarge"), ("ec2-c5-2xlarge", "ec2-c5-large"), ("ec2-c5-xlarge", "ec2-c5-large"))
HOSTS = (
    ("v0", "A100_modal", "A100-80GB_modal", 0.19),
    ("v0.1", "H100_PCIe_LambdaLabs", "H100_Modal", ALIKE),
)
"""KernelBench's cohort, hosts of today's machine and of the other, and |log ratio| below which there is no direction:
in the first cohort, which is bound by the host, programs on one GPU differ by 19 % between hosts."""


def cloud(data: Data) -> list[Ratios]:
    """Image networks on instances of one family with more or fewer cores (DLBricks)."""
    known = networks(data)
    result: list[Ratios] = []
    for before, after in CLOUD:
        here, there = machine(before), machine(after)
        both = [one for one in known if {before, after} <= {*one.seconds}]
        pairs = ((one.workload, one.seconds[after] / one.seconds[before]) for one in both)
        result += of_machines(f"image networks, {before} -> {after}", here, there, pairs)
    return result


def compared_programs(data: Data) -> list[Ratios]:
    """PyTorch programs of KernelBench on two GPUs of one generation, the second one in no fit."""
    folder = data.scored or data.folder
    known = programs(folder)
    result: list[Ratios] = []
    for cohort, before, after, noise in HOSTS:
        frame = times(folder, cohort)
        if frame.empty or not known:
            continue
        eager = frame[(frame["mode"] == "eager") & frame["source"].isin(list(known))]
        both = _joined(eager, before, after)
        if both.empty:
            continue
        here, there = (machine(machine_of(str(both[name].iloc[0]))) for name in ("device", "device_after"))
        fits = Fits(unseen([there], [here]))
        some = both.iloc[:: max(1, len(both) // PROGRAMS)]
        ratios = (some["mean_s_after"] / some["mean_s"]).to_numpy(dtype=float)
        pairs = []
        for source, ratio in zip(some["source"].tolist(), ratios, strict=True):
            program = known[str(source)]
            if not program.unread and program.operations:
                graph = Workload("program", program.operations, program.edges)
                pairs.append((graph, float(ratio)))
        note = f"hosts {before} and {after}" + (", mostly bound by the host" if cohort == "v0" else "")
        case = f"PyTorch programs ({cohort}), {before} -> {after}"
        result += of_machines(case, here, there, pairs, fits, note, noise)
    return result


def _joined(frame: pd.DataFrame, before: str, after: str) -> pd.DataFrame:
    first, second = (frame[frame["machine"] == name] for name in (before, after))
    return first.merge(second, on=["source", "level", "problem"], suffixes=("", "_after")).sort_values(
        ["level", "problem"]
    )


LATENCIES = "dlbricks/end_to_end.csv"


@dataclass(frozen=True)
class CloudNetwork:
    """A network's layers, and its latency [s] by machine."""

    workload: Workload
    seconds: dict[str, float]


def networks(data: Data) -> list[CloudNetwork]:
    """Networks with layers and latencies: their convolutions, norms and elementwise layers, nearly all of the time."""
    layers, latencies = layer_frame(data.known(FILE)), csv_frame(data.judged(LATENCIES))
    names = {word: name for name, words in aliases().items() for word in words}
    by_model = {str(model): part for model, part in latencies.groupby("model")}
    result = []
    for model, part in layers.groupby("model_name"):
        rows = by_model.get(str(model))
        operations = _operations(part)
        if rows is None or not any(op.kind == "convolution" for op in operations):
            continue
        known = rows[rows["instance"].isin(list(names))]
        instances, times = known["instance"].tolist(), known["trimmed_mean_us"].to_numpy(dtype=float) * 1e-6
        seconds = {names[str(one)]: float(time) for one, time in zip(instances, times, strict=True)}
        result.append(CloudNetwork(Workload(str(model), tuple(operations)), seconds))
    return result


def _operations(frame: pd.DataFrame) -> list[Op]:
    kinds = {word: kind for kind, word in KINDS.items()}
    operations: list[Op] = []
    for row in frame[frame["kind"].isin(list(kinds))].to_dict("records"):
        kind, name = kinds[str(row["kind"])], f"{len(operations)}.{row['kind']}"
        dims, facts = _dims(kind, row)
        operations.append(operation(name, kind, dims, "float32", facts))
    return operations


def _dims(kind: str, row: dict[Any, Any]) -> tuple[dict[str, Amount], dict[str, Any]]:
    outputs = int(row["outputs"])
    if kind == "norm":
        return {"elements": outputs, "groups": int(row["output_channel"])}, {}
    if kind == "elementwise":
        return {"elements": outputs, "reads": outputs, "writes": outputs}, {}
    dims: dict[str, Amount] = {f"{part}_depth": 1 for part in ("in", "out", "kernel")}
    dims |= {ours: int(row[theirs]) for ours, theirs in CONVOLUTION.items()}
    stride = int(row["stride_1"])
    return {**dims, "batch": 1}, {"stride": (stride, stride)}


SAME_CHIPS = (
    ("h100-sxm", "h200-sxm"),
    ("h200-sxm", "h100-sxm"),
    ("h100-pcie", "h100-sxm"),
    ("a100-pcie-40gb", "a100-pcie-80gb"),
)
"""Machines of one chip of which serving stacks and NeuSight timed the same kernels."""
CARDS = (("vega-fe", "mi25"), ("gtx-1080-ti", "titan-xp"), ("m40", "titan-x-maxwell"))
"""Cards of one chip (Vega 10, GP102, GM200) that DeepBench timed under the same release of their maker's libraries."""
ALL = "all pairs, each case alike"
NONE, FOUR = "resnet50_num_workers_0", "resnet50_num_workers_4"


def _kernels(data: Data) -> list[Ratios]:
    """Kernels of an H100 and an H200, of the A100's two memories, and of cards of one chip that DeepBench timed."""
    folder = data.scored or data.folder
    serving: Iterable[KernelRows] = [
        *products(folder, ("bfloat16", "float8", "float8_block")),
        *attention(folder),
        *single_precision(folder),
    ]
    made = [one.ratios(*pair) for one in serving for pair in SAME_CHIPS]
    made += [one.ratios(*pair) for one in deepbench(folder) for pair in CARDS]
    if not (known := [one for each in made for one in each]):
        raise MissingError(f"no kernels of two such machines in {folder}")
    return known


def _workers(data: Data) -> list[Ratios]:
    """A training step whose images are loaded in the loop, from there to four loading processes."""
    files = sorted(((data.scored or data.folder) / "traces").rglob("*.json*"))
    graphs = {path: read_trace_graph(path) for path in files if NONE in path.name or FOUR in path.name}
    after = [float(np.median(graph.measured_steps)) for path, graph in graphs.items() if FOUR in path.name]
    if not after:
        raise MissingError("no traces with num_workers 0 and 4")
    result = []
    for path, graph in graphs.items():
        if NONE not in path.name:
            continue
        answer, today = trace_whatif(graph, TraceChange(workers=4)), float(np.median(graph.measured_steps))
        half = np.array([0.5 * np.log(answer.high / answer.low)])
        ours, measured = (np.array([seconds / today]) for seconds in (answer.after.step, float(np.median(after))))
        result.append(
            Ratios(f"loading workers, {path.name[:60]}", FOUR, "run.workers 0 -> 4", measured, ours, half, 0.0)
        )
    return result


@cache
def _made(name: str, data: Data) -> tuple[Ratios, ...]:
    """The ratios of a part; kept, since they are scored one by one and together."""
    return tuple(PARTS[name](data))


def _rows(name: str) -> Score:
    def scored(data: Data) -> Iterator[Scored | ValidationRow]:
        if not (made := _made(name, data)):
            raise MissingError(f"no two rows that differ in one part in {data.scored or data.folder}")
        yield from (one.scored() for one in made)
        yield from together(f"all {name}, each case alike", made).judged(name)

    return scored


def _together(data: Data) -> Iterator[Scored | ValidationRow]:
    """All cases as one."""
    known: list[Ratios] = []
    for name in PARTS:
        try:
            known += _made(name, data)
        except InputError:  # the part has a skipped row of its own
            continue
    if known:
        yield from together(ALL, known).judged("all pairs")


PARTS: dict[str, Callable[[Data], list[Ratios]]] = {
    "kernels": _kernels,
    "programs": compared_programs,
    "clocks": clocks,
    "power limits": lambda data: [*limits(data), *caps(data)],
    "cores": cores,
    "cloud instances": cloud,
    "loading workers": _workers,
    "lengths": longer,
}
BOARD = Board(
    "How much faster or slower does it get when one part of the machine, the run or the workload changes?",
    {**{name: _rows(name) for name in PARTS}, "all pairs": _together},
    (
        Front(
            "How much faster with another memory, limit or instance?",
            "the second machine",
            ALL,
            "the second of each pair",
        ),
    ),
)
