"""What can be done about a time: software that its user may change, and parts of a machine that may be bought.

Each move is the question with one thing changed, answered by the same estimator: a program compiled or recorded, flash
attention, a narrower data type, a batch twice as large; and twice of what the machine's formulas read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from slipstick.common.errors import InputError
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.question.facts import items_of
from slipstick.experiments.question.question import Question, question
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.catalog import cached_rewrite
from slipstick.workloads.catalog import workload as workload_by_name
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.attention import flash_attention

NARROWER = ("bfloat16", "float16", "float8", "int8")
WIDE = ("", "float32", "tfloat32", "float64")
GAIN = 0.99
"""Time over today's below which a move is one."""
FEW = 3
"""Quantities of the machine that are named."""
BOUGHT = ("clock", "cores", "memory.", "engines.", "links.")
"""Parts of a machine that another one has more of."""

Ask = Callable[..., Question]


def move_rows(
    today: Question, workload: str | Workload, ask: Ask | None = None, dials: Evaluator | None = None
) -> list[dict[str, Any]]:
    """Moves that shorten the time (of an item, where the batch changes): of software, then of the machine.

    `today`: the question as it is.
    `workload`: as it was named or written down, before any data type or runtime.
    `ask`: makes a question of a workload, a machine, settings and a data type, with today's estimator; None: the
        default.

    Returns
    -------
    Rows ``{move, time_s, ratio}``; `ratio` is of the time of one item to today's.
    """
    before = today.answer().time
    here = items_of(today, {}) or 1.0
    rows = []
    for name, moved in _software(today, workload, ask or _by_default):
        try:
            time = moved.answer().time
        except InputError:
            continue
        items = items_of(moved, {}) or 1.0
        rows.append({"move": name, "time_s": time, "ratio": time / before * here / items})
    bought = [_bought(name, dials, before) for name in (dials.today if dials else ()) if dials and _is_bought(name)]
    return [*_shortest(rows, len(rows)), *_shortest(bought, FEW)]


def _by_default(workload: str | Workload, machine: Machine, sizes: Mapping[str, float], dtype: str | None) -> Question:
    return question(workload, machine, None, sizes, dtype)


def _shortest(rows: Sequence[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    shorter = [row for row in rows if row["ratio"] is not None and row["ratio"] < GAIN]
    return sorted(shorter, key=lambda row: float(row["ratio"]))[:most]


def _bought(name: str, dials: Evaluator, seconds: float) -> dict[str, Any]:
    ratio = dials.ratio(name, 2.0)
    return {"move": f"twice {name}", "time_s": None if ratio is None else ratio * seconds, "ratio": ratio}


def _is_bought(name: str) -> bool:
    return name.startswith("machine.") and name.removeprefix("machine.").startswith(BOUGHT)


def _software(today: Question, workload: str | Workload, ask: Ask) -> Iterator[tuple[str, Question]]:
    machine, dtype, sizes = today.machine, today.dtype or None, _settings(today)
    for name, change in _changes(today, machine, sizes):
        try:
            yield name, ask(workload, machine.using(change.get("machine", {})), {**sizes, **change.get("sizes", {})},
                            change.get("dtype", dtype))  # fmt: skip
        except InputError:
            continue
    flash = cached_rewrite(today.workload, "flash attention", lambda: flash_attention(today.workload))
    if flash.names != today.workload.names:
        written = workload_by_name(workload) if isinstance(workload, str) else workload
        changed = cached_rewrite(written, "flash attention", lambda: flash_attention(written))
        yield "--attention flash", ask(changed, machine, sizes, dtype)


def _changes(today: Question, machine: Machine, sizes: Mapping[str, float]) -> Iterator[tuple[str, dict[str, Any]]]:
    mode = machine.runtime.mode
    if mode == "eager":
        yield "--mode compiled", {"machine": {"runtime.mode": "compiled"}}
    if mode != "graph_replay":
        yield "--mode graphs", {"machine": {"runtime.mode": "graph_replay"}}
    rates = machine.engines["matrix"].flop_per_cycle if "matrix" in machine.engines else {}
    if today.dtype in WIDE:
        for name in NARROWER:
            if name in rates:
                yield f"--dtype {name}", {"dtype": name}
                break
    batch = {**today.workload.defaults, **today.sizes, **today.run}.get("batch")
    if batch and "workload.batch" not in today.vary.names:
        yield f"--batch {2 * batch:g}", {"sizes": {**sizes, "workload.batch": 2 * batch}}


def _settings(today: Question) -> dict[str, float]:
    return {f"workload.{name}": value for name, value in today.sizes.items()} | {
        f"run.{name}": value for name, value in today.run.items() if name not in today.sizes
    }
