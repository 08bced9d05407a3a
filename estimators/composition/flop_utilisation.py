"""Model flop utilisation: the seconds that products would take at the peak rates, over the time."""

from __future__ import annotations

from slipstick.common.errors import InputError
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload


def utilisation(bound: Workload, machine: Machine, time: float) -> tuple[float | None, str]:
    """Seconds of the matrix products at the peaks that serve their types over the time, and whose peak that is.

    Parameters
    ----------
    bound
        A workload without open sizes.
    time
        Of the whole [s].

    Returns
    -------
    tuple
        None and "" where it has no products, or the machine does not compute one of their types.
    """
    by_dtype: dict[str, float] = {}
    for op in bound:
        for name, amount in op.cost.items():
            if name.startswith("flop.matrix."):
                dtype = name.removeprefix("flop.matrix.")
                by_dtype[dtype] = by_dtype.get(dtype, 0.0) + float(amount) * float(op.times)
    if not by_dtype or time <= 0:
        return None, ""
    seconds, peaks = 0.0, dict[str, None]()
    for dtype in sorted(by_dtype, key=lambda name: -by_dtype[name]):
        try:
            engine, served = serving_rate(machine, "matrix", dtype)
        except InputError:
            return None, ""
        seconds += by_dtype[dtype] / machine.stated_peak(engine, served)
        peaks[served] = None
    one = f"the {next(iter(peaks))} peak"
    return seconds / time, one if len(peaks) == 1 else f"the peaks of its types ({', '.join(peaks)})"
