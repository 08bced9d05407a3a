"""Picking for a buyer: the row with most tokens/s a device among those whose token time keeps a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from slipstick.common.array_types import FloatArray, IntArray
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase
from slipstick.experiments.scoring.score_rows import ValidationRow

LIMITS = (10e-3, 20e-3, 30e-3, 50e-3)
ENOUGH = 20
MISS_GOAL, REGRET_GOALS = 10.0, (5.0, 20.0)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Rows that are scored, and seconds by ours and by the baselines, shape (rows,): of a further token but `first`."""

    scored: Sequence[SiliconCase]
    further: FloatArray
    first: FloatArray
    seven: FloatArray
    one: FloatArray
    nearest: FloatArray


def picks(predicted: Predictions, kind: str, held: str, half: float) -> Iterator[ValidationRow]:
    """For each limit: how often the pick misses it, and what it gives away; picks keep a margin."""
    cases, further, first, seven = predicted.scored, predicted.further, predicted.first, predicted.seven
    users = np.array([c.load.users for c in cases])
    outputs = np.array([c.load.output_tokens for c in cases])
    devices = np.array([c.layout.devices for c in cases])
    measured = np.array([c.tpot for c in cases])
    truth = np.array([c.per_gpu for c in cases])
    margin = float(np.exp(half / 2))

    def rate(tpot: FloatArray) -> FloatArray:
        return np.asarray(users * outputs / (first + tpot * (outputs - 1)) / devices)

    ways = {"ours": (further * margin, rate(further)), "seven numbers": (seven, rate(seven))}
    groups = _groups(cases)
    for limit in LIMITS:
        picked = {name: _picked(groups, *way, limit, measured, truth) for name, way in ways.items()}
        missed, regret = picked["ours"]
        others_missed, others_regret = picked["seven numbers"]
        case = f"pick under {limit * 1e3:g} ms a token, {kind}"
        if not len(missed):
            continue
        value = 100 * float(np.mean(missed))
        yield ValidationRow(
            "serving/silicon", case, held, len(missed), "limit missed", "%", value,
            {"seven numbers": 100 * float(np.mean(others_missed))}, MISS_GOAL,
            value <= MISS_GOAL if len(missed) >= ENOUGH else None,
            reason="half of the band's half-width is kept as a margin",
        )  # fmt: skip
        for place, goal in zip((50, 90), REGRET_GOALS, strict=True):
            if not len(regret):
                continue
            value = 100 * float(np.percentile(regret, place))
            theirs = {"seven numbers": 100 * float(np.percentile(others_regret, place))} if len(others_regret) else {}
            name = "tokens/s a device given away, " + ("median" if place == 50 else "90th percentile")
            ok = value <= goal if len(regret) >= ENOUGH else None
            yield ValidationRow("serving/silicon", case, held, len(regret), name, "%", value, theirs, goal, ok)


def _groups(cases: Sequence[SiliconCase]) -> list[IntArray]:
    """Rows among which a buyer picks: one model and machine, one pair of lengths."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, case in enumerate(cases):
        key = (case.model.name, case.system, case.load.input_tokens, case.load.output_tokens)
        groups.setdefault(key, []).append(index)
    return [np.array(indexes, dtype=np.int64) for indexes in groups.values() if len(indexes) >= 5]


def _picked(
    groups: Sequence[IntArray],
    tpot: FloatArray,
    rate: FloatArray,
    limit: float,
    measured: FloatArray,
    truth: FloatArray,
) -> tuple[list[bool], list[float]]:
    """Of groups with a right answer and a pick: whether the pick misses the limit, and what a kept one gives away."""
    missed, regret = [], []
    for group in groups:
        right = group[measured[group] <= limit]
        allowed = group[tpot[group] <= limit]
        if not len(right) or not len(allowed):
            continue
        pick = allowed[np.argmax(rate[allowed])]
        missed.append(bool(measured[pick] > limit))
        if not missed[-1]:
            regret.append(float(1 - truth[pick] / truth[right].max()))
    return missed, regret
