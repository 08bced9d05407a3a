"""Random draws by integer arithmetic alone: the same on every processor, with every release of every library.

Words are those of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
Distributions are tables of thresholds in 32-bit fixed point, computed by Python's `decimal`, whose results are fixed by
its standard; floats never decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import IntArray
from slipstick.common.errors import InputError

Words = npt.NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15
ONE = 1 << 32
"""One, in the fixed point of the thresholds."""
DIGITS = 40
BITS = 64


class Draws:
    """A stream of numbers that a seed starts; every call goes on where the last one stopped."""

    def __init__(self, seed: int) -> None:
        self.state = int(seed) % (1 << BITS)

    def words(self, count: int) -> Words:
        """The next `count` words of splitmix64."""
        steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(self.state)
        self.state = (self.state + count * GOLDEN) % (1 << BITS)
        mixed = (steps ^ (steps >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))

    def below(self, bound: int, count: int) -> IntArray:
        """Integers from 0 to bound - 1; none is likelier than another by more than bound / 2**32.

        Raises InputError where the bound is not from 1 to 2**32.
        """
        if not 1 <= bound <= ONE:
            raise InputError(f"draws below {bound}: want a bound from 1 to 2**32")
        return (((self.words(count) >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)

    def classes(self, weights: Sequence[Decimal], count: int) -> IntArray:
        """Numbers of classes, each as likely as its weight says (to 2**-32)."""
        with localcontext() as context:
            context.prec = DIGITS
            total, edges, sum_ = sum(weights), [], Decimal(0)
            for weight in weights:
                sum_ += weight
                edges.append(int(sum_ / total * ONE))
        edges[-1] = ONE
        return np.searchsorted(np.array(edges, dtype=np.uint64), self.words(count) >> np.uint64(32), "right")

    def permutation(self, size: int) -> IntArray:
        """The numbers 0 to size - 1 in drawn order."""
        return np.asarray(np.argsort(self.words(size), kind="stable"))

    def nearly_in_order(self, size: int, window: float) -> IntArray:
        """The numbers 0 to size - 1, each moved by at most about `window` places."""
        keys = (np.arange(size, dtype=np.int64) << 16) + self.below(max(1, round(window * 65536)), size)
        return np.asarray(np.argsort(keys, kind="stable"))

    def poisson(self, mean: float, count: int) -> IntArray:
        """Poisson's law with this mean."""
        with localcontext() as context:
            context.prec = DIGITS
            centre = Decimal(mean)
            weights = [(-centre).exp()]
            while len(weights) <= mean or weights[-1] > Decimal(2) ** -40:
                weights.append(weights[-1] * centre / len(weights))
        return self.classes(weights, count)

    def geometric(self, mean: float, count: int) -> IntArray:
        """The geometric law from 1 on with this mean."""
        with localcontext() as context:
            context.prec = DIGITS
            stay = 1 - 1 / Decimal(max(mean, 1.01))
            weights = [Decimal(1)]
            while weights[-1] > Decimal(2) ** -36:
                weights.append(weights[-1] * stay)
        return 1 + self.classes(weights, count)

    def lognormal(self, mean: float, spread: float, count: int) -> IntArray:
        """A law like the lognormal one with this mean, rounded down: the exponent is a count of 64 coin tosses."""
        with localcontext() as context:
            context.prec = DIGITS
            middle, step = Decimal(mean).ln() - Decimal(spread) ** 2 / 2, Decimal(spread) / 4
            values = [int((middle + step * (k - 32)).exp() * 65536) for k in range(BITS + 2)]
        table = np.array([min(value, 1 << 46) for value in values], dtype=np.int64)
        tosses = np.bitwise_count(self.words(count)).astype(np.int64)
        part = self.below(65536, count) - 32768  # between two counts, half a step to either side
        slope = np.where(part >= 0, table[tosses + 1] - table[tosses], table[tosses] - table[np.maximum(tosses - 1, 0)])
        return np.asarray((table[tosses] + ((slope >> 16) * part)) >> 16)

    def ranks(self, width: int, exponent: float, count: int) -> IntArray:
        """Ranks from 0 to width - 1, rank r as likely as (r + 1) ** -exponent, alike within an eighth of an octave."""
        with localcontext() as context:
            context.prec = DIGITS
            eighths = range(8 * width.bit_length() + 8)
            edges = sorted({min(width + 1, int(Decimal(2) ** (Decimal(k) / 8))) for k in eighths})
            flat = 1 - Decimal(str(exponent))
            if abs(flat) < Decimal("1e-6"):
                sums = [Decimal(edge).ln() for edge in edges]
            else:
                sums = [Decimal(edge) ** flat / flat for edge in edges]
            weights = [high - low for low, high in pairwise(sums)]
        bucket = self.classes(weights, count)
        low = np.array(edges, dtype=np.uint64)
        span: Words = low[1:] - low[:-1]
        inside: Words = ((self.words(count) >> np.uint64(32)) * span[bucket]) >> np.uint64(32)
        return np.asarray((low[bucket] + inside).astype(np.int64) - 1)
