"""Times of single operations, whole models and power on GPUs that no fit has seen, beside rooflines.

Every machine of a case is left out in turn with all its rows, of every file; relatives of the same chip stay unless the
case names a generation. With `--data` the rows below that folder are scored: their keys leave the training data, and
a machine of which nothing else is left is new.

Kernels of serving that Frontier's profiler timed, by the default answer: no row of them is in any fit.

NetX-lab/Frontier timed vLLM's kernels alone on an H800 (Llama 3.1 405B with FP8 weights, Llama 2 7B), and FlashInfer's
attention on an H100 with whatever starts it, in whole microseconds: these are not mixed. Of other models in its tables
the head size is not stated. What is marked as faster than reading the cache is left out.

Mean power of kernels (aiconfigurator, vllm 0.22.0) on a machine, or a kind of kernel, that was not fitted.

Speed-ups of one machine over another that was measured, the new one left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.expressions import sp
from slipstick.common.frames import csv_frame
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.estimators.fitting.scores import mean_error
from slipstick.estimators.gpu.transfer.operation_times import Anchor, taken
from slipstick.estimators.power.energy import MATRIX_ENERGY, NAMES, PowerModel
from slipstick.estimators.symbolic.lambdified import evaluate
from slipstick.experiments.scoreboards.gpu import gpu_data, gpu_tables
from slipstick.experiments.scoreboards.gpu.gpu_cases import GpuCase, cases
from slipstick.experiments.scoreboards.gpu.gpu_data import aiconfigurator
from slipstick.experiments.scoreboards.gpu.gpu_scores import ENOUGH, LONG, score, scored_parts, thinned
from slipstick.experiments.scoreboards.gpu.gpu_tables import OperationBoard
from slipstick.experiments.scoreboards.gpu.other_programs import scored_operations
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Part, Scored, guarded
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.kinds import KINDS, operation
from slipstick.workloads.graph.op import Op
from slipstick.workloads.layers.single import gemm

if TYPE_CHECKING:
    import pandas as pd


LINEAR, ATTENTION = "gpu/frontier/linear.csv.gz", "gpu/frontier/attention.csv.gz"
HEAD = 128
"""Numbers a head of each model below (their config.json)."""
TYPES = {"Llama-3.1-405B-Instruct-FP8": "float8", "llama2_7b_dense_example": "float16"}
"""Models whose head size is known, and the type of their products."""
MACHINES = {"h800": "h800-sxm", "h100": "h100-sxm", "a100": "a100-sxm-80gb"}
PRODUCTS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
EVERY = 8
"""So many rows apart are scored: neighbours in tokens are alike."""


def frontier_rows(data: Data) -> Iterator[Scored]:
    """Products, decode and prefill attention by device."""
    frame = _plain(csv_frame(data.judged(LINEAR)))
    for (device, model), part in frame[frame["operation"].isin(PRODUCTS)].groupby(["device", "model"]):
        mine = part.iloc[::EVERY]
        products = [_product(row, TYPES[str(model)]) for row in mine.itertuples()]
        yield from scored_operations(
            f"products of {model}, H800", machine(MACHINES[str(device)]), products, mine["time_s"]
        )
    frame = _plain(csv_frame(data.judged(ATTENTION)), "qwen2_moe_example")
    one = frame["file"] != "attention_combined_kernel_only"  # those mix sequences that are read and decoded
    for (device, name), part in frame[one].groupby(["device", "operation"]):
        if name in ("attn_decode", "attn_prefill"):
            mine = part.iloc[::EVERY]
            made = [_attention(row) for row in mine.itertuples()]
            what = f"{str(name).removeprefix('attn_')} attention, {str(device).upper()}"
            yield from scored_operations(what, machine(MACHINES[str(device)]), made, mine["time_s"])


def _plain(frame: pd.DataFrame, *more: str) -> pd.DataFrame:
    known = frame["model"].isin([*TYPES, *more]) & frame["device"].isin(list(MACHINES))
    return frame[known & frame["suspicious"].isna() & (frame["time_s"] > 0)]


def _product(row: Any, dtype: str) -> Op:
    """A product of a layer under tensor parallelism; a gated network's first product makes both halves."""
    ways, width, inner = row.num_tensor_parallel_workers, row.n_embd, row.n_expanded_embd
    features, inputs = {
        "attn_pre_proj": ((row.n_head + 2 * max(row.n_kv_head, ways)) * HEAD / ways, width),
        "attn_post_proj": (width, row.n_head * HEAD / ways),
        "mlp_up_proj": (2 * inner / ways, width),
        "mlp_down_proj": (width, inner / ways),
    }[row.operation]
    return gemm("product", float(features), float(row.num_tokens), float(inputs), dtype=dtype)


def _attention(row: Any) -> Op:
    """Sequences of one length: their new tokens read the cache and themselves."""
    ways, queries = row.num_tensor_parallel_workers, max(1, row.prefill_chunk_size)
    heads = {"heads": row.n_q_head / ways, "kv_heads": max(1, row.n_kv_head / ways)}
    sizes = {"queries": queries, "keys": row.kv_cache_size + queries, "head_dim": HEAD, "value_dim": HEAD}
    causal = row.operation == "attn_prefill"
    return operation(
        "attention", "attention", {"batch": row.batch_size, **heads, **sizes}, "bfloat16", {"causal": causal}
    )


POWER = "power, aiconfigurator"
GOAL = 0.20
KINDS_OF = {
    "gemm": ("gemm", {}),
    "context_attention": ("attention", {"causal": True}),
    "generation_attention": ("attention", {"causal": False}),
}
UNKNOWN_KIND = 0.5
"""Share of the cap that a kernel of a kind never measured is drawn to, halfway in the logarithm: what another kind
draws beside its flop and bytes says little about it."""
EXPECTED = {"active": 1.1, "flop": 1.0, "byte": 2.0, "settle": 5e-6}
"""Factors before any row, known to a factor of seven; seconds of a kernel that draws half."""
NEAR_CAP = 0.93
"""Share of the cap from which a chip is held back."""
SAME = 0.05
"""Octaves in time, flop and bytes within which two kernels are one to a power meter."""
LONGEST = 6000
"""Rows of a kind and machine that are looked at."""


def power_rows(data: Data) -> Iterator[ValidationRow]:
    """Fitted to gemm alone, tested on attention."""
    known = _known_power(data)
    fitted = _fit({"gemm": known.pop("gemm")})
    for name, frame in known.items():
        for target, chosen in frame.groupby("machine"):
            yield _row(POWER, name, str(target), chosen, fitted, "kind of kernel")


def given_power(data: Data) -> Iterator[ValidationRow]:
    """Fitted to the other machines here, tested on what is given."""
    known = _known_power(data)
    for name in KINDS_OF:
        for target, chosen in _frame(data.judged_folder, name).groupby("machine"):
            elsewhere = {kind: part[part["machine"] != target] for kind, part in known.items()}
            if fitted := _fit({kind: part for kind, part in elsewhere.items() if len(part)}):
                yield _row(POWER, name, str(target), chosen, fitted, str(target))
            else:
                yield skipped(POWER, f"no other machine with power than {target}")


def _known_power(data: Data) -> dict[str, pd.DataFrame]:
    known = {name: _frame(data.folder, name) for name in KINDS_OF}
    if known["gemm"].empty:
        raise MissingError("no power in the training data")
    return known


@dataclass(frozen=True)
class FittedPower:
    """The model of one kind of kernel, a mean over machines, and the line in utilisation (share of the cap)."""

    model: PowerModel
    line: FloatArray


def _fit(parts: Mapping[str, pd.DataFrame]) -> dict[str, FittedPower]:
    """By kind of kernel."""
    fits = {}
    for name, frame in parts.items():
        models, counts, utilisation, share = [], [], [], []
        for target, chosen in frame.groupby("machine"):
            flop, moved = _work(name, chosen)
            m, time, watts = machine(str(target)), chosen["time"].to_numpy(), chosen["power"].to_numpy()
            models.append(fit_power(m, time, flop, moved, watts))
            counts.append(len(chosen))
            utilisation.append(_utilisation(str(target), time, flop, moved))
            share.append(watts / float(m.power.cap or 1))
        mean = [float(np.average([getattr(model, n) for model in models], weights=counts)) for n in NAMES]
        line = np.polyfit(np.concatenate(utilisation), np.concatenate(share), 1)
        fits[name] = FittedPower(PowerModel(*mean), np.asarray(line))
    return fits


def fit_power(
    machine: Machine, time: FloatArray, float32_flop: FloatArray, moved: FloatArray, watts: FloatArray
) -> PowerModel:
    """The factors of one machine's rows, as a law in log power; rows at the cap count, as rows that it puts there.

    `time`, `float32_flop`, `moved`, `watts`: seconds, flop at the energy of a float32 flop, bytes and measured power of
        each row, each of shape (n,).
    Raises InputError where the machine states no cap or energy, or fewer than three rows lie below the cap.
    """
    formula = PowerModel().formula(machine)
    below = watts < NEAR_CAP * float(machine.power.cap or 0)
    if below.sum() < 3:
        raise InputError(f"power of {machine.name}: {int(below.sum())} power_rows below the cap, want at least 3")

    def law(values: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
        model = PowerModel(**{name: float(value[0]) for name, value in values.items()})
        return model.evaluated(formula, machine, time, float32_flop, moved)

    priors = tuple(expected(name, value, 2.0, "s" if name == "settle" else "1") for name, value in EXPECTED.items())
    return PowerModel(**plain_fit(FormulaLaw("power of kernels", priors, law), watts))


def _row(
    title: str, name: str, target: str, frame: pd.DataFrame, fitted: Mapping[str, FittedPower], held_out: str
) -> ValidationRow:
    m, time, watts = machine(target), frame["time"].to_numpy(), frame["power"].to_numpy()
    flop, moved = _work(name, frame)
    cap = float(m.power.cap or 1)
    known = fitted.get(name)
    used = known or next(iter(fitted.values()))
    predicted = used.model.watts(m, time, flop, moved)
    if known is None:
        predicted = np.sqrt(predicted * UNKNOWN_KIND * cap)
    straight = np.polyval(used.line, _utilisation(target, time, flop, moved)) * cap
    base = {
        "line in utilisation": float(np.mean(np.abs(straight / watts - 1))),
        "half the cap": float(np.mean(np.abs(0.5 * cap / watts - 1))),
    }
    ours = float(np.mean(np.abs(predicted / watts - 1)))
    floor = _floor(time, flop, moved, watts)
    case = f"{name}, {target}"
    return ValidationRow(
        title, case, held_out, len(frame), "MAPE", "1", ours, base, GOAL, ours <= GOAL, noise_floor=floor
    )


def _floor(time: FloatArray, flop: FloatArray, moved: FloatArray, watts: FloatArray) -> float | None:
    """How far readings of kernels of one time, work and traffic lie apart: what no model of the machine can know.

    Mean |log ratio| of each row and the nearest within `SAME` octaves, over the square root of two (each of the two
    errs); None where there are few.
    """
    from scipy.spatial import cKDTree

    places = np.log2(np.stack([time, flop, moved], axis=1))
    distance, index = cKDTree(places).query(places, k=2)
    same = distance[:, 1] < SAME
    if same.sum() < 50:
        return None
    return float(np.mean(np.abs(np.log(watts / watts[index[:, 1]])[same])) / np.sqrt(2))


def _frame(folder: Path, name: str) -> pd.DataFrame:
    frame = aiconfigurator(folder, name)
    if frame.empty or "power" not in frame:
        return frame.iloc[:0]
    kept = frame["power"].notna() & (frame["power"] > 0) & (frame["machine"] != "") & frame["dtype"].isin(MATRIX_ENERGY)
    if "window" in frame:
        kept &= frame["window"] == 0
    frame = frame[kept]
    return frame.sample(min(LONGEST, len(frame)), random_state=3) if len(frame) else frame


def _work(name: str, frame: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Flop at the energy of a float32 flop, and bytes, of each row."""
    kind, facts = KINDS_OF[name]
    dims = {dim: sp.Symbol(dim, positive=True) for dim in KINDS[kind].dims}
    op = operation("row", kind, dims, "bfloat16", dict(facts))
    values = {dim: frame[dim].to_numpy(float) for dim in KINDS[kind].dims}
    flop = np.asarray(evaluate(sp.sympify(op.cost["flop.matrix.bfloat16"], strict=True), values))
    if facts.get("causal"):
        flop = flop / 2
    energy = frame["dtype"].map(MATRIX_ENERGY).to_numpy(float)
    size = np.where(frame["dtype"] == "float8", 0.5, 1.0)
    return flop * energy, np.asarray(evaluate(sp.sympify(op.cost.bytes_moved, strict=True), values)) * size


def _utilisation(target: str, time: FloatArray, flop: FloatArray, moved: FloatArray) -> FloatArray:
    m = machine(target)
    peak = m.peak("matrix", "bfloat16") * MATRIX_ENERGY["bfloat16"]
    return np.asarray(np.minimum(1.0, np.maximum(flop / peak, moved / m.bandwidth(m.main_memory)) / time))


RATIOS = (("h100-sxm", "a100-pcie-80gb"), ("l4", "t4"))


ANCHORS = (
    Anchor("gemm.float32", {"m": 4096, "n": 4096, "k": 4096}),
    Anchor("elementwise.float32", {"elements": 2**26}),
)
"""Measured on the new machine first, where wanted; the rows nearest to them."""
TITLE = "speed-up, one machine measured"
DIMS = (*gpu_data.GEMM_DIMS, "elements", "reads", "rows", "columns")


def speedup_rows(boards: Sequence[OperationBoard]) -> list[ValidationRow]:
    """Speed-up of B over A, with A measured and B left out: errors of the ratio, and who wins."""
    scores = []
    for new, known in RATIOS:
        parts = [part for board in boards for part in _both(board, new, known)]
        if not parts:
            continue
        truth, plain, alone, anchored = (np.concatenate(values) for values in zip(*parts, strict=True))
        base = {"roofline": plain - truth}
        scores += _scores(f"{new} over {known}", new, truth, alone, base)
        base["no anchors"] = alone - truth
        scores += _scores(f"{new} over {known}, one product and one addition measured", new, truth, anchored, base)
    return scores


def _both(board: OperationBoard, new: str, known: str) -> Iterator[tuple[FloatArray, ...]]:
    """Log speed-ups of operations that both machines were measured at: measured, roofline, ours, ours with anchors."""
    if "file" not in board.training or board.kind == "convolution":
        return
    tested = board.training[board.training["file"].str.contains("test")]
    a, b = (tested[tested["machine"] == name] for name in (known, new))
    both = a.merge(b, on=[*(d for d in DIMS if d in tested), "OPName"], suffixes=("", "_new"))
    if len(both) < ENOUGH:
        return
    both = thinned(both)
    measured = both["time"].to_numpy()
    anchors = taken([form for form in board.forms if form.machine.name == machine(new).name], ANCHORS)[1]
    forms = [board.rows(new, both)]
    predicted = [board.forecast(new, (new,), measured_there).predict(forms).time for measured_there in ((), anchors)]
    plain = board.roofline(known, both) / board.roofline(new, both)
    ratios = measured / both["time_new"].to_numpy(), plain, *(measured / time for time in predicted)
    yield tuple(np.log(ratio) for ratio in ratios)


def _scores(
    case: str, new: str, truth: FloatArray, ours: FloatArray, others: Mapping[str, FloatArray]
) -> list[ValidationRow]:
    """Quantiles of the error of log speed-ups, and how often the right machine wins."""
    speedup_rows = []
    for share, metric, goal in ((0.5, "median |log ratio|", 0.08), (0.9, "90th percentile |log ratio|", 0.20)):
        error = float(np.quantile(np.abs(ours - truth), share))
        base = {name: float(np.quantile(np.abs(values), share)) for name, values in others.items()}
        speedup_rows.append(ValidationRow(TITLE, case, new, len(truth), metric, "1", error, base, goal, error <= goal))
    won = float(np.mean(np.sign(ours) == np.sign(truth)))
    return [*speedup_rows, ValidationRow(TITLE, case, new, len(truth), "right winner", "1", won, {}, 0.95, won >= 0.95)]


def _operations(data: Data) -> Iterator[Scored | ValidationRow]:
    """Every case, speed-ups, and whole models, which are summed from the same fits."""
    boards: dict[tuple[str, ...], gpu_tables.OperationBoard] = {}
    for case in cases():
        if case.source not in boards:
            boards[case.source] = case.board(case.frame(data.folder))
        yield from _left_out_rows(case, boards[case.source], data.folder)
    yield from speedup_rows(list(boards.values()))
    yield from guarded("whole models", partial(_whole_models, boards), data)


def _given_operations(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each table that is given, and whole models."""
    for case in {case.source: case for case in reversed(cases())}.values():
        yield from guarded(_title(case), partial(_scored_rows, case), data)
    yield from guarded("whole models", partial(_whole_models, {}), data)


def _whole_models(boards: Mapping[tuple[str, ...], gpu_tables.OperationBoard], data: Data) -> list[ValidationRow]:
    from slipstick.experiments.scoreboards.gpu import whole_models

    return whole_models.rows(data.scored, _model_boards(boards, data.folder))


def _tuned_products(data: Data) -> Iterator[Scored]:
    from slipstick.experiments.scoreboards.gpu import other_programs

    return other_programs.tuned(data)


def _other_programs(data: Data) -> Iterator[Scored]:
    from slipstick.experiments.scoreboards.gpu import other_programs

    return other_programs.rows(data)


def _model_boards(
    boards: Mapping[tuple[str, ...], gpu_tables.OperationBoard], folder: Path
) -> dict[str, gpu_tables.OperationBoard]:
    """The boards that whole models are summed from, by class of operation; fitted ones are used again."""
    names = {
        "bmm": "bmm, H",
        "linear": "linear, H",
        "softmax": "softmax",
        "norm": "layernorm",
        "elementwise": "elementwise",
    }
    result = {}
    for kind, title in names.items():
        case = next(case for case in cases() if title in case.name)
        kept = boards.get(case.source)
        result[kind] = kept if kept is not None else case.board(case.frame(folder))
    return result


def _left_out_rows(case: GpuCase, board: gpu_tables.OperationBoard, folder: Path) -> Iterator[Scored | ValidationRow]:
    training = board.training
    if training.empty:
        yield skipped(case.name, "its files are not in the data folder")
        return
    parts = []
    for group in case.held_out:
        for name in group:
            chosen = training[training["machine"] == name]
            chosen = case.scored(chosen)
            if len(chosen):
                parts.append(score(board, name, chosen, group))
    floor = _stack_floor(folder) if case.name.startswith("BF16") else None
    yield from scored_parts(case, parts, floor)


def _title(case: GpuCase) -> str:
    return case.name.split(",")[0]


def _scored_rows(case: GpuCase, data: Data) -> Iterator[Scored | ValidationRow]:
    """Rows of another folder; those of a stack other than the case's are predicted from the same engine's public rows
    where there are some.
    """
    frame = case.of_all_stacks(data.judged_folder)
    title = _title(case)
    if frame.empty:
        raise MissingError(f"none of its files is in {data.scored}")
    if not case.stack:
        yield from _scored_frame(case, title, case.frame(data.folder), frame)
        return
    public = case.of_all_stacks(data.folder)
    for stack, part in frame.groupby("stack"):
        engine = public[public["stack"].str.split().str[0] == str(stack).split()[0]]
        known = engine[~engine["machine"].isin(part["machine"])]
        training = case.frame(data.folder) if stack == case.stack or known.empty else engine
        yield from _scored_frame(case, title if stack == case.stack else f"{title}, {stack}", training, part)


def _scored_frame(
    case: GpuCase, title: str, training: pd.DataFrame, frame: pd.DataFrame
) -> Iterator[Scored | ValidationRow]:
    for device in sorted(set(frame.loc[frame["machine"] == "", "device"])):
        yield skipped(title, f"the catalogue lacks {device}")
    frame = frame[frame["machine"] != ""]
    board = case.board(gpu_data.without(training, frame["key"]))
    counts = board.training["machine"].value_counts()
    parts = []
    for name, chosen in frame.groupby("machine"):
        new = counts.get(name, 0) < ENOUGH
        try:
            parts.append(score(board, str(name), chosen, (str(name),) if new else ()))
        except InputError as error:  # a machine without a rate of this data type
            yield skipped(title, f"{name}: {error}")
    yield from scored_parts(case, parts, None, title)


def _stack_floor(folder: Path) -> float | None:
    """How far two software stacks on one machine lie apart above 20 us: what no model of the machine can know."""
    frame = gpu_data.aiconfigurator(folder, "gemm")
    frame = frame[(frame["machine"] == "l40s") & (frame["dtype"] == "bfloat16")]
    table = frame.pivot_table(index=list(gpu_data.GEMM_DIMS), columns="stack", values="time").dropna()
    if table.shape[1] != 2 or table.empty:
        return None
    one, other = (table.iloc[:, i].to_numpy() for i in (0, 1))
    return mean_error(one[other > LONG], other[other > LONG])


BOARD = Board(
    "How long do single GPU operations and whole models take on a GPU that no fit has seen, and what do they draw?",
    {
        "operations": Part(_operations, _given_operations),
        "products by other programs": _other_programs,
        "products of a tuner": _tuned_products,
        "kernels of vLLM by Frontier": frontier_rows,
        POWER: Part(power_rows, given_power),
    },
    (
        Front(
            "Linear layers on a GPU (FP32)",
            "the GPU",
            "all machines",
            "each in turn",
            "neusight linear, other machines",
        ),
    ),
)
