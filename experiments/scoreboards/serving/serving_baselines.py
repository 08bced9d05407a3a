"""What to beat: seven numbers, a roofline with one efficiency, and the nearest known row scaled by the data sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_model import FormulaLaw
from slipstick.estimators.fitting.formula_model import expected, plain_fit
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase
from slipstick.experiments.scoreboards.serving.step_fit import step_rows
from slipstick.experiments.scoring.rules_of_thumb import longer, products

SEVEN = (
    "weights + cache over bandwidth",
    "flop over peak",
    "s a layer",
    "s a layer of several devices",
    "all-reduce bytes",
    "s a step",
    "s a sequence",
)

UNSURE = 2.0
"""Width of the logarithm of each of the seven before any row: an equal part of the time is as good a guess as any."""


class Roofs:
    """Bytes over bandwidth and flop over peak of a further token, with its share of other requests' prompts."""

    def __init__(self, cases: Sequence[SiliconCase]) -> None:
        c = step_rows(cases).columns
        share = c["share"]

        def both(value: Callable[[str], FloatArray]) -> FloatArray:
            return np.asarray(value("plain") + share * (value("mixed") - value("plain")), dtype=float)

        def flop(name: str) -> FloatArray:
            narrow = (c[f"{name}.linear_flop"] + c[f"{name}.expert_flop"]) / c["device.narrow_peak"]
            return np.asarray(narrow + (c[f"{name}.head_flop"] + c[f"{name}.score_flop"]) / c["device.peak"])

        moved = c["plain.weight_bytes"] + c["plain.expert_bytes"] + c["plain.cache_bytes"]
        self.memory = moved / c["device.bandwidth"]
        self.flop = both(flop)
        self.sent = both(lambda name: c[f"{name}.message_bytes"]) / c["device.link"]
        self.layers = c["layers.layers"]
        self.several = np.array([float(case.layout.devices > case.layout.replicas) for case in cases])
        self.sequences = c["plain.sequences"]

    @property
    def columns(self) -> FloatArray:
        """One column for each of the seven numbers."""
        one = np.ones(len(self.memory))
        terms = [self.memory, self.flop, self.layers, self.layers * self.several, self.sent, one, self.sequences]
        return np.column_stack(terms)

    @property
    def rule(self) -> FloatArray:
        """The rule of thumb, seconds."""
        return longer(self.flop, self.memory)

    @property
    def bound(self) -> FloatArray:
        """The roofline: the larger of memory and arithmetic, seconds."""
        return np.asarray(np.maximum(self.memory, self.flop), dtype=float)


def seven_numbers(known: Sequence[SiliconCase], scored: Sequence[SiliconCase]) -> tuple[FloatArray, FloatArray]:
    """Times of further tokens by the seven numbers fitted to the known rows, and the numbers themselves."""
    columns, measured = Roofs(known).columns, np.array([c.tpot for c in known])
    middle = [float(np.median(c[c > 0])) if (c > 0).any() else 1.0 for c in columns.T]
    start = np.median(measured) / np.array(middle) / len(SEVEN)
    priors = tuple(expected(name, float(value), UNSURE) for name, value in zip(SEVEN, start, strict=True))
    law = FormulaLaw(
        "seven numbers", priors, lambda those, _: np.einsum("ij,ji->i", columns, np.array([those[n] for n in SEVEN]))
    )
    numbers = np.array(list(plain_fit(law, measured).values()))
    return Roofs(scored).columns @ numbers, numbers


def one_efficiency(known: Sequence[SiliconCase], scored: Sequence[SiliconCase]) -> FloatArray:
    """Seconds, shape (cases,), by the roofline over one fitted efficiency."""
    efficiency = float(np.median(np.array([c.tpot for c in known]) / Roofs(known).bound))
    return Roofs(scored).bound * efficiency


def nearest_scaled(known: Sequence[SiliconCase], scored: Sequence[SiliconCase]) -> FloatArray:
    """The time of the known row that is nearest in memory, arithmetic, layers and load, scaled by the rooflines."""

    def places(roofs: Roofs) -> FloatArray:
        logs = [np.log(roofs.memory), np.log(roofs.flop + 1e-9), np.log(roofs.layers), 0.3 * np.log(roofs.sequences)]
        return np.column_stack(logs)

    theirs, ours = Roofs(known), Roofs(scored)
    at, measured, bound = places(theirs), np.array([c.tpot for c in known]), theirs.bound
    nearest = [int(np.argmin(((at - place) ** 2).sum(axis=1))) for place in places(ours)]
    return np.asarray(measured[nearest] * ours.bound / bound[nearest], dtype=float)


def first_by_rule(cases: Sequence[SiliconCase]) -> FloatArray:
    """Seconds, shape (cases,), to the first token by the rule of thumb: its prompt's flop on a replica's devices."""
    flop = np.array([2.0 * case.model.token_weights * case.load.input_tokens for case in cases])
    devices = np.array([case.layout.devices / case.layout.replicas for case in cases])
    return products(flop / (step_rows(cases).columns["device.narrow_peak"] * devices))
