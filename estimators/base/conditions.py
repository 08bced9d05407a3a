"""What the time of an answer depends on beside sizes and peaks, and who said it; what was given and not used."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from slipstick.common.formatting import number_shown
from slipstick.hwmodels.machine_fields import named_shown
from slipstick.workloads.graph.workload_kind import workload_kind

if TYPE_CHECKING:
    from slipstick.hwmodels.machine import Machine
    from slipstick.workloads.graph.workload import Workload

Origin: TypeAlias = Literal["given", "file", "default", "unknown", "unmeasured"]
"""The question sets it; machine or workload state it; what is usual was taken; nobody said; nobody measured it."""
UNMEASURED: Origin = "unmeasured"
LEAST_WIDENING = 0.05
"""Of a band's width, from which on a condition is said to widen it."""
NAMES = {"training": "trainer", "requests": "engine"}
"""What the field calls the library of a machine's runtime, by the kind of workload."""
LEFT_OUT, BY_BYTES = "not counted", "but by their bytes"


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
    band_factor
        How many times as wide the band (of the log) is for it; 1 where it does not widen.
    """

    name: str
    value: str
    origin: Origin
    note: str = ""
    band_factor: float = 1.0

    @property
    def widens(self) -> bool:
        """Whether the band is noticeably wider for it."""
        return self.band_factor >= 1 + LEAST_WIDENING

    def row(self) -> dict[str, str | float]:
        """As plain values."""
        return {**vars(self)}

    def text(self) -> str:
        """``engine vllm 0.2 (older than what was measured; band x1.3 wider)``."""
        short = "" if self.origin == UNMEASURED else self.name.removeprefix("workload.").removeprefix("run.")
        wider = f"band x{number_shown(self.band_factor)} wider" if self.widens else ""
        notes = "; ".join(filter(None, [self.note, wider]))
        return f"{short} {self.value}".strip() + (f" ({notes})" if notes else "")


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
    .. 0.19.0: answered as their mean``.

    `version`: as named, "" where none was.
    `measured`: releases of the same software; those without a number (nightly builds) have no place.
    `taken`: what answers for it, in words.
    """
    known = by_release(one for one in measured if numbers_of_release(one))
    span = f"{known[0]} .. {known[-1]}" if len(known) > 1 else "".join(known)
    mine = numbers_of_release(version)
    if not known:
        return "no release of it was measured"
    if not version:
        return f"no release named: as {taken}, {span}"
    if not mine or numbers_of_release(known[0]) <= mine <= numbers_of_release(known[-1]):
        return f"not among the measured {span}: answered as {taken}"
    where = "older" if mine < numbers_of_release(known[0]) else "newer"
    return f"{where} than the measured {span}: answered as {taken}"


def omitted_conditions(omitted: Iterable[tuple[str, float]]) -> dict[Condition, float]:
    """What a file leaves out of the work, each in words with the factor by which the time may be off for it."""
    made = ((words, factor) for words, factor in omitted if factor > 1)
    return {Condition(LEFT_OUT, words, "file", f"off by x{number_shown(by)} either way"): by for words, by in made}


def widening(candidates: Iterable[Condition], width: Callable[[Collection[Condition]], float]) -> tuple[Condition, ...]:
    """The candidates, each with the factor by which it widens a band; what nobody measured goes where it widens none.

    The factors are taken one after the other, so that their product is the width of the band over that without all
    that are said to widen it.

    `width`: of the band (of the log) without what some of the candidates add to it.
    """
    made, gone, now = [], set[Condition](), width(())
    for one in candidates:
        less = width({*gone, one})
        known = replace(one, band_factor=now / less)
        if known.widens:
            gone, now = {*gone, one}, less
        if known.widens or one.origin != UNMEASURED:
            made.append(known if known.widens else one)
    return tuple(made)


def uncounted_condition(workload: Workload) -> Condition:
    """The operators of which an importer counted the bytes alone."""
    return Condition(LEFT_OUT, ", ".join(workload.uncounted), "file", BY_BYTES)


def by_release(versions: Iterable[str]) -> list[str]:
    """Releases, oldest first."""
    return sorted(versions, key=lambda version: (numbers_of_release(version), version))


def numbers_of_release(version: str) -> tuple[int, ...]:
    """``0.5.10.post1`` and ``v5.1`` by their numbers; none where a text is no release."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def depends_on(
    conditions: Sequence[Condition], not_used: Sequence[NotUsed]
) -> dict[str, Sequence[Mapping[str, object]]]:
    """Both as rows of plain values by key, as JSON has them."""
    return {"conditions": [one.row() for one in conditions], "not_used": [one.row() for one in not_used]}


def conditions_lines(conditions: Iterable[Condition]) -> list[str]:
    """``given: ...; default: ...; unknown: ...`` in one line, then a line for each that nobody measured."""
    by_origin: dict[str, list[str]] = {origin: [] for origin in get_args(Origin)}
    for one in conditions:
        by_origin[one.origin].append(one.text())
    lines = [f"{UNMEASURED}: {text}" for text in by_origin.pop(UNMEASURED)]
    return [*filter(None, ["; ".join(f"{origin}: {', '.join(by)}" for origin, by in by_origin.items() if by)]), *lines]


def remarks_of(conditions: Iterable[Condition]) -> tuple[str, ...]:
    """Those that widen the band, in words with their factors."""
    return tuple(one.text() for one in conditions if one.widens)


def conditions_of(
    workload: Workload,
    base: Machine,
    used: Machine,
    given: Mapping[str, object],
    known: Sequence[Condition],
    *,
    issued: bool,
    measured: bool = False,
) -> tuple[Condition, ...]:
    """The conditions of an answer: what the question sets, what its estimator says, the runtime, sizes by default.

    `base`, `used`: the machine before the question changed it, and as it answers.
    `given`: what the question sets, by its dotted name or option.
    `known`: conditions that the estimator says itself; what the question sets of them is given.
    `issued`: whether a runtime issues the work operation by operation, so that its mode has a say.
    `measured`: whether what answers was measured on `base`, whose numbers are said beside those that the question sets.
    """
    library = (
        "engine" if "weights" in workload.metadata else NAMES.get(workload_kind(workload), "machine.runtime.library")
    )
    of_runtime = {"library": library, "mode": "mode", "cache": "machine.runtime.cache"}
    set_as = {f"machine.runtime.{field}": name for field, name in of_runtime.items()}
    made = {
        name: Condition(name, _shown(value), "given", _before(name, base) if measured else "")
        for name, value in ((set_as.get(name, name), value) for name, value in given.items())
    }
    for one in known:
        key = f"{LEFT_OUT}: {one.value}" if one.name == LEFT_OUT else one.name
        made[key] = one if key not in made else replace(one, origin="given")
    if workload.uncounted and not any(one.note == BY_BYTES for one in known):
        made[LEFT_OUT] = uncounted_condition(workload)
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


def _before(name: str, base: Machine) -> str:
    value = base.numbers.get(name.removeprefix("machine.")) if name.startswith("machine.") else None
    return "" if value is None else f"measured at {named_shown(name, value)}"


def _shown(value: object) -> str:
    return number_shown(value) if isinstance(value, (int, float)) else str(value)
