"""Local language models against LocalScore's rows: accelerators unseen, the newest unseen, one model from another.

Errors are |predicted / measured - 1| of times. `scored` names other rows of the same columns: all public rows are
known then, but those of the accelerators that stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from slipstick.estimators.tuned.tuned_local import ANCHORED
from slipstick.experiments.evidence.cases import Input
from slipstick.experiments.evidence.model_inputs import model_inputs
from slipstick.experiments.evidence.score import PERCENT, Board, Data, Front, Scored
from slipstick.experiments.evidence.validation.serving.bench_scores import bench_scores
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
NEWEST = re.compile(r"RTX (40|50)|RTX PRO|M[345]\b|RX [79]0?\d{2,3}|\bL40|Ada|H100", re.IGNORECASE)
"""Accelerators of 2022 and later."""
GOALS = {"newest unseen": (18.0, 50.0), "rows given": (18.0, 50.0), "14B from 8B on one machine": (4.0, 16.0)}
NOISE = 2.4
ENOUGH = 20


def _localscore(data: Data) -> Iterator[Scored]:
    """One user's generation and prompts."""
    public, (targets, refused) = read_local(data.known(FILE))[0], read_local(data.judged(FILE))
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    if data.scored is None:
        yield from _pair("accelerator unseen", *_left_out(public, lambda r: r.accelerator), note)
        yield from _pair("newest unseen", *_newest(public), "known: accelerators before 2022")
    else:
        names = {r.accelerator for r in targets}
        yield from _pair("rows given", *_given([r for r in public if r.accelerator not in names], targets), note)
    yield from _pair("14B from 8B on one machine", *_anchored(targets), "by one run of the 8B model")


Errors = tuple[list[LocalRow], FloatArray, FloatArray, FloatArray]


def _left_out(known: Sequence[LocalRow], group: object) -> Errors:
    scored, tokens, prompts = left_out(known, group)  # type: ignore[arg-type]
    base = np.array([r.work.memory * _ratio([o for o in known if o.accelerator != r.accelerator], r) for r in scored])
    return scored, tokens, prompts, base


def _newest(known: Sequence[LocalRow]) -> Errors:
    old = [r for r in known if not NEWEST.search(r.accelerator)]
    return _given(old, [r for r in known if NEWEST.search(r.accelerator)])


def _given(known: Sequence[LocalRow], scored: Sequence[LocalRow]) -> Errors:
    """Rows predicted by a fit to others; a backend without any takes the shipped figures."""
    order: list[LocalRow] = []
    tokens, prompts, base = ([np.empty(0)] for _ in range(3))
    for backend in sorted({r.backend for r in scored}):
        training, wanted = [r for r in known if r.backend == backend], [r for r in scored if r.backend == backend]
        if not training:
            continue
        token, prompt = predicted(fit_backend(training), wanted)
        order += wanted
        tokens.append(token)
        prompts.append(prompt)
        base.append(np.array([r.work.memory * _ratio(training, r) for r in wanted]))
    return order, np.concatenate(tokens), np.concatenate(prompts), np.concatenate(base)


def _ratio(known: Sequence[LocalRow], row: LocalRow) -> float:
    """The roofline with one efficiency: measured over bytes / bandwidth, the median of the backend."""
    rates = [r.token / r.work.memory for r in known if r.backend == row.backend]
    return float(np.median(rates)) if rates else 2.0


def _anchored(known: Sequence[LocalRow]) -> Errors:
    """Qwen2.5-14B from Llama-3.1-8B on the same accelerator, both Q4_K_M; the baseline scales by bytes."""
    scored: list[LocalRow] = []
    tokens, base = [np.empty(0)], [np.empty(0)]
    for name in sorted({r.accelerator for r in known}):
        candidates = [r for r in known if r.accelerator == name and r.stored == "q4_k_m"]
        small, large = ([r for r in candidates if r.model.name == model] for model in ("llama-3.1-8b", "qwen2.5-14b"))
        if not small or not large or small[0].backend not in local_calibration().backends:
            continue
        measured = float(np.median([r.token for r in small]))
        others = [r for r in known if r.accelerator != name and r.backend == small[0].backend]
        fitted = fit_backend(others) if len(others) >= ENOUGH else local_calibration().backends[small[0].backend]
        scored += large
        tokens.append(measured * predicted(fitted, large)[0] / predicted(fitted, small)[0][0])
        base.append(np.array([measured * r.work.memory / small[0].work.memory for r in large]))
    return scored, np.concatenate(tokens), np.empty(0), np.concatenate(base)


def _inputs(row: LocalRow) -> dict[str, Input]:
    return {"accelerator": row.accelerator, "backend": row.backend, "weights": row.stored, **model_inputs(row.model)}


def _pair(
    held: str, scored: Sequence[LocalRow], tokens: FloatArray, prompts: FloatArray, base: FloatArray, note: str
) -> Iterator[Scored]:
    widths = np.array([local_calibration().half_width.get(r.backend, np.log(2)) for r in scored])
    yield Scored(
        "time of a token", held, np.array([r.token for r in scored]), tokens, PERCENT,
        GOALS.get(held, ()), {"bytes over bandwidth": base}, enough=ENOUGH, noise=NOISE, reason=note,
        half=widths * ANCHORED if held.startswith("14B") else widths,
        groups=[] if held == "newest unseen" else [r.accelerator for r in scored],
        inputs=[_inputs(r) for r in scored],
    )  # fmt: skip
    if len(prompts):
        measured = np.array([r.prompt for r in scored])
        yield Scored("time of a prompt's token", held, measured, prompts, reason=note)


BOARD = Board(
    "How many tokens/s does a local language model make for one user on a machine that nobody measured?",
    {"local_llm/localscore": _localscore, "local_llm/llm_inference_bench": bench_scores},
    (Front("One user's tokens from a local model", "the accelerator", "time of a token", "accelerator unseen"),),
)
