"""How sure answers in several parameters are: the same probability, words and limits as in one."""

from __future__ import annotations

import numpy as np

from slipstick.estimators.scaling.surfaces.candidate_scores import Weighed
from slipstick.estimators.scaling.surfaces.extrapolation_holdout import distances
from slipstick.estimators.scaling.surfaces.surface_band import missed, surface_band, surface_scale, surface_within
from slipstick.estimators.scaling.verdict import ABOVE, BELOW, SURE, WIDEST, Verdict, Word, sureness
from slipstick.estimators.symbolic.lambdified import FloatArray

MOST = 50.0
REACH = 2.0
"""Farther than the farthest point left out, to this power, an answer is wide however well those were predicted."""


def surface_verdicts(
    weighed: Weighed, parameters: tuple[str, ...], x: FloatArray, to: FloatArray, values: FloatArray
) -> list[Verdict]:
    """One verdict a target, where the answers are `values` seconds."""
    if not len(weighed.ahead):
        reason = f"too few levels or points to leave any out in this direction: {len(x)} points"
        return [Verdict("do not extrapolate", reason)] * len(to)
    scale, ratios = surface_scale(weighed, to), distances(x, to)
    below, above = surface_band(scale, ratios, 0.80)
    width = np.exp(np.minimum(below + above, MOST))
    within = surface_within(scale, ratios, -BELOW, ABOVE)
    low, high = x.min(axis=0), x.max(axis=0)
    tried = float(weighed.ahead_ratios.max())
    missing = f"points left out in this direction were missed by {missed(weighed):.0%}"
    result = []
    for i, target in enumerate(to):
        if not (np.isfinite(values[i]) and values[i] > 0 and np.isfinite(below[i])):
            result.append(Verdict("do not extrapolate", f"no finite answer: {values[i]:g} s"))
            continue
        beyond, spans = np.maximum(target / high, low / target), high / low
        far = [
            f"{parameters[k]} = {target[k]:g}: {beyond[k]:.3g} times beyond the data, which span {spans[k]:.3g} times"
            for k in np.flatnonzero(beyond > spans)
        ]
        if ratios[i] > tried**REACH:
            far.append(f"{ratios[i]:.3g} times beyond the data: points left out were tried up to {tried:.3g} times")
        if width[i] > WIDEST:
            far.append(f"the 80 % band spans a factor of {width[i]:.3g}")
        refused = width[i] > WIDEST or (beyond > spans**2).any()
        sure = float(within[i])
        word: Word = "do not extrapolate" if refused else "trust" if sure >= SURE and not far else "wide"
        result.append(Verdict(word, "; ".join([sureness(sure), *far, missing]), sure))
    return result
