"""How sure answers in several parameters are: the same probability, words and limits as in one."""

from __future__ import annotations

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.formatting import share_shown
from slipstick.estimators.base.sureness import ABOVE, BELOW, sureness, word_of
from slipstick.estimators.scaling.series import Verdict
from slipstick.estimators.scaling.surfaces.candidate_scores import Weighed
from slipstick.estimators.scaling.surfaces.extrapolation_holdout import distances
from slipstick.estimators.scaling.surfaces.surface_band import REACH, missed, surface_within, tried


def surface_verdicts(
    weighed: Weighed, parameters: tuple[str, ...], x: FloatArray, to: FloatArray, values: FloatArray, scale: FloatArray
) -> list[Verdict]:
    """One verdict a target, where the answers are `values` seconds, and `scale` that of their bands."""
    ratios = distances(x, to)
    within = surface_within(scale, ratios, -BELOW, ABOVE)
    low, high = x.min(axis=0), x.max(axis=0)
    farthest = tried(weighed)
    missing = f"points left out in this direction were missed by {share_shown(missed(weighed))}"
    result = []
    for i, target in enumerate(to):
        if not (np.isfinite(values[i]) and values[i] > 0 and np.isfinite(scale[i])):
            result.append(Verdict("do not trust", f"no finite answer: {values[i]:g} s"))
            continue
        beyond, spans, sure = np.maximum(target / high, low / target), high / low, float(within[i])
        far = [
            f"{parameters[k]} = {target[k]:g}: {beyond[k]:.3g} times beyond the data, which span {spans[k]:.3g} times"
            for k in np.flatnonzero(beyond > spans)
        ]
        sure *= float(np.prod(np.minimum(spans / beyond, 1.0)))
        if ratios[i] > farthest:
            most = farthest ** (1 / REACH)
            far.append(f"{ratios[i]:.3g} times beyond the data: points left out were tried up to {most:.3g} times")
        result.append(Verdict(word_of(sure), "; ".join([sureness(sure), *far, missing]), sure))
    return result
