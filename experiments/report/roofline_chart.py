"""A workload under the roofline of its machine: each operation by its intensity, its rate and its share of the time."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.estimators.base.estimate import Estimate
from slipstick.estimators.roofline.roofline import serving_rate
from slipstick.experiments.question.question import Question
from slipstick.experiments.report.plots import Chart, Marks, PlotLine

MOST_KINDS = 5
LARGEST = 900.0
"""Area of an operation that takes all of the time, in points squared."""


def roofline_chart(question: Question, answer: Estimate) -> Chart | None:
    """The chart, of operations with arithmetic and traffic; None where the workload has none, or no rate is stated.

    Lines are the ceilings of the engines and data types that the operations use over the bandwidth of main memory
    (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009). A point is an operation, or several alike: flop/byte of
    its compulsory traffic, flop/s of the answer, an area by its share of the time. Points above a line are served by
    caches.
    """
    parts = {part.name: part for part in answer.parts}
    rates: set[tuple[str, str]] = set()
    points: dict[str, dict[tuple[float, float], float]] = {}
    for op in question.workload.bound():
        flop, moved, part = op.cost.flop, op.cost.bytes_moved, parts.get(op.name)
        if not (flop and moved and part and part.time):
            continue
        for _, unit, dtype in (name.split(".") for name in op.cost if name.startswith("flop.")):
            with suppress(InputError):  # a rate that is not stated is no ceiling
                rates.add(serving_rate(question.machine, unit, dtype))
        place, alike = (flop / moved, flop / part.time), points.setdefault(op.kind, {})
        alike[place] = alike.get(place, 0.0) + part.time * part.times / answer.time
    if not (points and rates):
        return None
    by_share = sorted(points, key=lambda kind: -sum(points[kind].values()))[:MOST_KINDS]
    intensities = [x for places in points.values() for x, _ in places]
    x = np.geomspace(min(intensities) / 2, max(intensities) * 2, 100)
    bandwidth = question.machine.bandwidth(question.machine.main_memory)
    lines = []
    for rate in sorted(rates):
        peak = question.machine.peak(*rate)
        lines.append(PlotLine(f"{rate[0]}, {rate[1]}: {shown(peak, 'flop/s')}", x, np.minimum(peak, x * bandwidth)))
    marks = [
        Marks(
            kind,
            [x for x, _ in points[kind]],
            [y for _, y in points[kind]],
            len(lines) + place,
            areas=[20 + LARGEST * share for share in points[kind].values()],
        )
        for place, kind in enumerate(by_share)
    ]
    title = f"{question.machine.name}: {shown(bandwidth, 'B/s')}"
    return Chart(title, "intensity [flop/B]", "rate [flop/s]", tuple(lines), tuple(marks), "log", "log")
