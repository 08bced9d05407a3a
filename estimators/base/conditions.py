"""What the time of an answer depends on beside sizes and peaks, and who said it; what was given and not used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from slipstick.common.formatting import number_shown
from slipstick.workloads.graph.workload_kind import workload_kind

if TYPE_CHECKING:
    from slipstick.hwmodels.machine import Machine
    from slipstick.workloads.graph.workload import Workload

Origin: TypeAlias = Literal["given", "file", "default", "unknown"]
"""The question sets it; the machine or the workload states it; what is usual was taken; nobody said."""
NAMES = {"training": "trainer", "requests": "engine"}
"""What the field calls the library of a machine's runtime, by the kind of workload."""


@dataclass(frozen=True)
class Condition:
    """What a time depends on beside sizes and peaks.

    Parameters
    ----------
    name
        The dotted name, or the option that sets it ("machine.runtime.cache", "engine").
    value
        In the field's words.
    origin
        Who said it; "unknown" is an unseen level: its mean is in the answer, its variance in the band.
    note
        What follows from it, in words; "" for nothing.
    """

    name: str
    value: str
    origin: Origin
    note: str = ""

    def row(self) -> dict[str, str]:
        """As plain values."""
        return {"name": self.name, "value": self.value, "origin": self.origin, "note": self.note}

    def text(self) -> str:
        """``engine vllm 0.2 (older than what was measured)``."""
        short = self.name.removeprefix("workload.").removeprefix("run.")
        return f"{short} {self.value}".strip() + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class NotUsed:
    """What the question sets and the answer did not read."""

    name: str
    value: str
    why: str

    def row(self) -> dict[str, str]:
        """As plain values."""
        return {"name": self.name, "value": self.value, "why": self.why}

    def text(self) -> str:
        """``not used: machine.runtime.cache = hot: ...``."""
        return f"not used: {self.name}{f' = {self.value}' if self.value else ''}: {self.why}"


def release_note(version: str, measured: Iterable[str], taken: str) -> str:
    """Where a release lies beside those that were measured, and what is taken for it: ``older than the measured 0.12.0
    .. 0.19.0: answered as their mean, band wider``.

    `version`: as named, "" where none was.
    `measured`: releases of the same software; those without a number (nightly builds) have no place.
    `taken`: what answers for it, in words.
    """
    known = by_release(one for one in measured if numbers_of_release(one))
    span = f"{known[0]} .. {known[-1]}" if len(known) > 1 else "".join(known)
    mine = numbers_of_release(version)
    if not known:
        return "no release of it was measured, band wider"
    if not version:
        return f"no release named: as {taken}, {span}"
    if not mine or numbers_of_release(known[0]) <= mine <= numbers_of_release(known[-1]):
        return f"not among the measured {span}: answered as {taken}, band wider"
    where = "older" if mine < numbers_of_release(known[0]) else "newer"
    return f"{where} than the measured {span}: answered as {taken}, band wider"


def omitted_conditions(omitted: Iterable[tuple[str, float]]) -> tuple[Condition, ...]:
    """What a file leaves out of the work, with the factor (of no unit) that it adds to the band."""
    return tuple(
        Condition("not counted", words, "file", f"band x{number_shown(factor)} either way")
        for words, factor in omitted
        if factor > 1
    )


def by_release(versions: Iterable[str]) -> list[str]:
    """Releases, oldest first."""
    return sorted(versions, key=lambda version: (numbers_of_release(version), version))


def numbers_of_release(version: str) -> tuple[int, ...]:
    """``0.5.10.post1`` and ``v5.1`` by their numbers; none where a text is no release."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def depends_on(conditions: Sequence[Condition], not_used: Sequence[NotUsed]) -> dict[str, Sequence[Mapping[str, str]]]:
    """Both as rows of plain values by key, as JSON has them."""
    return {"conditions": [one.row() for one in conditions], "not_used": [one.row() for one in not_used]}


def conditions_line(conditions: Iterable[Condition]) -> str:
    """``given: ...; default: ...; unknown: ...``; "" where there are none. What a file states stands in the file."""
    by_origin: dict[str, list[str]] = {origin: [] for origin in get_args(Origin)}
    for one in conditions:
        by_origin[one.origin].append(one.text())
    return "; ".join(f"{origin}: {', '.join(texts)}" for origin, texts in by_origin.items() if texts)


def conditions_of(
    workload: Workload,
    base: Machine,
    used: Machine,
    given: Mapping[str, object],
    known: Sequence[Condition],
    *,
    issued: bool,
) -> tuple[Condition, ...]:
    """The conditions of an answer: what the question sets, what its estimator says, the runtime, sizes by default.

    `base`, `used`: the machine before the question changed it, and as it answers.
    `given`: what the question sets, by its dotted name or option.
    `known`: conditions that the estimator says itself; what the question sets of them is given.
    `issued`: whether a runtime issues the work operation by operation, so that its mode has a say.
    """
    library = (
        "engine" if "weights" in workload.metadata else NAMES.get(workload_kind(workload), "machine.runtime.library")
    )
    of_runtime = {"library": library, "mode": "mode", "cache": "machine.runtime.cache"}
    set_as = {f"machine.runtime.{field}": name for field, name in of_runtime.items()}
    made = {
        name: Condition(name, _shown(value), "given")
        for name, value in ((set_as.get(name, name), value) for name, value in given.items())
    }
    for one in known:
        made[one.name] = one if one.name not in made else replace(one, origin="given")
    if workload.uncounted:
        names = ", ".join(workload.uncounted)
        made["not counted"] = Condition("not counted", names, "file", "but by their bytes, band wider by their share")
    stated = base.stated.runtime.model_fields_set
    for field, name in of_runtime.items():
        value = getattr(used.runtime, field)
        if name not in made and value and (issued or field != "mode"):
            from_file = field in stated and value == getattr(base.stated.runtime, field)
            made[name] = Condition(name, str(value), "file" if from_file else "default")
    for name, size in workload.defaults.items():
        if not {f"workload.{name}", f"run.{name}"} & made.keys():
            made[name] = Condition(f"workload.{name}", _shown(size), "default")
    return tuple(made.values())


def _shown(value: object) -> str:
    return number_shown(value) if isinstance(value, (int, float)) else str(value)
