"""A question as the command line puts it: what is set, what varies, what is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from estimators.calibration import Calibration
from estimators.compiled import NAMESPACES
from estimators.composite import Composite
from estimators.estimate import Estimate
from estimators.formula import FloatArray
from estimators.parameters import parameters, with_parameters
from estimators.schedule.model import check_count
from experiments import registry
from hwmodels.catalog import machine
from hwmodels.files import InputError, unknown_name
from hwmodels.machine import Machine
from hwmodels.units import parse_quantity
from workloads.catalog import workload
from workloads.workload import Workload

MAX_POINTS = 10_000_000


@dataclass(frozen=True)
class Question:
    """A workload on a machine in one run, asked of an estimator."""

    workload: Workload
    machine: Machine
    estimator: Any
    run: Mapping[str, float]

    def answer(self) -> Estimate:
        """The estimate."""
        estimate: Estimate = self.estimator.estimate(self.workload, self.machine, self.run)
        return estimate


def question(
    workload_name: str | Workload, machine_name: str | Machine, estimator_name: Any, set_: Sequence[str]
) -> Question:
    """A question from names (or the things themselves) and settings ``namespace.name=value``.

    Raises
    ------
    InputError
        Where a name is unknown or a value cannot be used.
    """
    values = assignments(set_, NAMESPACES)
    asked = workload(workload_name) if isinstance(workload_name, str) else workload_name
    on = machine(machine_name) if isinstance(machine_name, str) else machine_name
    if values["machine"]:
        on = on.using(values["machine"])
    if estimator_name is None or isinstance(estimator_name, str):
        of = _estimator(estimator_name or registry.default_estimator(asked.name), asked)
    else:
        of = estimator_name
    if values["estimator"]:
        of = set_parameters(of, parameter_values(of, values["estimator"]))
    run = {name: _run_number(asked, name, value) for name, value in values["run"].items()}
    for name, value in run.items():
        if name not in asked.symbols:
            check_count(f"run.{name}", value)
    check_run_names(of, asked, on, run)
    return Question(with_sizes(asked, values["workload"]), on, of, run)


def with_sizes(asked: Workload, texts: Mapping[str, str]) -> Workload:
    """The workload with symbols given values that were written as text, such as ``{"batch": "64"}``.

    Raises
    ------
    InputError
        Where a name is no symbol of the workload or a text is no number above 0.
    """
    sizes = {name: number_of(f"workload.{name}", text) for name, text in texts.items()}
    for name, value in sizes.items():
        if value <= 0:
            raise InputError(f"workload.{name} = {value:g}: want a number > 0")
    return asked.bind(**sizes)


def check_run_names(of: Any, asked: Workload, on: Machine, names: Iterable[str]) -> None:
    """Raise InputError where a number of the run has no say in the answer: a misspelt one would be passed over."""
    inner = of.estimator if isinstance(of, Calibration) else of
    if not isinstance(inner, Composite):
        return
    known = inner.run_names(asked, on)
    for name in names:
        if name not in known:
            raise unknown_name(
                "number of the run for this estimator:", f"run.{name}", [f"run.{own}" for own in sorted(known)]
            )


def set_parameters(of: Any, values: Mapping[str, float]) -> Any:
    """The estimator with some parameters given; those of a calibration are its estimator's, and count as known."""
    inner = of.estimator if isinstance(of, Calibration) else of
    known = parameters(inner)
    for name in values:
        if name not in known:
            raise unknown_name("estimator parameter", name, sorted(known))
    changed = with_parameters(inner, values)
    if not isinstance(of, Calibration):
        return changed
    kept = [i for i, name in enumerate(of.names) if name not in values]
    covariance = tuple(tuple(of.covariance[i][j] for j in kept) for i in kept) if of.covariance else ()
    sample = tuple(tuple(draw[i] for i in kept) for draw in of.sample)
    names = tuple(of.names[i] for i in kept)
    return replace(of, estimator=changed, names=names, covariance=covariance, sample=sample)


def _estimator(name: str, asked: Workload) -> Any:
    if name in ("phi-a", "phi-b") and asked.name.startswith("phi-cnn-"):
        from experiments.papers import xeon_phi

        return xeon_phi.calibrated(asked.name.removeprefix("phi-cnn-"), name[-1])
    found = registry.estimator(name)
    if name == "tpu" and asked.name != "data-parallel-mlp":
        return found.estimator  # its scatter is known for fully connected networks only
    return found


def prices(texts: Sequence[str]) -> dict[str, float]:
    """``namespace.name=number`` texts as one mapping."""
    found = assignments(texts, NAMESPACES)
    return {
        f"{space}.{name}": number_of(f"{space}.{name}", value)
        for space, entries in found.items()
        for name, value in entries.items()
    }


def assignments(texts: Sequence[str], spaces: Sequence[str]) -> dict[str, dict[str, str]]:
    """``namespace.name=value`` texts by namespace.

    Raises
    ------
    InputError
        Where a text has another form, or a name is set twice.
    """
    found: dict[str, dict[str, str]] = {space: {} for space in spaces}
    for text in texts:
        name, equals, value = text.partition("=")
        space, dot, path = name.strip().partition(".")
        if not equals or not dot or not path or not value.strip():
            raise InputError(f"{text[:60]!r}: want NAMESPACE.NAME=VALUE, such as run.threads=240")
        if space not in found:
            raise unknown_name("namespace", space, list(spaces))
        if path in found[space]:
            raise InputError(f"{name} is set twice")
        found[space][path] = value.strip()
    return found


def axis(text: str, on: Machine) -> tuple[str, FloatArray]:
    """One ``--vary``: ``name=v1,v2,...``, ``name=low..high`` (whole numbers) or ``name=low..high:n`` (n even steps).

    ``name=low..high:nlog`` takes n steps of equal ratio. Counts (run.*, workload.*, whole fields) are rounded, and
    equal ratios may then fall on one whole number: there are fewer values than steps (see `merged_steps`).

    Raises
    ------
    InputError
        Where the text has another form, a value is no quantity of the field's unit, or a count has fewer whole numbers
        between low and high than steps.
    """
    name, equals, written = text.partition("=")
    name = name.strip()
    if not equals or "." not in name or name.partition(".")[0] not in NAMESPACES:
        raise InputError(
            f"{text[:60]!r}: want NAMESPACE.NAME=VALUES, such as machine.clock=1GHz,2GHz or run.threads=1..240:24"
        )
    low, dots, rest = written.partition("..")
    if not dots:
        values = np.array([_quantity(name, part, on) for part in written.split(",")])
    else:
        high, _, steps = rest.partition(":")
        first, last = _quantity(name, low, on), _quantity(name, high, on)
        if not last > first:
            raise InputError(f"{name}={written[:40]}: want low..high with high > low")
        values = _steps(name, first, last, steps)
        counted = name.startswith(("run.", "workload.")) and not name.endswith("_ratio")
        if counted or isinstance(_field(name, on), int):
            whole = math.floor(last) - math.ceil(first) + 1
            if len(values) > whole:
                raise InputError(f"{name}={written[:40]}: {len(values)} steps in {max(whole, 0)} whole numbers")
            values = np.unique(np.round(values))
    if len(values) > MAX_POINTS:
        raise InputError(f"{name}: {len(values)} values are more than {MAX_POINTS}")
    return name, values


def counts_axis(text: str, on: Machine) -> tuple[str, FloatArray]:
    """As `axis`, for estimators: their numbers of a run are whole and at least 1.

    Raises
    ------
    InputError
        As `axis`, and where a number of the run is no whole number >= 1.
    """
    name, values = axis(text, on)
    for value in values if name.startswith("run.") else ():
        check_count(name, value)
    return name, values


def merged_steps(name: str, written: str, values: int) -> str:
    """What to say where ``low..high:nlog`` gave fewer values than steps, since counts are whole; "" otherwise."""
    steps = written.rpartition(":")[2].removesuffix("log") if ".." in written else ""
    if not steps.isdigit() or int(steps) <= values:
        return ""
    return f"{name}: {values} different whole numbers in the {int(steps)} steps of {written}"


def _steps(name: str, first: float, last: float, steps: str) -> FloatArray:
    if not steps:
        if last - first > MAX_POINTS:
            raise InputError(f"{name}: more than {MAX_POINTS} values; say how many steps (low..high:n)")
        return np.arange(math.ceil(first), math.floor(last) + 1, dtype=np.float64)
    count = steps.removesuffix("log")
    if not count.isdigit() or not 2 <= int(count) <= MAX_POINTS:
        raise InputError(f"{name}: {steps[:20]!r} steps: want a whole number from 2 to {MAX_POINTS}, or one with 'log'")
    if steps.endswith("log"):
        if first <= 0:
            raise InputError(f"{name}: equal ratios need values > 0")
        return np.geomspace(first, last, int(count))
    return np.linspace(first, last, int(count))


def _field(name: str, on: Machine) -> Any:
    return on.get(name.partition(".")[2]) if name.startswith("machine.") else None


def _quantity(name: str, text: str, on: Machine) -> float:
    return machine_change(name, text, on) if name.startswith("machine.") else number_of(name, text)


def machine_change(name: str, text: str, on: Machine) -> float:
    """The value of a machine's field written as text with its unit, in SI."""
    path = name.partition(".")[2]
    on.get(path)
    changed = on.using({path: text.strip()}).get(path)
    if not isinstance(changed, (int, float)):
        raise InputError(f"{name} is no number; fields that can vary: {', '.join(list(on.numbers)[:30])}")
    return float(changed)


def _run_number(asked: Workload, name: str, text: str) -> float:
    """A number of the run, or one of the words that the workload has for its values 1, 2, ... (metadata words.NAME)."""
    words = asked.metadata.get(f"words.{name}")
    if not isinstance(words, tuple) or text[:1].isdigit():
        return number_of(f"run.{name}", text)
    if text not in words:
        raise unknown_name(f"value of run.{name}:", text, list(map(str, words)))
    return float(words.index(text) + 1)


def parameter_values(of: Any, texts: Mapping[str, str]) -> dict[str, float]:
    """Values of an estimator's parameters, each a number in its unit or a text with a unit that converts to it."""
    known = parameters(of.estimator if isinstance(of, Calibration) else of)
    return {
        name: number_of(f"estimator.{name}", text, known[name][1].unit if name in known else "1")
        for name, text in texts.items()
    }


def number_of(name: str, text: str, unit: str = "1") -> float:
    """A finite number written as text, in a unit or with one that converts to it."""
    try:
        value = parse_quantity(text, unit)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    if not math.isfinite(value):
        raise InputError(f"{name} = {text}: want a finite number")
    return value
