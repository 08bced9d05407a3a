"""What differs between two machines, as the changes of a what-if on the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_fields import named_shown

PLAIN = ("clock", "cores", "threads_per_core", "power.cap", "power.idle", "power.per_flop", "runtime.launch_overhead")
LEVEL = ("capacity", "bandwidth", "bytes_per_cycle")


def changes(before: Machine, after: Machine) -> dict[str, float]:
    """Fields by which the second machine differs, under the first one's names, with the second one's values.

    Levels of memory and engines are those of the same place and name; what only one of the two states stays.
    """
    return {path: value for path, old, value in _both(before, after) if value != old}


def difference(before: Machine, after: Machine) -> str:
    """The same for people: ``memory.HBM3.bandwidth 3.35 -> 4.8 TB/s``."""
    texts = [
        f"{path} {named_shown(f'machine.{path}', old)} -> {named_shown(f'machine.{path}', value)}"
        for path, old, value in _both(before, after)
        if value != old
    ]
    return ", ".join(texts) or "nothing that a machine file states"


def _both(before: Machine, after: Machine) -> Iterator[tuple[str, float, float]]:
    """(path, before, after) of the numbers that both machines state."""
    pairs: list[tuple[str, object, object]] = [(path, before.get(path), after.get(path)) for path in PLAIN]
    for (name, mine), theirs in zip(before.memory.items(), after.memory.values(), strict=False):
        pairs += [(f"memory.{name}.{field}", getattr(mine, field), getattr(theirs, field)) for field in LEVEL]
    for name, engine in before.engines.items():
        rates: Mapping[str, float] = after.engines[name].flop_per_cycle if name in after.engines else {}
        pairs += [
            (f"engines.{name}.flop_per_cycle.{dtype}", rate, rates.get(dtype))
            for dtype, rate in engine.flop_per_cycle.items()
        ]
    for path, old, value in pairs:
        if isinstance(old, (int, float)) and isinstance(value, (int, float)):
            yield path, old, value
