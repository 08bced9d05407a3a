"""How much measurements of one machine count for another, and how much larger errors are the farther the relatives.

The numbers are fitted by ``slipstick validate --refit operations``: every measured machine is left out in turn and
predicted by the others: other boards of its chip known, its generation unknown, its vendor unknown. Beside those of all
machines the file holds the numbers that are found without each generation and without each vendor; scoreboards take
these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from slipstick.common.errors import InputError
from slipstick.estimators.base.machine_family import MOST_WORDS
from slipstick.estimators.fitting.fitted_file import FITTED, load_fitted

NAME = "operations"
ALL, WITHOUT = "all machines", "without"
"""Where the numbers stand in the file's facts."""
ALIKE = (1.0,) * (MOST_WORDS + 1)
DIFFERENCES = ("kind", "type", "stored", "role", "many")
"""In what a class of kernels may differ from its substitute: kind of operation, data type, type of stored numbers, role
in a step of a language model, and whether it is one product or query or many (`gpu/transfer/kernel_class.py`)."""
ROWS, SINGLE = ("weights", "errors", "shaped"), ("scatter", "library", "memory", "tails", "one_source")
"""Names of the numbers: one for 0, 1, 2 and 3 words shared, and single ones."""


@dataclass(frozen=True)
class SimilarityWeights:
    """What machines with which 0, 1, 2 and 3 words of the family (vendor, generation, chip) are shared say of one.

    Weights are in units of what is known before any machine was measured: the prior of a parameter counts 1. Numbers
    of no unit.

    Parameters
    ----------
    weights
        Of a machine by the words shared.
    scatter
        Added to a machine's median error before machines are weighed by it: below it one fit is as good as another.
    library
        Factor on the weight of a machine that ran another kernel library than the wanted one.
    memory
        Factor on the weight, for the efficiency of main memory, of a machine with another technology (HBM, GDDR).
    errors
        How large errors are where the closest relative shares so many words, against two words.
    shaped
        The same where the others' measured rows are known, and what they leave over at the nearest shapes counts.
    tails
        Errors have longer tails than a normal law: 80 % of them lie within so much of its band.
    one_source
        Standard deviation of the log error where one machine or one chip alone was measured, two words shared.
    substitute_spread
        Standard deviations of log time added where a class of kernels is the substitute of one that differs in each of
        `DIFFERENCES`.
    """

    weights: tuple[float, ...]
    scatter: float
    library: float
    memory: float
    errors: tuple[float, ...] = ALIKE
    shaped: tuple[float, ...] = ALIKE
    tails: float = 1.0
    one_source: float = 1.0
    substitute_spread: tuple[float, ...] = (1.0,) * len(DIFFERENCES)

    def __post_init__(self) -> None:
        rows = [getattr(self, name) for name in ROWS]
        numbers = [
            *(getattr(self, name) for name in SINGLE),
            *(one for row in (*rows, self.substitute_spread) for one in row),
        ]
        if (
            any(len(row) != len(ALIKE) for row in rows)
            or len(self.substitute_spread) != len(DIFFERENCES)
            or not all(0 < one < 1e6 for one in numbers)
        ):
            raise InputError(f"similarity: want {len(ALIKE)} weights and errors, all numbers above 0: {self}")

    @property
    def spreads(self) -> dict[str, float]:
        """`substitute_spread` by difference: standard deviations of log time."""
        return dict(zip(DIFFERENCES, self.substitute_spread, strict=True))

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> SimilarityWeights:
        """From plain JSON values.

        Raises
        ------
        InputError
            Where a number is missing or none.
        """
        try:
            weights, errors, shaped = (tuple(map(float, numbers[name])) for name in ROWS)
            scatter, library, memory, tails, one_source = (float(numbers[name]) for name in SINGLE)
            substitute_spread = tuple(map(float, numbers["substitute_spread"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{FITTED / NAME}.json: no numbers of similarity ({error})") from None
        return cls(weights, scatter, library, memory, errors, shaped, tails, one_source, substitute_spread)


@cache
def fitted_similarity(without: str = "") -> SimilarityWeights:
    """The numbers of ``slipstick validate --refit operations``.

    Parameters
    ----------
    without
        A vendor or generation ("nvidia", "nvidia-hopper") of which nothing may have been looked at.

    Raises
    ------
    InputError
        Where the file is missing or none.
    """
    facts = load_fitted(NAME).facts
    return SimilarityWeights.of(facts[WITHOUT].get(without, facts[ALL]))
