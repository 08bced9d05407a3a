"""Numbers at the ticks of pictures: SI prefixes beside a unit, plain ones elsewhere, no powers of ten."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from slipstick.experiments.report.plots import si_ticks


@pytest.mark.parametrize(
    ("title", "value", "written"),
    [
        ("machine.clock [Hz]", 1.5e9, "1.5"),
        ("time [s]", 0.25, "250"),
        ("workload.batch", 1000, "1,000"),
        ("time / today's 212.6 ms", 0.8, "0.8"),
        ("estimated / measured - 1 [%]", 0.5, "0.5"),
    ],
)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_unit_takes_a_prefix(title: str, value: float, written: str, scale: str) -> None:
    figure = Figure()
    axes = figure.subplots()
    axes.plot([value, 2 * value], [value, 2 * value])
    axes.set(xlabel=title, xscale=scale)
    si_ticks(figure)
    assert axes.get_xlabel() == {"machine.clock [Hz]": "machine.clock [GHz]", "time [s]": "time [ms]"}.get(title, title)
    assert axes.xaxis.get_major_formatter()(value, 0) == written
