"""A question as the command line puts it: what is set, what varies, what is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slipstick.estimators.calibration.calibration import Calibration
from slipstick.estimators.composites.compiled import NAMESPACES
from slipstick.estimators.composites.composite import Composite
from slipstick.estimators.core.estimate import Estimate
from slipstick.estimators.core.parameters import parameters, with_parameters
from slipstick.estimators.core.schedule_model import check_count
from slipstick.experiments.question import registry
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.files.readers import InputError, unknown_name
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.units import parse_quantity
from slipstick.workloads.catalog import workload
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.transforms.dtype import in_dtype


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
    workload_name: str | Workload,
    machine_name: str | Machine,
    estimator_name: Any,
    set_: Sequence[str],
    dtype: str | None = None,
) -> Question:
    """A question from names (or the things themselves), settings ``namespace.name=value`` and a data type.

    Raises
    ------
    InputError
        Where a name is unknown or a value cannot be used.
    """
    values = assignments(set_, NAMESPACES)
    asked = workload(workload_name) if isinstance(workload_name, str) else workload_name
    asked = in_dtype(asked, dtype) if dtype is not None else asked
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
    if "dtype" in texts:
        raise InputError("workload.dtype is no size: give --dtype NAME, in a study file dtype = 'NAME'")
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
        from slipstick.estimators.named import phi_study as xeon_phi

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
        name, value = name_and_value(text)
        space, _, path = name.partition(".")
        if space not in found:
            raise unknown_name("namespace", space, list(spaces))
        if path in found[space]:
            raise InputError(f"{name} is set twice")
        found[space][path] = value
    return found


def name_and_value(text: str) -> tuple[str, str]:
    """The two sides of ``namespace.name=value``.

    Raises
    ------
    InputError
        Where the text has another form.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.partition(".")[2] or not value:
        raise InputError(f"{text[:60]!r}: want NAMESPACE.NAME=VALUE, such as run.threads=240")
    return name, value


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
