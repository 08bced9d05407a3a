"""Local language models against LocalScore's rows: accelerators unseen, the newest unseen, one model from another.

Errors are |predicted / measured - 1| of tokens/s. `scored` names other rows of the same columns: all public rows are
known then, but those of the accelerators that stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slipstick.estimators.tuned.tuned_local import ANCHORED
from slipstick.experiments.calibrate.public_data import scored_file, training_file, why_missing
from slipstick.experiments.evidence.rows import ValidationRow, skipped
from slipstick.experiments.evidence.validation.serving.bench_scores import bench_rows
from slipstick.experiments.evidence.validation.serving.local_rows import (
    FILE,
    LocalRow,
    fit_backend,
    left_out,
    predicted,
    read_local,
)  # fmt: skip
from slipstick.experiments.serve.local import local_calibration

FloatArray = npt.NDArray[np.float64]
DATASET = "local_llm/localscore"
NEWEST = re.compile(r"RTX (40|50)|RTX PRO|M[345]\b|RX [79]0?\d{2,3}|\bL40|Ada|H100", re.IGNORECASE)
"""Accelerators of 2022 and later."""
GOALS = {"newest unseen": (18.0, 50.0), "14B from 8B on one machine": (4.0, 16.0)}
NOISE = 2.4
ENOUGH = 20


def rows(scored: Path | None = None) -> list[ValidationRow]:
    """The scoreboard: LocalScore, then LLM-Inference-Bench."""
    return localscore_rows(scored) + bench_rows(scored)


def localscore_rows(scored: Path | None) -> list[ValidationRow]:
    """One user's generation and prompts."""
    known, path = training_file(FILE), scored_file(FILE, scored)
    if known is None or path is None:
        return [skipped(DATASET, why_missing(FILE, scored))]
    public, (asked, refused) = read_local(known)[0], read_local(path)
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    if not asked:
        return [skipped(DATASET, note)]
    found: list[ValidationRow] = []
    if scored is None:
        found += _pair("accelerator unseen", *_left_out(public, lambda r: r.accelerator), note)
        found += _pair("newest unseen", *_newest(public), "known: accelerators before 2022")
        found += _pair("14B from 8B on one machine", *_anchored(public), "by one run of the 8B model")
        return found
    names = {r.accelerator for r in asked}
    rest = [r for r in public if r.accelerator not in names]
    found += _pair("rows given", *_given(rest, asked), note)
    found += _pair("14B from 8B on one machine", *_anchored(asked), "by one run of the 8B model")
    return found


Errors = tuple[list[LocalRow], FloatArray, FloatArray, FloatArray]


def _left_out(known: Sequence[LocalRow], group: object) -> Errors:
    asked, tokens, prompts = left_out(known, group)  # type: ignore[arg-type]
    base = np.array([r.work.memory * _ratio([o for o in known if o.accelerator != r.accelerator], r) for r in asked])
    return asked, tokens, prompts, base


def _newest(known: Sequence[LocalRow]) -> Errors:
    old = [r for r in known if not NEWEST.search(r.accelerator)]
    return _given(old, [r for r in known if NEWEST.search(r.accelerator)])


def _given(known: Sequence[LocalRow], asked: Sequence[LocalRow]) -> Errors:
    """Rows predicted by a fit to others; a backend without any takes the shipped figures."""
    order: list[LocalRow] = []
    tokens, prompts, base = [], [], []
    for backend in sorted({r.backend for r in asked}):
        own, wanted = [r for r in known if r.backend == backend], [r for r in asked if r.backend == backend]
        if not own:
            continue
        token, prompt = predicted(fit_backend(own), wanted)
        order += wanted
        tokens.append(token)
        prompts.append(prompt)
        base.append(np.array([r.work.memory * _ratio(own, r) for r in wanted]))
    return order, np.concatenate(tokens), np.concatenate(prompts), np.concatenate(base)


def _ratio(known: Sequence[LocalRow], row: LocalRow) -> float:
    """The roofline with one efficiency: measured over bytes / bandwidth, the median of the backend."""
    own = [r.token / r.work.memory for r in known if r.backend == row.backend]
    return float(np.median(own)) if own else 2.0


def _anchored(known: Sequence[LocalRow]) -> Errors:
    """Qwen2.5-14B from Llama-3.1-8B on the same accelerator, both Q4_K_M; the baseline scales by bytes."""
    asked: list[LocalRow] = []
    tokens, base = [], []
    for name in sorted({r.accelerator for r in known}):
        own = [r for r in known if r.accelerator == name and r.stored == "q4_k_m"]
        small, large = ([r for r in own if r.model.name == model] for model in ("llama-3.1-8b", "qwen2.5-14b"))
        if not small or not large or small[0].backend not in local_calibration().backends:
            continue
        measured = float(np.median([r.token for r in small]))
        others = [r for r in known if r.accelerator != name and r.backend == small[0].backend]
        fitted = fit_backend(others) if len(others) >= ENOUGH else local_calibration().backends[small[0].backend]
        asked += large
        tokens.append(measured * predicted(fitted, large)[0] / predicted(fitted, small)[0][0])
        base.append(np.array([measured * r.work.memory / small[0].work.memory for r in large]))
    if not asked:
        return [], np.empty(0), np.empty(0), np.empty(0)
    return asked, np.concatenate(tokens), np.empty(0), np.concatenate(base)


def _pair(
    held: str, asked: Sequence[LocalRow], tokens: FloatArray, prompts: FloatArray, base: FloatArray, note: str
) -> Iterator[ValidationRow]:
    if not asked:
        yield skipped(DATASET, f"{held}: no rows")
        return
    measured = np.array([r.token for r in asked])
    widths = np.array([local_calibration().half_width.get(r.backend, np.log(2)) for r in asked])
    if held.startswith("14B"):
        widths = widths * ANCHORED
    inside = float((np.abs(np.log(tokens / measured)) <= widths).mean())
    span = float(np.exp(2 * np.median(widths)))
    for place, name in ((50, "median error"), (90, "90th percentile of the error")):
        value, other = _error(tokens, measured, place), _error(base, measured, place)
        goal = GOALS[held][place == 90] if held in GOALS else None
        ok = None if goal is None or len(asked) < ENOUGH else value <= goal
        yield ValidationRow(
            DATASET, "tokens/s of generation", held, len(asked), name, "%", value, {"bytes over bandwidth": other},
            goal, ok, 0.8, inside, span, NOISE, note,
        )  # fmt: skip
    if not len(prompts):
        return
    said = np.array([r.prompt for r in asked])
    for place, name in ((50, "median error"), (90, "90th percentile of the error")):
        yield ValidationRow(
            DATASET, "tokens/s of prompts", held, len(asked), name, "%", _error(prompts, said, place), {}, reason=note
        )


def _error(ours: FloatArray, measured: FloatArray, place: float) -> float:
    """Of tokens/s: one over the seconds here."""
    return float(100 * np.percentile(np.abs(measured / ours - 1), place))
