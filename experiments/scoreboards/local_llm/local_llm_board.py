"""Local language models against LocalScore's rows: accelerators unseen, the newest unseen, one model from another.

Errors are |predicted / measured - 1| of tokens/s. `scored` names other rows of the same columns: all public rows are
known then, but those of the accelerators that stand in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slipstick.estimators.engine_steps.llama_cpp_fit import LocalFit, PhaseFit
from slipstick.estimators.engine_steps.llama_cpp_step import GENERATING, LAWS, PROMPTING
from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import LawFit
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.local_llm.bench_scores import bench_scores
from slipstick.experiments.scoreboards.local_llm.local_fits import (
    HELD_OUT,
    NAME,
    OF_PROMPTS,
    LeftOut,
    fitted_to,
    held_group,
    law_rows,
    outer,
)
from slipstick.experiments.scoreboards.local_llm.local_rows import (
    FILE,
    FILES,
    RATES_FILE,
    LocalRow,
    known_rows,
    read_local,
    read_rates,
    timed,
)
from slipstick.experiments.scoring.rules_of_thumb import BANDWIDTH, PEAK, RULE
from slipstick.experiments.scoring.score import PERCENT, Board, Data, Front, MissingError, Part, Scored

GOALS = {"newest unseen": (18.0, 50.0), "rows given": (18.0, 50.0), "14B from 8B on one machine": (4.0, 16.0)}
PROMPT_GOALS = {"newest unseen": (25.0, 60.0), "rows given": (25.0, 60.0)}
KINDS = {GENERATING: ("time of a token", GOALS), PROMPTING: ("time of a prompt's token", PROMPT_GOALS)}
NOISE = 2.4
SHARES = {GENERATING: BANDWIDTH, PROMPTING: PEAK}
ENOUGH = 20


def _localscore(data: Data) -> Iterator[Scored]:
    """One user's generation and prompts."""
    public, targets, note = _read(data)
    for held in (*HELD_OUT, *OF_PROMPTS):
        for met in outer(public, held):
            yield _scored(held, met, public, note)
    if (path := training_file(RATES_FILE)) is not None:
        rates = read_rates(path, GENERATING)
        yield _scored("publisher unseen", _met(load_fitted(NAME).fits, rates, GENERATING), public, note)
    yield from _anchored(timed(targets, GENERATING), public)


def _met(fits: Mapping[str, LawFit], rows: Sequence[LocalRow], phase: str) -> LeftOut:
    """A phase of rows by fits to others."""
    fitted = {row.backend: LocalFit.of(fits, row.backend).phase(phase) for row in rows}
    seconds = [fitted[row.backend].seconds(row.work_of(phase), row.groups) for row in rows]
    half = [fitted[row.backend].half_width(row.work_of(phase), row.groups) for row in rows]
    return LeftOut(phase, rows, np.array(seconds), np.array(half))


def _given(data: Data) -> Iterator[Scored]:
    """The same of rows that are given, from chips that are not among theirs."""
    known, targets, note = _read(data)
    if not targets:
        raise MissingError(note)
    fits = fitted_to(known)
    for phase in LAWS:
        rows = [row for row in targets if math.isfinite(row.seconds(phase))]
        made = _scored("rows given", _met(fits, rows, phase), known, note)
        yield replace(made, least=np.array([_least(row, phase) for row in rows]))
    yield from _anchored(timed(targets, GENERATING), known)


def _read(data: Data) -> tuple[list[LocalRow], list[LocalRow], str]:
    """Rows to learn from, rows to score, and which of these were left out; a chip that is scored is not known."""
    public = known_rows(data.known(FILE), *map(training_file, FILES[1:]))
    targets, refused = read_local(data.judged(FILE))
    note = "left out: " + "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    return data.learnt(public, targets, lambda row: row.chip), targets, note


def _least(row: LocalRow, phase: str) -> float:
    """Seconds by bandwidth alone, or of a prompt by the peak of products and attention, at the mean of its rates."""
    return (
        float(1 / np.mean(1 / (row.prompts.products + row.prompts.scores))) if phase == PROMPTING else row.work.memory
    )


def _scored(held: str, met: LeftOut, public: Sequence[LocalRow], note: str) -> Scored:
    """A phase; the baseline is bytes over bandwidth, or flop over peak, with one efficiency a backend.

    Of prompts half of the peak is another.
    """
    name, goals = KINDS[met.phase]
    others = [row for row in public if math.isfinite(row.seconds(met.phase))]
    base = []
    for row in met.rows:
        same = [r for r in others if r.backend == row.backend and r.chip != row.chip]
        ratio = float(np.median([r.seconds(met.phase) / _least(r, met.phase) for r in same])) if same else 2.0
        base.append(_least(row, met.phase) * ratio)
    bound = np.array([_least(row, met.phase) for row in met.rows])
    return Scored(
        name, held, met.measured, met.seconds, PERCENT, goals.get(held, ()),
        {"one efficiency": np.array(base), RULE: bound / SHARES[met.phase]},
        enough=ENOUGH, noise=NOISE, half=met.half,
        reason=f"{note}; {len({row.chip for row in met.rows})} chips left out",
        groups=held if held == "newest unseen" else [held_group(row, held) for row in met.rows],
        inputs=[
            {"accelerator": row.accelerator, "backend": row.backend, "weights": row.stored, "model": row.model}
            for row in met.rows
        ],
    )  # fmt: skip


def _anchored(targets: Sequence[LocalRow], public: Sequence[LocalRow]) -> Iterator[Scored]:
    """Qwen2.5-14B from Llama-3.1-8B on the same chip, both Q4_K_M; the baseline scales by bytes."""
    law, folds_of = LAWS[GENERATING], sorted({r.chip for r in targets})
    ours, base, measured, half = (list[float]() for _ in range(4))
    chips = list[str]()
    full = {
        backend: fit(law, law_rows(timed(public, GENERATING, backend), GENERATING, backend))
        for backend in sorted({r.backend for r in targets})
        if timed(public, GENERATING, backend)
    }
    for chip in folds_of:
        alike = [r for r in targets if r.chip == chip and r.stored == "q4_k_m"]
        small, large = ([r for r in alike if r.model == name] for name in ("llama-3.1-8b", "qwen2.5-14b"))
        if not small or not large or small[0].backend not in full:
            continue
        known = float(np.median([r.token for r in small]))
        backend = small[0].backend
        others = timed([r for r in public if r.chip != chip], GENERATING, backend)
        near = fit(law, law_rows(others, GENERATING, backend), near=full[backend])
        made = PhaseFit(law, near, True).with_known(small[0].work, small[0].groups, known)
        for row in large:
            ours.append(made.seconds(row.work, row.groups))
            base.append(known * row.work.memory / small[0].work.memory)
            measured.append(row.token)
            half.append(made.half_width(row.work, row.groups))
            chips.append(chip)
    held = "14B from 8B on one machine"
    yield Scored(
        "time of a token", held, np.array(measured), np.array(ours), PERCENT, GOALS[held],
        {"bytes over bandwidth": np.array(base)}, enough=ENOUGH, noise=NOISE, half=np.array(half), groups=chips,
        reason="by one run of the 8B model",
    )  # fmt: skip


BOARD = Board(
    "How many tokens/s does a local language model make for one user on a machine that nobody measured?",
    {"local_llm/localscore": Part(_localscore, _given), "local_llm/llm_inference_bench": bench_scores},
    (Front("One user's tokens from a local model", "the accelerator", "time of a token", "accelerator unseen"),),
)
