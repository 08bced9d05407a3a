"""How often the machine that a plan calls cheaper is: ``python -m ...scoreboards.serving.cost_pairs``.

Public rows of two chips at the same model, storage, lengths, users and number of devices are a pair. One of the chips
is left out of the fit, the bands come from folds within. Dollars a token are a device's price times the time of a
further token; prices of the one chip over the other run from half to twice, so that the pairs are near calls as well
as plain ones. Each model counts alike within a pair of chips.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from slipstick.common.errors import InputError
from slipstick.estimators.base.estimate import DEFAULT_LEVEL, quantile
from slipstick.estimators.engine_steps.step_law import STEP_LAW
from slipstick.estimators.fitting.fitted_model import LawRows
from slipstick.estimators.fitting.prediction_bands import Fold, calibrated, folds
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.scoreboards.serving.serving_refit import FILE, more_cases, trained_on
from slipstick.experiments.scoreboards.serving.serving_rows import SiliconCase, read_cases
from slipstick.experiments.scoreboards.serving.step_fit import step_rows

PRICES = (0.5, 2**-0.5, 1.0, 2**0.5, 2.0)
"""Of the left-out chip's hour over the other's."""
MOST = 20
"""Pairs of rows of one model on two chips, spread evenly over them."""
BINS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


@dataclass(frozen=True)
class PricedPair:
    """One pair at one ratio of prices.

    `chips`: the one left out, and the other.
    `chance`: that the one left out costs less a token, by the model.
    `cheaper`: 1 where it did by the measured times, else 0.
    `weight`: of the pair, so that models count alike.
    """

    chips: tuple[str, str]
    chance: float
    cheaper: float
    weight: float


def same(case: SiliconCase) -> tuple[object, ...]:
    """What two rows of a pair share."""
    load = case.load
    return case.model.name, case.stored, load.input_tokens, load.output_tokens, load.users, case.layout.devices


def calls() -> list[PricedPair]:
    """All pairs at all ratios of prices.

    Raises InputError where the public rows are missing.
    """
    path = training_file(FILE)
    if path is None:
        raise InputError(why_missing(FILE))
    cases = trained_on([*read_cases(path)[0], *more_cases()])
    rows = step_rows(cases)
    return [call for fold in folds(rows.groups["chip"]) for call in _of_fold(cases, rows, fold)]


def _of_fold(cases: list[SiliconCase], rows: LawRows, fold: Fold) -> list[PricedPair]:
    there: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for at in fold.known.tolist():
        there[same(cases[at])].append(at)
    chips = rows.groups["chip"]
    pairs: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
    for one in fold.scored.tolist():
        for other in there[same(cases[one])]:
            pairs[chips[one], chips[other], cases[one].model.name].append((one, other))
    if not pairs:
        return []
    law = STEP_LAW
    made = calibrated(law, rows.take(fold.known), [rows.groups["model"][at] for at in fold.known.tolist()])
    priced: list[PricedPair] = []
    for (one_chip, other_chip, _), some in pairs.items():
        chosen = [some[at] for at in np.linspace(0, len(some) - 1, min(MOST, len(some))).astype(int).tolist()]
        for pair in chosen:
            both = rows.take(np.array(pair))
            seconds = made.seconds(law, both.columns, both.groups)
            spread = made.ratio_half_width(law, both.columns, both.groups) / quantile(DEFAULT_LEVEL, None)
            measured = math.log(both.seconds[1] / both.seconds[0])
            for price in PRICES:
                chance = float(ndtr((math.log(seconds[1] / seconds[0]) - math.log(price)) / spread))
                cheaper = float(measured > math.log(price))
                priced.append(PricedPair((one_chip, other_chip), chance, cheaper, 1 / len(chosen)))
    return priced


def main() -> None:
    """Print how often what was called cheaper was, by the probability that was said, and the Brier score."""
    made = calls()
    chance, truth, weight = (np.array([getattr(one, name) for one in made]) for name in ("chance", "cheaper", "weight"))
    chips = {frozenset(one.chips) for one in made}
    print(f"{len(made)} calls of {len(chips)} pairs of chips, each with one chip left out of the fit")
    for low, high in itertools.pairwise(BINS):
        inside = (chance >= low) & (chance <= high if high == 1 else chance < high)
        if inside.any():
            claimed, happened = (float(np.average(each[inside], weights=weight[inside])) for each in (chance, truth))
            count = int(inside.sum())
            print(f"said {low:.0%} to {high:.0%}: {claimed:.0%} at the mean, cheaper in {happened:.0%} ({count} calls)")
    score = float(np.average((chance - truth) ** 2, weights=weight))
    right = float(np.average((chance > 0.5) == (truth > 0.5), weights=weight))
    print(f"Brier score {score:.3f} (always even: 0.250), the likelier one was cheaper in {right:.0%}")


if __name__ == "__main__":
    main()
