"""Local language models against LocalScore's rows: accelerators unseen, the newest unseen, one model from another.

Errors are |predicted / measured - 1| of tokens/s. `scored` names other rows of the same columns: all public rows are
known then, but those of the accelerators that stand in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from slipstick.estimators.learning.bands import LeftOutRows, calibrated
from slipstick.estimators.learning.fit import fit
from slipstick.estimators.learning.law import LawRows
from slipstick.estimators.operation.serving.local_step import LocalFit, LocalLaw
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.evidence.cases import Input
from slipstick.experiments.evidence.model_inputs import model_inputs
from slipstick.experiments.evidence.score import PERCENT, Board, Data, Front, Scored
from slipstick.experiments.evidence.validation.serving.bench_scores import bench_scores
from slipstick.experiments.evidence.validation.serving.local_rows import (
    DEVICES_FILE,
    FILE,
    HELD_OUT,
    LocalRow,
    known_rows,
    law_rows,
    outer,
    phases,
    read_local,
)

FloatArray = npt.NDArray[np.float64]
GOALS = {"newest unseen": (18.0, 50.0), "rows given": (18.0, 50.0), "14B from 8B on one machine": (4.0, 16.0)}
PROMPT_GOALS = {"newest unseen": (25.0, 60.0), "rows given": (25.0, 60.0)}
NOISE = 2.4
ENOUGH = 20


def _localscore(data: Data) -> Iterator[Scored]:
    """One user's generation and prompts."""
    devices = training_file(DEVICES_FILE)
    public, (targets, refused) = known_rows(data.known(FILE), devices), read_local(data.judged(FILE))
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    if data.scored is None:
        timed = phases(public)
        rows = law_rows(timed)
        for held in HELD_OUT:
            yield from _both(held, timed, rows, outer(timed, rows, held), note)
    elif targets:
        chips = {r.chip for r in targets}
        known = law_rows(phases([r for r in public if r.chip not in chips]))
        timed = phases(targets)
        fitted, rows = calibrated(LocalLaw(), known, known.groups["chip"]), law_rows(timed)
        law = LocalLaw()
        made = LeftOutRows(
            fitted.seconds(law, rows.columns, rows.groups), fitted.half_width(law, rows.columns, rows.groups),
            rows.groups["chip"],
        )  # fmt: skip
        yield from _both("rows given", timed, rows, made, note)
    yield from _anchored(targets, public)


def _inputs(row: LocalRow) -> dict[str, Input]:
    return {"accelerator": row.accelerator, "backend": row.backend, "weights": row.stored, **model_inputs(row.model)}


def _both(
    held: str, timed: Sequence[tuple[LocalRow, float, float]], rows: LawRows, made: LeftOutRows, note: str
) -> Iterator[Scored]:
    """Generation, then prompts; the baseline is bytes over bandwidth with one efficiency a backend."""
    kinds = (("time of a token", 0.0, GOALS), ("time of a prompt's token", 1.0, PROMPT_GOALS))
    for name, kind, goals in kinds:
        there = (rows.columns["prompts"] == kind) & np.isfinite(made.seconds)
        least = rows.columns["matrix" if kind else "memory"]
        base, backend = np.full(len(rows), np.nan), np.array(rows.groups["backend"])
        groups = np.array(made.groups)
        for group in sorted(set(groups[there])):
            mine, others = there & (groups == group), (rows.columns["prompts"] == kind) & (groups != group)
            for one in sorted(set(backend[mine])):
                same = others & (backend == one)
                ratio = float(np.median(rows.seconds[same] / least[same])) if same.any() else 2.0
                base[mine & (backend == one)] = least[mine & (backend == one)] * ratio
        scored = [timed[at][0] for at in np.flatnonzero(there).tolist()]
        yield Scored(
            name, held, rows.seconds[there], made.seconds[there], PERCENT, goals.get(held, ()),
            {"one efficiency": base[there]}, enough=ENOUGH, noise=NOISE, half=made.half[there],
            reason=f"{note}; {len(set(groups[there]))} groups left out in turn",
            groups=[] if held == "newest unseen" else [row.chip for row in scored],
            inputs=[_inputs(row) for row in scored],
        )  # fmt: skip


def _anchored(targets: Sequence[LocalRow], public: Sequence[LocalRow]) -> Iterator[Scored]:
    """Qwen2.5-14B from Llama-3.1-8B on the same chip, both Q4_K_M; the baseline scales by bytes."""
    law, folds_of = LocalLaw(), sorted({r.chip for r in targets})
    ours, base, measured, half = (list[float]() for _ in range(4))
    full = fit(law, law_rows(phases(public)))
    for chip in folds_of:
        alike = [r for r in targets if r.chip == chip and r.stored == "q4_k_m"]
        small, large = ([r for r in alike if r.model.name == name] for name in ("llama-3.1-8b", "qwen2.5-14b"))
        if not small or not large:
            continue
        known = float(np.median([r.token for r in small]))
        made = LocalFit(fit(law, law_rows(phases([r for r in public if r.chip != chip])), near=full))
        made = made.with_known(small[0].work, small[0].groups, known)
        for row in large:
            here = made.parameters(row.groups)
            ours.append(float(here.generation(row.work.memory, row.work.layers, row.work.plain)))
            base.append(known * row.work.memory / small[0].work.memory)
            measured.append(row.token)
            half.append(made.half_width(row.work, row.groups))
    held = "14B from 8B on one machine"
    yield Scored(
        "time of a token", held, np.array(measured), np.array(ours), PERCENT, GOALS[held],
        {"bytes over bandwidth": np.array(base)}, enough=ENOUGH, noise=NOISE, half=np.array(half),
        reason="by one run of the 8B model",
    )  # fmt: skip


BOARD = Board(
    "How many tokens/s does a local language model make for one user on a machine that nobody measured?",
    {"local_llm/localscore": _localscore, "local_llm/llm_inference_bench": bench_scores},
    (Front("One user's tokens from a local model", "the accelerator", "time of a token", "accelerator unseen"),),
)
