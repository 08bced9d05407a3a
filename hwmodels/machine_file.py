"""The file of a machine, read and written; numbers that can hardly be meant are a warning each, no error."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise

from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity
from slipstick.common.readers import read_yaml, require_mapping, unknown_name
from slipstick.common.records import unit_at, validated
from slipstick.common.renamed_arguments import checked
from slipstick.common.writer import atomic_write
from slipstick.hwmodels.machine import Machine
from slipstick.hwmodels.machine_inheritance import extended

RANGES: dict[str, tuple[float, float]] = {
    "clock": (1e6, 20e9),
    "flop_per_cycle": (0.01, 1e8),
    "cycles_per_instruction": (0.01, 1e4),
    "capacity": (0.0, 1e16),
    "bandwidth": (1e5, 1e17),
    "bytes_per_cycle": (1e-4, 1e6),
    "latency": (0.0, 0.1),
    "line": (1, 1e6),
    "launch_overhead": (0.0, 1.0),
    "issue_overhead": (0.0, 1.0),
    "idle": (0.0, 1e7),
    "cap": (0.1, 1e7),
    "per_flop": (0.0, 1e-6),
    "per_byte": (0.0, 1e-6),
    "price": (0.0, 1e6),
}
"""Word of a field's path -> from half a microcontroller's to far beyond a supercomputer's node, in the field's unit."""
TYPES = (
    "float64",
    "float32",
    "tfloat32",
    "bfloat16",
    "float16",
    "float8",
    "int8",
    "int4",
    "float4",
    "nvfp4",
    "mxfp4",
    "mxfp6",
    "mxfp8",
)
"""Data types that rates of a machine file are of: a rate under another name would never be read."""
SHORT = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "tfloat32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8",
    "fp4": "float4",
}
"""Short names of them, for the error that names the long one."""
FARTHEST = 1e30
"""Of a number in SI units; far beyond the ranges that are only warned of."""
HIGHEST_OVER_CLOCK = 2.0
"""The highest clock over `clock`, which may be a sustained one, where a file states no peak_clock: not farther."""
FARTHER_OVER_NEARER = 3.0
"""Measured bandwidths of neighbouring levels may stand the wrong way round (twice, on a ThunderX2); not so far."""


class ImplausibleWarning(UserWarning):
    """A number of a machine file that is probably a slip of the pen."""


@checked
def load_machine(path: str | os.PathLike[str]) -> Machine:
    r"""A machine from a YAML file, whole or as what it ``extends``; numbers hardly meant are warned of (see `doubts`).

    Raises
    ------
    InputError
        Names the file, the field, the value and what is allowed.

    Examples
    --------
    >>> import slipstick as ss
    >>> import pathlib, tempfile
    >>> lines = ["name: mine", "clock: 2 GHz", "cores: 8"]
    >>> lines += ["engines: {vector: {flop_per_cycle: {float64: 16}}}"]
    >>> lines += ["memory: {DRAM: {bandwidth: 40 GB/s, capacity: 32 GB}}"]
    >>> lines += ["sources: {clock: my data sheet}"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "mine.yaml")
    ...     _ = path.write_text("\n".join(lines))
    ...     ss.load_machine(path).clock
    2000000000.0
    """
    document, rated = extended(require_mapping(read_yaml(path), path, "the document"), path)
    machine = validated(Machine, document, str(path))
    if rated:
        machine = machine.on_board(validated(Machine, {**document, **rated}, str(path)))
    _check_types(machine, path)
    _check_sizes(machine, path)
    warn_of_implausible(machine, path)
    return machine


def _check_sizes(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Check that products of a machine's numbers stay finite: beyond `FARTHEST` they are no machine's in any unit."""
    for name, value in machine.numbers.items():
        if value and not 1 / FARTHEST <= abs(value) <= FARTHEST:
            raise InputError(f"{path}: {name} = {value:.4g}: want 0, or {1 / FARTHEST:g} to {FARTHEST:g}")


def save_machine(machine: Machine, path: str | os.PathLike[str]) -> None:
    """Write a machine as a YAML file that `load_machine` reads back: numbers in SI, without fields at their default."""
    import yaml

    document = machine.model_dump(mode="json", exclude_defaults=True)
    with atomic_write(path) as stream:
        yaml.safe_dump(document, stream, sort_keys=False, allow_unicode=True, width=120)


def implausible(machine: Machine) -> Iterator[str]:
    """A line for each number that can hardly be meant: field, value, expected range."""
    for path, value in machine.numbers.items():
        for word in path.split("."):
            low, high = RANGES.get(word, (-math.inf, math.inf))
            if not low <= value <= high:
                unit = unit_at(type(machine), path.split("."))
                yield _line(path, value, f"{format_quantity(low, unit)} to {format_quantity(high, unit)}", unit)
    highest = machine.peak_clock or machine.stated.clock * HIGHEST_OVER_CLOCK
    for name in ("base_clock", "rated_clock"):
        if (clock := getattr(machine, name)) is not None and clock > highest:
            yield _line(name, clock, f"at most {format_quantity(highest, 'Hz')}, by clock and peak_clock", "Hz")
    there = [name for name, level in machine.memory.items() if level.capacity]
    main = machine.main_memory
    for name in there:
        capacity, limit = machine.memory[name].capacity, machine.memory[main].capacity
        if main in there and capacity > limit:
            yield _line(
                f"memory.{name}.capacity", capacity, f"at most {format_quantity(limit, 'byte')}, that of {main}"
            )
    for near, far in pairwise(there):
        fast, slow = machine.bandwidth(near), machine.bandwidth(far)
        if slow > fast * FARTHER_OVER_NEARER:
            text = f"at most {format_quantity(fast, 'byte/s')}, that of {near}, which is nearer"
            yield _line(f"memory.{far}.bandwidth", slow, text, "byte/s")
    yield from _unreached(machine)
    idle, cap = machine.power.idle, machine.power.cap
    if cap is not None and idle > cap:
        yield _line("power.idle", idle, f"at most power.cap, {format_quantity(cap, 'W')}", "W")


def stated_and_followed(machine: Machine) -> dict[str, dict[str, str | float]]:
    """Each rate of a systolic array or of lanes by its field: stated, its geometry, and the ratio to what that makes.

    A cell of an array, or a lane, does one multiply-add a cycle: a ratio of 2 is two of them, of .5 half a one.

    >>> from slipstick.hwmodels.catalog import machine
    >>> [round(row["ratio"], 2) for row in stated_and_followed(machine("tpu-v7")).values()]
    [5.03, 10.05, 5.03]
    """
    rows: dict[str, dict[str, str | float]] = {}
    for name, engine in machine.engines.items():
        cells = engine.rows * engine.columns * engine.arrays
        counted = f"{engine.arrays} x {engine.rows} x {engine.columns} cells" if cells else f"{engine.lanes} lanes"
        for dtype, rate in engine.flop_per_cycle.items():
            if follows := 2 * (cells or engine.lanes or 0):
                field = f"engines.{name}.flop_per_cycle.{dtype}"
                rows[field] = {"stated": rate, "geometry": counted, "ratio": rate / follows}
    return rows


def odd_in_catalogue(machine: Machine, others: Sequence[Machine]) -> Iterator[str]:
    """A line for each number, or balance of two, that lies outside those of other machines of its kind."""
    there = [_balances(one) for one in others]
    for (what, unit), here in _balances(machine).items():
        values = sorted(one[what, unit] for one in there if one[what, unit])
        if here and values and not values[0] <= here <= values[-1]:
            low, high, value = (format_quantity(one, unit) for one in (values[0], values[-1], here))
            yield f"{what}: {value}, {len(values)} others of its kind have {low} to {high}"


def _balances(machine: Machine) -> dict[tuple[str, str], float]:
    """Numbers that machines of a kind have in common, by name and unit; 0 where one is not stated."""
    rates = [rate for engine in machine.engines.values() for rate in engine.flop_per_cycle.values()]
    flop = max(rates, default=0.0) * machine.clock * machine.cores
    levels = [machine.bandwidth(name) for name, level in machine.memory.items() if level.capacity]
    main = machine.bandwidth(machine.main_memory)
    return {
        ("clock", "Hz"): machine.clock,
        ("main memory's bandwidth", "byte/s"): main,
        ("bandwidth of the last cache over that of main memory", ""): levels[-2] / main if len(levels) > 1 else 0.0,
        ("flop of its fastest engine for a byte of main memory", "flop/byte"): flop / main,
        ("watts of the cap for 1e12 flop/s", "W"): (machine.power.cap or 0.0) / flop * 1e12 if flop else 0.0,
    }


def _unreached(machine: Machine) -> Iterator[str]:
    """A line for each link behind one that joins as many devices: devices talk over the first that joins them."""
    widest, before = 0, ""
    for name, link in machine.links.items():
        if name == "infeed":
            continue
        if link.width <= widest:
            yield (
                f"links.{name} joins {link.width:g} devices, as links.{before} before it does, over which they talk: "
                f"change links.{before}, take it away ({before}: null), or state a greater width"
            )
        else:
            widest, before = link.width, name


def warn_of_implausible(machine: Machine, path: str | os.PathLike[str]) -> None:
    """An `ImplausibleWarning` that names the file for each of the machine's doubts."""
    for doubt in implausible(machine):
        warnings.warn(f"{path}: {doubt}", ImplausibleWarning, stacklevel=3)


def _check_types(machine: Machine, path: str | os.PathLike[str]) -> None:
    for unit, engine in machine.engines.items():
        for dtype in engine.flop_per_cycle:
            if dtype not in TYPES:
                where = f"{path}: engines.{unit}.flop_per_cycle"
                if long := SHORT.get(dtype.lower()):
                    raise InputError(f"{where}: unknown data type {dtype!r}; did you mean {long!r}?")
                raise InputError(f"{where}: {unknown_name('data type', dtype, TYPES)}")


def _line(path: str, value: float, expected: str, unit: str = "byte") -> str:
    return f"{path} = {format_quantity(value, unit)} is hardly meant: expected {expected}"
