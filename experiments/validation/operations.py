"""Times of single operations, whole models and power on GPUs that no fit has seen, beside rooflines.

Every machine of a case is left out in turn with all its rows, of every file; relatives of the same chip stay unless the
case names a generation. With `--data` the rows below that folder are scored: their keys leave the training data, and
a machine of which nothing else is left is new.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.formula import FloatArray
from estimators.pooling import PRIORS, ROWWISE_PRIORS, Prior
from experiments.rows import ValidationRow, skipped
from experiments.validation import gpu_data
from experiments.validation.data import data_folder
from experiments.validation.gpu_boards import Board
from experiments.validation.gpu_transfer import Prediction, Transfer
from workloads.workload import Attribute

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.8
LONG = 20e-6
ENOUGH = 50
"""Rows of a machine from which its own fit is used when other rows of it are scored."""
SCORED_AT_MOST = 8000
WIDTH, COVERAGE = 1.4, (0.7, 0.9)
SGLANG = "sglang 0.5.10"


@dataclass(frozen=True)
class Case:
    """One line of the scoreboard.

    Parameters
    ----------
    load, keep
        Reads a frame from a folder; keeps the rows that belong to the case.
    test
        Of those, the rows that are scored where a machine is left out.
    held_out
        Machines left out together; each group is a turn.
    goals
        Upper bounds of the mean absolute percentage error, over all rows ("all") and those above 20 us ("long").
    """

    name: str
    load: Callable[[Path], pd.DataFrame]
    kind: str
    dtype: str
    held_out: tuple[tuple[str, ...], ...]
    goals: Mapping[str, float]
    facts: Mapping[str, Attribute] = field(default_factory=dict)
    keep: Callable[[pd.DataFrame], pd.Series[bool]] | None = None
    test: Callable[[pd.DataFrame], pd.Series[bool]] | None = None
    sample: int = 400
    priors: Mapping[str, Prior] = PRIORS

    def frame(self, folder: Path) -> pd.DataFrame:
        """The rows of the case below a folder."""
        frame = self.load(folder)
        return frame[self.keep(frame)] if self.keep and len(frame) else frame


def _larger(frame: pd.DataFrame) -> pd.Series[bool]:
    return frame["file"].str.contains("test")


def _not_vendor(frame: pd.DataFrame) -> pd.Series[bool]:
    return frame["file"] != ""


def _one_stack(frame: pd.DataFrame) -> pd.Series[bool]:
    kept = (frame["stack"] == SGLANG) & (frame["dtype"] == "bfloat16")
    if "window" in frame:
        kept &= (frame["kv_dtype"] == "bfloat16") & (frame["window"] == 0)
    return kept


def cases() -> tuple[Case, ...]:
    """The lines of the scoreboard, with their goals."""
    products = gpu_data.neusight_products
    unseen = (("l4",), ("a100-pcie-80gb",))
    left = (("a100-sxm-80gb",), ("l40s",), ("h100-sxm",), ("h200-sxm",))
    neusight = partial(Case, kind="gemm", dtype="float32", keep=_not_vendor, test=_larger)
    attention = partial(Case, kind="attention", dtype="bfloat16", held_out=left, keep=_one_stack, sample=1000)
    return (
        neusight(
            "neusight bmm, H100", partial(products, operation="bmm"), held_out=(("h100-sxm",),), goals={"all": 0.15}
        ),
        neusight(
            "neusight linear, H100",
            partial(products, operation="linear"),
            held_out=(("h100-sxm",),),
            goals={"all": 0.10},
        ),
        neusight(
            "neusight linear, MI210", partial(products, operation="linear"), held_out=(("mi210",),), goals={"all": 0.10}
        ),
        neusight(
            "neusight bmm, other machines", partial(products, operation="bmm"), held_out=(*unseen, ("mi210",)), goals={}
        ),
        neusight("neusight linear, other machines", partial(products, operation="linear"), held_out=unseen, goals={}),
        Case(
            "neusight elementwise, unseen",
            gpu_data.neusight_elementwise,
            "elementwise",
            "float32",
            unseen,
            {"all": 0.05},
            {"function": "add"},
            test=_larger,
        ),
        Case(
            "neusight softmax, unseen",
            partial(gpu_data.neusight_rows, operation="softmax"),
            "softmax",
            "float32",
            unseen,
            {"all": 0.18},
            test=_larger,
            priors=ROWWISE_PRIORS,
        ),
        Case(
            "neusight layernorm, unseen",
            partial(gpu_data.neusight_rows, operation="ln"),
            "norm",
            "float32",
            unseen,
            {"all": 0.18},
            test=_larger,
            priors=ROWWISE_PRIORS,
        ),
        Case(
            "neusight convolution",
            gpu_data.neusight_convolutions,
            "convolution",
            "float32",
            (("p4",), ("p100-pcie",), ("t4",), ("v100-pcie",), ("a100-pcie-80gb",)),
            {"all": 0.20},
            {"stride": (1, 1)},
        ),
        attention(
            "context attention",
            partial(gpu_data.aiconfigurator, operation="context_attention"),
            goals={"all": 0.15},
            facts={"causal": True},
        ),
        attention(
            "generation attention",
            partial(gpu_data.aiconfigurator, operation="generation_attention"),
            goals={"all": 0.20},
            facts={"causal": False},
        ),
        Case(
            "BF16 gemm, one generation left out",
            partial(gpu_data.aiconfigurator, operation="gemm"),
            "gemm",
            "bfloat16",
            (("a100-sxm-80gb",), ("l40s",), ("h100-sxm", "h200-sxm")),
            {"all": 0.16, "long": 0.10},
            keep=_one_stack,
            sample=1000,
        ),
        *(
            Case(f"deepbench gemm, {name}", gpu_data.deepbench_products, "gemm", "float32", ((name,),), {"all": goal})
            for name, goal in (("vega-fe", 0.18), ("mi25", 0.18), ("xeon-phi-7250", 0.14))
        ),
    )


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """The scoreboard; skipped cases say why."""
    from experiments.validation import gpu_power, whole_models

    folder = data_folder()
    if folder is None:
        return [
            skipped("operations", "no public measurements here (set SLIPSTICK_DATA; docs/validation.md says where)")
        ]
    boards: dict[tuple[str, str, str], Transfer] = {}
    found: list[ValidationRow] = []
    done: set[tuple[str, str, str]] = set()
    for case in cases():
        source = (repr(case.load), case.kind, repr(sorted(case.facts)))
        if scored is not None:
            if source in done:
                continue
            done.add(source)
            found += _scored_rows(case, folder, scored)
            continue
        if source not in boards:
            boards[source] = _board(case, case.frame(folder))
        found += _left_out_rows(case, boards[source], folder)
    found += _ratio_rows(boards) if scored is None else []
    found += whole_models.rows(scored, _model_boards(boards, folder, scored))
    found += gpu_power.rows(scored)
    return found


def _model_boards(
    boards: Mapping[tuple[str, str, str], Transfer], folder: Path, scored: Path | None
) -> dict[str, Transfer]:
    """The boards that whole models are summed from, by class of operation; fitted ones are used again."""
    names = {
        "bmm": "bmm, H",
        "linear": "linear, H",
        "softmax": "softmax",
        "norm": "layernorm",
        "elementwise": "elementwise",
    }
    found = {}
    for kind, title in names.items():
        case = next(case for case in cases() if title in case.name)
        key = (repr(case.load), case.kind, repr(sorted(case.facts)))
        found[kind] = boards[key] if key in boards else _board(case, case.frame(folder))
    return found


def _board(case: Case, frame: pd.DataFrame) -> Transfer:
    return Transfer(Board(frame, case.kind, case.dtype, case.facts, case.sample, case.priors, case.test))


def _left_out_rows(case: Case, transfer: Transfer, folder: Path) -> list[ValidationRow]:
    board = transfer.board
    if board.training.empty:
        return [skipped(case.name, "its files are not in the data folder")]
    parts = []
    for group in case.held_out:
        for name in group:
            chosen = board.training[board.training["machine"] == name]
            chosen = chosen[case.test(chosen)] if case.test else chosen
            if len(chosen):
                parts.append(_score(transfer, name, _thinned(chosen), group))
    floor = _stack_floor(folder) if case.name.startswith("BF16") else None
    return _rows_of(case, parts, floor)


def _scored_rows(case: Case, folder: Path, scored: Path) -> list[ValidationRow]:
    frame = case.frame(scored)
    title = case.name.split(",")[0]
    if frame.empty:
        return [skipped(title, f"none of its files is in {scored}")]
    unknown = sorted(set(frame.loc[frame["machine"] == "", "device"]))
    found = [skipped(title, f"the catalogue lacks {device}") for device in unknown]
    frame = frame[frame["machine"] != ""]
    transfer = _board(case, gpu_data.without(case.frame(folder), frame["key"]))
    counts = transfer.board.training["machine"].value_counts()
    parts = []
    for name, chosen in frame.groupby("machine"):
        new = counts.get(name, 0) < ENOUGH
        parts.append(_score(transfer, str(name), _thinned(chosen), (str(name),) if new else ()))
    return found + _rows_of(case, parts, None, title)


def _thinned(frame: pd.DataFrame) -> pd.DataFrame:
    return frame if len(frame) <= SCORED_AT_MOST else frame.sample(SCORED_AT_MOST, random_state=1)


@dataclass(frozen=True)
class Part:
    """Scored rows of one machine."""

    machine: str
    group: tuple[str, ...]
    measured: FloatArray
    ours: Prediction
    baselines: Mapping[str, FloatArray]


def _score(transfer: Transfer, name: str, frame: pd.DataFrame, group: Sequence[str]) -> Part:
    return Part(
        name,
        tuple(group),
        frame["time"].to_numpy(),
        transfer.predict(name, frame, group),
        {
            "roofline": transfer.board.roofline(name, frame),
            "calibrated roofline": transfer.board.calibrated_roofline(name, frame, group),
        },
    )


def mape(predicted: FloatArray, measured: FloatArray) -> float:
    """Mean of |predicted / measured - 1|."""
    return float(np.mean(np.abs(predicted / measured - 1)))


def log_error(share: float, predicted: FloatArray, measured: FloatArray) -> float:
    """A quantile of |log(predicted / measured)|."""
    return float(np.quantile(np.abs(np.log(predicted / measured)), share))


METRICS: Mapping[str, Callable[[FloatArray, FloatArray], float]] = {
    "MAPE": mape,
    "median |log ratio|": partial(log_error, 0.5),
    "90th percentile |log ratio|": partial(log_error, 0.9),
}


def interval_score(low: FloatArray, high: FloatArray, measured: FloatArray) -> float:
    """Mean width in log time plus 2 / (1 - level) times what lies outside (Gneiting and Raftery 2007, eq. 43)."""
    below, above = np.log(low / measured), np.log(measured / high)
    outside = np.maximum(below, 0) + np.maximum(above, 0)
    return float(np.mean(np.log(high / low) + 2 / (1 - LEVEL) * outside))


def _rows_of(case: Case, parts: Sequence[Part], floor: float | None, title: str = "") -> list[ValidationRow]:
    if not parts:
        return [skipped(title or case.name, "no rows of the machines that are held out")]
    whole = _joined(parts)
    found = []
    scopes: list[tuple[str, Callable[[Part], Any]]] = [("all", lambda part: part.measured > 0)]
    if "long" in case.goals or float(np.mean(whole.measured > LONG)) < 0.98:
        scopes.append(("long", lambda part: part.measured > LONG))
    for scope, chosen in scopes:
        several = [("", whole)] if len(parts) > 1 else []
        for label, part in [*several, *((part.machine, part) for part in parts)]:
            goal = case.goals.get(scope) if part is whole or len(parts) == 1 else None
            row = partial(_row, title or case.name, part, chosen(part), scope, label, floor)
            found += [row(metric, goal if metric == "MAPE" else None) for metric in METRICS]
    return found + [_band_row(title or case.name, part) for part in parts]


def _row(
    dataset: str, part: Part, chosen: Any, scope: str, label: str, floor: float | None, metric: str, goal: float | None
) -> ValidationRow:
    score = METRICS[metric]
    measured = part.measured[chosen]
    if not len(measured):
        return skipped(dataset, f"no rows above {LONG * 1e6:g} us")
    ours = score(part.ours.time[chosen], measured)
    covered = (measured >= part.ours.low[chosen]) & (measured <= part.ours.high[chosen])
    return ValidationRow(
        dataset,
        f"{label or 'all machines'}{', above 20 us' if scope == 'long' else ''}",
        " + ".join(part.group),
        len(measured),
        metric,
        "1",
        ours,
        {name: score(times[chosen], measured) for name, times in part.baselines.items()},
        goal,
        None if goal is None else ours <= goal,
        LEVEL,
        float(np.mean(covered)),
        float(np.median(part.ours.high[chosen] / part.ours.low[chosen])),
        floor,
    )


def _band_row(dataset: str, part: Part) -> ValidationRow:
    """The 80 % band of one machine above 20 us: does it cover 70-90 %, and is it no wider than 1.4?"""
    chosen = part.measured > LONG
    if chosen.sum() < ENOUGH:
        return skipped(dataset, f"{part.machine}: {int(chosen.sum())} rows above 20 us are too few for a coverage")
    low, high, measured = part.ours.low[chosen], part.ours.high[chosen], part.measured[chosen]
    coverage, width = float(np.mean((measured >= low) & (measured <= high))), float(np.median(high / low))
    return ValidationRow(
        dataset,
        f"{part.machine}, 80 % band above 20 us",
        " + ".join(part.group),
        len(measured),
        "coverage",
        "1",
        coverage,
        {},
        LEVEL,
        COVERAGE[0] <= coverage <= COVERAGE[1] and width <= WIDTH,
        LEVEL,
        coverage,
        width,
        None,
        "goal: coverage 0.7-0.9 and high/low <= 1.4; "
        f"interval score {interval_score(low, high, measured):.3f} of log time",
    )


def _joined(parts: Sequence[Part]) -> Part:
    def together(pick: Callable[[Part], FloatArray]) -> FloatArray:
        return np.concatenate([pick(part) for part in parts])

    ours = Prediction(together(lambda p: p.ours.time), together(lambda p: p.ours.low), together(lambda p: p.ours.high))
    baselines = {name: together(lambda p, n=name: p.baselines[n]) for name in parts[0].baselines}  # type: ignore[misc]
    groups = ("each in turn",) if parts[0].group else ()
    return Part("", groups, together(lambda p: p.measured), ours, baselines)


def _stack_floor(folder: Path) -> float | None:
    """How far two software stacks on one machine lie apart above 20 us: what no model of the machine can know."""
    frame = gpu_data.aiconfigurator(folder, "gemm")
    frame = frame[(frame["machine"] == "l40s") & (frame["dtype"] == "bfloat16")]
    table = frame.pivot_table(index=list(gpu_data.GEMM_DIMS), columns="stack", values="time").dropna()
    if table.shape[1] != 2 or table.empty:
        return None
    one, other = (table.iloc[:, i].to_numpy() for i in (0, 1))
    return mape(one[other > LONG], other[other > LONG])


RATIOS = (("h100-sxm", "a100-pcie-80gb"), ("l4", "t4"))


def _ratio_rows(boards: Mapping[tuple[str, str, str], Transfer]) -> list[ValidationRow]:
    """Speed-up of B over A, with A measured and B left out: errors of the ratio, and who wins."""
    found = []
    for new, known in RATIOS:
        errors: list[FloatArray] = []
        plain: list[FloatArray] = []
        wins: list[FloatArray] = []
        for (_, kind, _), transfer in boards.items():
            board = transfer.board
            if "file" not in board.training or kind == "convolution":
                continue
            dims = [
                d for d in board.training.columns if d in (*gpu_data.GEMM_DIMS, "elements", "reads", "rows", "columns")
            ]
            tested = board.training[board.training["file"].str.contains("test")]
            a, b = (tested[tested["machine"] == name] for name in (known, new))
            both = a.merge(b, on=[*dims, "OPName"], suffixes=("", "_new"))
            if len(both) < ENOUGH:
                continue
            both = _thinned(both)
            truth = np.log(both["time"].to_numpy() / both["time_new"].to_numpy())
            speedup = np.log(
                board.times(_on(known), both, board.fits[known].values) / transfer.predict(new, both, (new,)).time
            )
            errors.append(np.abs(speedup - truth))
            plain.append(np.abs(np.log(board.roofline(known, both) / board.roofline(new, both)) - truth))
            wins.append(np.sign(speedup) == np.sign(truth))
        if not errors:
            continue
        error, base, won = (np.concatenate(values) for values in (errors, plain, wins))
        title, case = "speed-up, one machine measured", f"{new} over {known}"
        for share, metric, goal in ((0.5, "median |log ratio|", 0.08), (0.9, "90th percentile |log ratio|", 0.20)):
            ours, baseline = float(np.quantile(error, share)), {"roofline": float(np.quantile(base, share))}
            found.append(ValidationRow(title, case, new, len(error), metric, "1", ours, baseline, goal, ours <= goal))
        share_won = float(np.mean(won))
        found.append(
            ValidationRow(title, case, new, len(won), "right winner", "1", share_won, {}, 0.95, share_won >= 0.95)
        )
    return found


def _on(name: str) -> Any:
    from hwmodels.catalog import machine

    return machine(name)
