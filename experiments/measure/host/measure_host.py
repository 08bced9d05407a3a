"""The verb `measure` as a function: this host, measured."""

from __future__ import annotations

from slipstick.common.renamed_arguments import checked
from slipstick.experiments.measure.clocks.timing import Protocol
from slipstick.experiments.measure.host.host_rates import HostMeasurement, measure_host
from slipstick.experiments.measure.host.host_topology import detect


@checked
def measure(*, repeats: int = 11, clock: float | None = None) -> HostMeasurement:
    """Bandwidth and latency of every memory level, dependent additions and matrix products of this host (seconds).

    Parameters
    ----------
    repeats
        Samples of every loop.
    clock
        Of a core [Hz]; None: as it is found.

    Returns
    -------
    HostMeasurement
        `results`, and `machine(name)`: this host as a machine.

    Raises
    ------
    InputError
        Where the clock is not found and none is given.

    Examples
    --------
    >>> import inspect
    >>> list(inspect.signature(measure).parameters)  # it takes a minute of this host
    ['repeats', 'clock']
    """
    return measure_host(detect(clock=clock), protocol=Protocol(repeats=repeats))
