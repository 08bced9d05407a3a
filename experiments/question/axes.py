"""What varies, as it is written: ``machine.clock=1GHz,2GHz``, ``run.threads=1..240:24``, ``run.batch=1..512:9log``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.common.readers import whole_number
from slipstick.common.units import MOST, check_count
from slipstick.estimators.base.schedule_model import AMOUNTS, check_run_number
from slipstick.estimators.composition.compiled_estimator import NAMESPACES
from slipstick.experiments.question.settings import machine_change, number_of
from slipstick.hwmodels.machine import Machine

Values = str | float | Sequence[float] | Sequence[str] | Sequence[float | str] | npt.NDArray[Any]
"""Values of one axis: numbers in SI units, an array of them, or texts with units."""
MAX_POINTS = 1_000_000
"""Values of one axis: a second to make. More points are a sample, or several axes."""


def axis(text: str, machine: Machine) -> tuple[str, FloatArray]:
    """One ``--vary``: a name and its values, as `axis_values` reads them from the text after ``name=``.

    Raises InputError where the text has another form, or as `axis_values`.

    Returns
    -------
    tuple of str and FloatArray
        The name and its values in SI units, shape (values,).
    """
    name, written = _name_and_values(text)
    return name, axis_values(name, written, machine)


def _name_and_values(text: str) -> tuple[str, str]:
    name, equals, written = text.partition("=")
    name = name.strip()
    if not equals or "." not in name or name.partition(".")[0] not in NAMESPACES:
        raise InputError(
            f"{text[:60]!r}: want NAMESPACE.NAME=VALUES, such as machine.clock=1GHz,2GHz or run.threads=1..240:24"
        )
    return name, written


def axis_values(name: str, written: str, machine: Machine) -> FloatArray:
    """``v1,v2,...``, ``low..high`` (whole numbers) or ``low..high:n`` (n even steps) of a named quantity, in SI units.

    ``low..high:nlog`` takes n steps of equal ratio. Counts (run.*, workload.*, whole fields) are rounded, and
    equal ratios may then fall on one whole number: there are fewer values than steps (see `merged_steps`).
    Raises InputError where a value is no quantity of the field's unit, or a count has fewer whole numbers between low
    and high than steps.
    """
    low, dots, rest = written.partition("..")
    if not dots:
        values = np.array([quantity(name, part, machine) for part in written.split(",")])
    else:
        high, _, steps = rest.partition(":")
        first, last = quantity(name, low, machine), quantity(name, high, machine)
        if not last > first:
            raise InputError(f"{name}={written[:40]}: want low..high with high > low")
        values = _steps(name, first, last, steps)
        if is_count(name, machine):
            whole = math.floor(last) - math.ceil(first) + 1
            if len(values) > whole:
                raise InputError(
                    f"{name}={written[:40]}: {len(values)} steps in {max(whole, 0)} whole numbers: want no more"
                )
            values = np.unique(np.round(values))
    if len(values) > MAX_POINTS:
        raise InputError(f"{name}: {len(values)} values are more than {MAX_POINTS}")
    _check_sizes(name, values, machine)
    return values


def _check_sizes(name: str, values: FloatArray, machine: Machine) -> None:
    """Refuse a size of the workload that is no whole number >= 1."""
    if name.startswith("workload.") and is_count(name, machine):
        for value in values[(values != np.round(values)) | (values < 1) | (values > MOST)][:1]:
            check_count(name, float(value))


def is_count(name: str, machine: Machine) -> bool:
    """Whether a quantity has whole values only: numbers of the run and workload, and whole fields of the machine."""
    counted = name.startswith(("run.", "workload.")) and not name.endswith("_ratio")
    counted = counted and name.removeprefix("run.") not in AMOUNTS
    return counted or isinstance(_field(name, machine), int)


def counts_axis(text: str, machine: Machine) -> tuple[str, FloatArray]:
    """As `axis`, for estimators: their numbers of a run are whole and at least 1, but for amounts (`AMOUNTS`).

    Raises InputError as `axis`, and where a number of the run is no whole number >= 1.
    """
    name, written = _name_and_values(text)
    return name, counts_values(name, written, machine)


def counts_values(name: str, written: str, machine: Machine) -> FloatArray:
    """Values in SI units, as `axis_values`, with the checks of `counts_axis`."""
    values = axis_values(name, written, machine)
    if name.startswith("run."):
        for value in values:
            check_run_number(name.removeprefix("run."), float(value))
    return values


def merged_steps(name: str, written: str, values: int) -> str:
    """What to say where ``low..high:nlog`` gave fewer values than steps, since counts are whole; "" otherwise."""
    steps = written.rpartition(":")[2].removesuffix("log") if ".." in written else ""
    count = whole_number(steps)
    if count is None or count <= values:
        return ""
    return f"{name}: {values} different whole numbers in the {count} steps of {written}"


def _steps(name: str, first: float, last: float, steps: str) -> FloatArray:
    if not steps:
        if last - first > MAX_POINTS:
            raise InputError(f"{name}: more than {MAX_POINTS} values; say how many steps (low..high:n)")
        return np.arange(math.ceil(first), math.floor(last) + 1, dtype=np.float64)
    count = whole_number(steps.removesuffix("log"))
    if count is None or not 2 <= count <= MAX_POINTS:
        raise InputError(f"{name}: {steps[:20]!r} steps: want a whole number from 2 to {MAX_POINTS}, or one with 'log'")
    if steps.endswith("log"):
        if first <= 0:
            raise InputError(f"{name}: equal ratios need values > 0")
        return np.geomspace(first, last, count)
    return np.linspace(first, last, count)


def _field(name: str, machine: Machine) -> Any:
    return machine.get(name.partition(".")[2]) if name.startswith("machine.") else None


def quantity(name: str, text: str, machine: Machine) -> float:
    """The number that a text gives a name, in the unit of its field where it is one of the machine's."""
    if name.startswith("machine."):
        return machine_change(name, text, machine)
    return number_of(name, text, AMOUNTS.get(name.removeprefix("run."), "1"))


def values_of(name: str, values: Values, machine: Machine) -> FloatArray:
    """One axis from numbers (SI) or texts with units, shape (values,); a range of a field is checked at its ends.

    Raises InputError where the name has no namespace, or a value is not finite, not whole where it must be, or outside
    its range.
    """
    if "." not in name or name.partition(".")[0] not in NAMESPACES:
        raise InputError(f"{name[:60]!r}: want NAMESPACE.NAME, such as machine.clock or run.threads")
    listed = [values] if isinstance(values, str) else np.atleast_1d(np.asarray(values)).ravel().tolist()
    if any(isinstance(value, str) for value in listed):
        listed = [quantity(name, value, machine) if isinstance(value, str) else value for value in listed]
    try:
        array = np.asarray(listed, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: want numbers or texts with units, got {str(listed[:3])[:80]}") from None
    if not array.size or len(array) > MAX_POINTS:
        raise InputError(f"{name}: {len(array)} values: want 1 to {MAX_POINTS:,}")
    for value in array[~np.isfinite(array)][:1]:
        raise InputError(f"{name} = {value}: want finite numbers")
    counted = isinstance(_field(name, machine), int)
    counted |= name.startswith("run.") and name.removeprefix("run.") not in AMOUNTS
    for value in array[(array != np.round(array)) | (array < 1)][:1] if counted else ():
        if name.startswith("run."):
            check_run_number(name.removeprefix("run."), float(value))
        elif value != round(value):
            raise InputError(f"{name} = {value:g}: want a whole number")
    _check_sizes(name, array, machine)
    if name.startswith("machine."):
        for end in {float(array.min()), float(array.max())}:
            machine.using({name.partition(".")[2]: int(end) if counted else end})
    return array


def axes_of(vary: Mapping[str, Values] | Sequence[str], machine: Machine) -> dict[str, tuple[float, ...]]:
    """Axes, each a tuple of values in SI units, from name -> values, or from texts ``name=values``.

    Raises InputError where a name stands twice, or a value is no quantity of its field.
    """
    if not vary:
        raise InputError("nothing varies: name at least one, such as machine.clock=1.2GHz,2.4GHz")
    if isinstance(vary, Mapping):
        return {name: tuple(values_of(name, values, machine).tolist()) for name, values in vary.items()}
    axes: dict[str, tuple[float, ...]] = {}
    for text in vary:
        name, numbers = counts_axis(text, machine)
        if name in axes:
            raise InputError(f"{name} varies twice")
        axes[name] = tuple(map(float, numbers))
    return axes
