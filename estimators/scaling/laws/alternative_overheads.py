"""Laws with an overhead that the points do not exclude, and what each of them says.

The average weighs a turn upward by how likely it was beforehand. Whoever has a program that turns is not helped by
others that do not. So an answer is trusted only where it holds under every overhead that may still come: of the curves
of one law that an overhead lengthens by the target, the mean likelihood is set beside that of the likeliest group. What
is less likely by `EXCLUDED` is excluded: "strong" evidence against it by Jeffreys 1961 (Theory of Probability, appendix
B). Borders of bandwidth and of memory do not count here: nothing shows one before it is crossed, so no points exclude
it, and the average has their probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from slipstick.estimators.fitting.model_averaging import Average
from slipstick.estimators.scaling.laws.importance_sampling import Places
from slipstick.estimators.scaling.laws.scaling_laws import NAMES, OVERHEADS, Curves
from slipstick.estimators.symbolic.lambdified import FloatArray

EXCLUDED, TINY = 10.0, 1e-12
LENGTHENED = 0.20
"""An overhead matters at a target from this share of the time on."""
WORDS = {
    "amdahl-log": "an overhead that grows with log2",
    "usl": "an overhead that grows linearly",
    "amdahl-sqrt": "an overhead that grows with the square root",
}


@dataclass(frozen=True, eq=False)
class Rivals:
    """What each law says where its overhead matters.

    `average`: of ln time at the targets, over all curves.
    `turned`: which curves of laws with overheads have one that matters, shape (targets, candidates).
    `before`: prior probability of these, shape (laws of `OVERHEADS`, targets).
    `laws`: the place in `NAMES` of each candidate's law, shape (candidates,).
    """

    average: Average
    turned: npt.NDArray[np.bool_]
    before: FloatArray
    laws: Places

    def least(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, tuple[str, ...]]:
        """The least probability, over laws that are not excluded, of ln time between two ends, and what that law says.

        Shape (targets,); 1 and no words where all are excluded.
        """
        from scipy.special import ndtr

        after = self.average.weights * self.turned
        groups = np.stack([after[:, self.laws == law].sum(axis=1) for law in OVERHEADS])
        without = (1.0 - groups.sum(axis=0)) / np.maximum(1.0 - self.before.sum(axis=0), TINY)
        likelihoods = groups / np.maximum(self.before, TINY)
        likeliest = np.maximum(without, likelihoods.max(axis=0))
        least, words = np.ones(len(low)), [""] * len(low)
        deviations = np.sqrt(self.average.variances)
        for place, law in enumerate(OVERHEADS):
            some = self.laws == law
            for i in np.flatnonzero((likelihoods[place] * EXCLUDED >= likeliest) & (groups[place] > TINY)):
                middles, weights = self.average.middles[some, i], after[i, some] / groups[place, i]
                ends = (ndtr((end[i] - middles) / deviations[some]) for end in (high, low))
                near = float(weights @ np.subtract(*ends))
                if near < least[i]:
                    time = float(np.exp(weights @ middles))
                    least[i] = near
                    words[i] = f"the points do not exclude {WORDS[NAMES[law]]}, which says {time:.4g} s"
        return least, tuple(words)


def rivals(average: Average, some: Curves, prior: Curves, targets: FloatArray) -> Rivals:
    """The rivals among averaged curves at targets (workers over the fewest), beside all curves of the prior."""
    return Rivals(average, some.turned(targets, LENGTHENED), _before(prior, tuple(targets.tolist())), some.law)


@lru_cache(maxsize=16)
def _before(prior: Curves, targets: tuple[float, ...]) -> FloatArray:
    """Prior probability of curves that turn, shape (laws of `OVERHEADS`, targets), kept for the next series."""
    before = np.exp(prior.log_prior) * prior.turned(np.array(targets), LENGTHENED)
    return np.stack([before[:, prior.law == law].sum(axis=1) for law in OVERHEADS])
