"""The verb `extrapolate` as a function: a series, two lists or a file of measured times, predicted beyond them."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.renamed_arguments import checked
from slipstick.estimators.scaling import Prediction, Series, extrapolate_many
from slipstick.estimators.scaling.laws.repeats import Statistic, statistic_of
from slipstick.estimators.scaling.series import KINDS, no_series
from slipstick.experiments.extrapolate.predictions import noted, one_region, with_gains
from slipstick.experiments.extrapolate.series_files import read
from slipstick.hwmodels.catalog import machine as machine_by_name
from slipstick.hwmodels.machine import Machine


@checked
def extrapolate(
    series: str | os.PathLike[str] | Series | npt.ArrayLike,
    to: npt.ArrayLike,
    kind: npt.ArrayLike | str | None = None,
    machine: str | Machine | None = None,
    family: str | None = None,
    level: float | None = 0.80,
    *,
    parameter: str | None = None,
    column: str | None = None,
    region: str | None = None,
    statistic: Statistic | None = None,
    cores_per_node: float | None = None,
) -> Prediction:
    """Predict times at new values: of a file (``"runs.csv"``), a `Series`, or two lists (``values, times, to``).

    Parameters
    ----------
    series
        What was measured: any file that the command reads, a series, or values of the parameter, > 0.
    to
        Values of the parameter, > 0; usually beyond the last one measured. After two lists of values and times it is
        the times [s], `kind` the values, and a kind of scaling stands fourth: ``(values, times, to, "strong")``.
    kind
        "strong", "weak", "problem_size" or "collective"; taken from the name and the slope if None.
    machine
        Its borders (NUMA domain, socket, cores, hardware threads) become the change points; of strong scaling none is
        trusted across a border that no measurement crossed, and its cycles per instruction join the laws.
    family
        One family by name instead of the average over the kind's; "line" and "power" are ordinary least squares.
    level
        Probability of the band; None: no band and no verdict (faster).
    parameter, column, region, statistic
        Of a file: what varied, the column of times, the region, and which of repeats counts ("median", "least").
    cores_per_node
        For core-hours where nodes vary; None: the machine's.

    Raises
    ------
    InputError
        Where the file cannot be read or holds several regions of which none is named, there are fewer than two values,
        a target is not positive, or a name is unknown.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "runs.csv")
    ...     _ = path.write_text("threads,time_s\\n1,10\\n2,5.5\\n4,3.25\\n8,2.125\\n")
    ...     round(ss.extrapolate(path, [16], "strong").value[0], 2)
    1.56
    >>> round(ss.extrapolate([1, 2, 4, 8], [10.0, 5.5, 3.25, 2.125], 16).value[0], 2)
    1.56
    """
    words = {"parameter": parameter, "column": column, "region": region, "statistic": statistic}
    if not isinstance(series, (str, os.PathLike)) and (unused := [name for name, word in words.items() if word]):
        raise InputError(f"{', '.join(unused)}: of a file, but a series was given")
    if not isinstance(series, (str, os.PathLike, Series)):
        if kind is None or isinstance(kind, str):
            raise no_series(series)
        series, to, kind = Series.of(series, to), kind, None
        if isinstance(machine, str) and machine in KINDS:  # after two lists the words stand one place further
            kind, machine = machine, None
    if kind is not None and not isinstance(kind, str):
        raise InputError("kind: want a word, such as 'strong'; times stand in the series or file")
    try:
        at = machine_by_name(machine) if isinstance(machine, str) else machine
    except InputError as error:
        raise InputError(f"machine: {error}; kind is one of {', '.join(KINDS)}") from None
    if isinstance(series, Series):
        return with_gains(extrapolate_many([series], to, kind, at, family, level)[0], at, cores_per_node)
    readings = read(os.fspath(series), column)
    readings = replace(readings, statistic=statistic_of(statistic) if statistic else readings.statistic)
    one = one_region(readings.series(parameter), region)
    answer = noted(extrapolate_many([one], to, kind, at, family, level)[0], readings)
    return with_gains(answer, at, cores_per_node)
