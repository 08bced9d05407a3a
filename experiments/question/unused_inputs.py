"""Named quantities that a time does not use: not no effect here, but no place in the formula."""

from __future__ import annotations

from collections.abc import Sequence

from slipstick.estimators.base.protocols import CompiledEstimator
from slipstick.estimators.composition.energy_and_cost import Consumption


def unread(function: CompiledEstimator, names: Sequence[str], consumed: Sequence[Consumption] = ()) -> tuple[str, ...]:
    """A line on the names that no formula of a compiled estimator holds; none where that cannot be known.

    `function`: what an estimator compiled with these names left free.
    `consumed`: what is given beside the time, which may read what the time does not.
    """
    if function.read is None:
        return ()
    missing = [name for name in names if name not in function.read]
    elsewhere = {name: [one.name for one in consumed if one.reads(name)] for name in missing}
    lines = []
    if nowhere := [name for name in missing if not elsewhere[name]]:
        lines.append(f"this estimator does not read {', '.join(nowhere)}")
    lines += [
        f"this estimator's time does not read {name} ({' and '.join(amounts)} does)"
        for name, amounts in elsewhere.items()
        if amounts
    ]
    return tuple(lines)
