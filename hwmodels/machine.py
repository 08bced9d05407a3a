"""A machine as it is used: small records composed, changed by `using`.

A machine as a notebook shows it: each number with its unit, each source once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import cached_property
from html import escape
from typing import Any, Self

from pydantic import BaseModel, Field, PrivateAttr, model_validator

from slipstick.common.dotted_paths import as_before, fields_in, names_in, numbers_of, sources_apart, truth_in
from slipstick.common.errors import InputError
from slipstick.common.formatting import format_quantity, typed_shown
from slipstick.common.html_tables import html_table
from slipstick.common.readers import unknown_name
from slipstick.common.records import FrozenDict, Record, content_digest, form_of, short, unit_at, validated
from slipstick.common.units import DollarsPerHour, Hertz, PerCycle, parse_multiple
from slipstick.hwmodels.compute import Engine
from slipstick.hwmodels.link import Dies, Link
from slipstick.hwmodels.memory import Level
from slipstick.hwmodels.power import IDLE_SHARE, Power
from slipstick.hwmodels.runtime import Runtime


def machine_html(machine: Machine) -> str:
    """Fields in their units with the number of their source, and the sources below."""
    cited = dict.fromkeys(filter(None, map(machine.source_of, machine.numbers)))
    numbers = {source: f"[{index}]" for index, source in enumerate(cited, 1)}
    rows = [
        (path, typed_shown(value, unit_at(type(machine), path.split("."))), numbers.get(machine.source_of(path), ""))
        for path, value in machine.numbers.items()
    ]
    sources = "".join(f"<br>{number} {escape(source)}" for source, number in numbers.items())
    return html_table(("field", "value", "source"), rows, machine.name) + f"<p>{sources.removeprefix('<br>')}</p>"


NOT_TIMED = {"name", "description", "family", "aliases", "price", "sources", "base_clock", "peak_clock", "rated_clock"}
"""Fields that change no measured time."""
HALF = ("bfloat16", "float16")
CHANGED = "what-if: "
"""How the source of a number begins that was set."""
CARD = ("power.idle", "power.cap", "price")
"""What is stated of a whole card, and of its dies together."""
REACHED = "reached"
"""Of main memory: what the connections between dies leave of its bandwidth, by the path of a field."""
STATED = "stated."
"""Before the path of a field: as the machine's file has it, whatever was set since."""


class Machine(Record):
    """Cores that compute, a hierarchy of memory that feeds them, links, power, and the software in between.

    Parameters
    ----------
    name
        As answers call it.
    family
        Groups machines that share a calibration ("nvidia-hopper").
    aliases
        Other names that people and profilers give it ("H100", "H100 80GB HBM3").
    description
        What one should know of it, in a sentence.
    clock
        Of the cores, sustained unless the source says otherwise.
    base_clock, peak_clock
        What the vendor guarantees under the power cap, and the highest; None where the source does not say.
    rated_clock
        At which the vendor states the rates of matrix products of at most 32 bits; None where that is `clock`.
    cores
        Cores of a CPU, compute units or streaming multiprocessors of a GPU, cores of a TPU.
    threads_per_core
        Hardware threads a core has.
    cycles_per_instruction
        Of one thread when 1, 2, ... hardware threads of its core are busy (beyond the last entry, the last holds).
    cores_per_cluster, cores_per_die, cores_per_numa, cores_per_socket
        Borders of the memory system; None where there is one domain. A die's clusters share one link to main memory.
    dies
        Those that together are the machine, and what joins them.
    engines
        By unit name: "vector", "matrix", "special".
    memory
        By level name, nearest first; the last is main memory.
    links
        By name: between machines or devices, nearest first, and with their hosts ("infeed").
    power
        What it draws.
    runtime
        The software between the workload and the machine.
    price
        What an hour of it costs.
    sources
        Field (dotted path, or the head of one) -> where its numbers come from; a key may name several, with commas.
    """

    name: str = Field(min_length=1, max_length=100, pattern="^[^\\r\\n]*$")
    family: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    clock: Hertz
    base_clock: Hertz | None = None
    peak_clock: Hertz | None = None
    rated_clock: Hertz | None = None
    cores: int = Field(ge=1, le=10_000_000)
    threads_per_core: int = Field(default=1, ge=1, le=1024)
    cycles_per_instruction: tuple[PerCycle, ...] = (1.0,)
    cores_per_cluster: int | None = Field(default=None, ge=1)
    cores_per_die: int | None = Field(default=None, ge=1)
    cores_per_numa: int | None = Field(default=None, ge=1)
    cores_per_socket: int | None = Field(default=None, ge=1)
    dies: Dies = Dies()
    engines: FrozenDict[Engine]
    memory: FrozenDict[Level]
    links: FrozenDict[Link] = FrozenDict()
    power: Power = Power()
    runtime: Runtime = Runtime()
    price: DollarsPerHour | None = None
    sources: FrozenDict[str]
    _stated: Machine | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        """No truths; ``"clock, cores": data sheet`` names the source of both."""
        data = sources_apart(data)
        if truth := truth_in(data):
            raise ValueError(f"{truth[0]} = {truth[1]}: want a number or a text, not a truth")
        return data

    @model_validator(mode="after")
    def _one_energy_of_main_memory(self) -> Self:
        if self.memory and self.memory[self.main_memory].per_byte is not None:
            raise ValueError(f"memory.{self.main_memory}.per_byte: the energy of main memory is power.per_byte")
        return self

    @model_validator(mode="after")
    def _sources_name_fields(self) -> Self:
        for path in self.sources:
            try:
                self.get(path)
            except InputError as error:
                raise ValueError(f"sources: {error}") from None
        return self

    def __repr__(self) -> str:
        facts = [f"{self.cores:,} cores"]
        facts += [format_quantity(self.clock, "Hz")] if self.clock else []
        facts += [f"{self.main_memory} of {format_quantity(self.bandwidth(self.main_memory), 'byte/s')}"] * bool(
            self.memory
        )
        return f"Machine({self.name!r}, {', '.join(facts)})"

    __str__ = __repr__

    def using(self, changes: Mapping[str, Any] | None = None, **named: Any) -> Machine:
        """The same machine with some fields changed: the what-if verb.

        Rates stay those of the geometry at which they are stated: rows, columns, arrays, lanes, channels and dies
        scale them by the ratio (see `scaled_by`), also where a rate is set beside.

        Parameters
        ----------
        changes, named
            Dotted paths or field names -> numbers in SI, or texts with units, or multiples of what stands ("1.2x").

        Raises
        ------
        InputError
            Where a field is unknown (the error lists the known ones) or a value is out of range.

        Examples
        --------
        >>> from slipstick.hwmodels.catalog import machine
        >>> machine("xeon-phi-7120p").using(clock="852 MHz", cores=16).clock
        852000000.0
        """
        data = dict(fields_in(self))
        sources = dict(self.sources)
        for path, value in {**(changes or {}), **named}.items():
            _put(data, path, value, self)
            sources[path] = f"{CHANGED}{value!r} instead of {short(self.get(path))}"
        data["sources"] = sources
        made = validated(Machine, data, f"machine {self.name!r}")
        given = {*(changes or {}), *named} & {*CARD}  # what is set beside a part of a card is the part's
        if ratios := {path: ratio for path, ratio in self._scaled(made).items() if path not in given}:
            for path, ratio in ratios.items():
                number = made.get(path)
                scaled = number * ratio
                _put(data, path, round(scaled) if isinstance(number, int) and scaled.is_integer() else scaled, made)
                sources[path] = f"{made.source_of(path)} (x {ratio:g} by what-if of the geometry)"
            data["sources"] = {**sources}
            made = validated(Machine, data, f"machine {self.name!r}")
        if not changes and not named:
            made._stated = self._stated
            return made
        part = made.dies.count / self.dies.count
        return made.on_board(self.stated if part == 1 else self.stated.part(part))

    def on_board(self, board: Machine) -> Machine:
        """The same as a change of a board, whose clock and power stay what it is rated for.

        A higher cap beside another idle power is that of a board of another rating, since no limit moves idle power.
        """
        made, power, rated = self.unchecked(), self.power, board.power
        made._stated = board
        usual = (0.0, rated.idle or IDLE_SHARE * (rated.cap or 0.0))
        if rated.cap and (power.cap or 0.0) > rated.cap and power.idle not in usual:
            there = Power.model_construct(**{**fields_in(rated), "idle": power.idle, "cap": power.cap})
            made._stated = board.unchecked(power=there)
        return made

    def part(self, share: float) -> Machine:
        """The same board with a share of its power and price, as a partition of it has them."""
        cap, price = (None if one is None else one * share for one in (self.power.cap, self.price))
        power = Power.model_construct(**{**fields_in(self.power), "idle": self.power.idle * share, "cap": cap})
        return self.unchecked(power=power, price=price)

    def _scaled(self, made: Machine) -> dict[str, float]:
        """What the changed geometry of another machine scales there, and by what."""
        ratios: dict[str, float] = {}
        for path, scaled in self.geometry.items():
            stated, there = self.get(path), made.get(path)
            if stated and there and there != stated:  # 0: no array any more
                ratios |= {name: ratios.get(name, 1.0) * there / stated for name in scaled}
        return ratios

    @cached_property
    def geometry(self) -> dict[str, tuple[str, ...]]:
        """Counts that are stated, and the numbers stated at them, which grow with them: all by dotted path."""
        scaled: dict[str, tuple[str, ...]] = {}
        for name, engine in self.engines.items():
            rates = tuple(f"engines.{name}.flop_per_cycle.{dtype}" for dtype in engine.flop_per_cycle)
            sides = ("rows", "columns", "arrays") if engine.rows and engine.columns else ()
            scaled |= {f"engines.{name}.{side}": rates for side in (*sides, *["lanes"] * bool(engine.lanes))}
        shared: list[str] = []
        for name, level in self.memory.items():
            at = f"memory.{name}."
            curve = [f"{at}bandwidth_by_cores.{i}.1" for i in range(len(level.bandwidth_by_cores))]
            rates = (*(at + rate for rate in ("bandwidth", "bytes_per_cycle") if getattr(level, rate)), *curve)
            scaled |= {f"{at}channels": rates} if level.channels else {}
            if level.per == "machine":  # bytes a cycle are a core's
                shared += [f"{at}capacity", *(rate for rate in rates if not rate.endswith("bytes_per_cycle"))]
        card = [path for path in CARD if self.get(path)]
        return {**scaled, "dies.count": ("cores", *shared, *card)}

    @property
    def between_dies(self) -> float:
        """Bandwidth of main memory that the connections between dies let through; infinite where none bounds.

        Each die moves 1 / count of the bytes, all but its own memory's share of them over its connection.
        """
        dies = self.dies
        local = 1 / dies.count if dies.local is None else dies.local
        return dies.count / (1 - local) * dies.bandwidth if dies.bandwidth is not None and local < 1 else math.inf

    def after_weights(self, weights: float) -> Machine:
        """As `using` of `runtime.weights_between` with bytes > 0; nothing else is checked anew."""
        runtime = Runtime.model_construct(**{**fields_in(self.runtime), "weights_between": weights})
        changed = f"{CHANGED}{weights!r} instead of {short(self.runtime.weights_between)}"
        sources = FrozenDict({**self.sources, "runtime.weights_between": changed})
        made = self.unchecked(runtime=runtime, sources=sources)
        made._stated = self.stated
        return made

    def unchecked(self, **fields: object) -> Machine:
        """The same with other records in some fields, which are not checked anew."""
        old = {name: getattr(self, name) for name in type(self).__pydantic_fields__}
        made = Machine.model_construct(**{**old, **fields})
        made._stated = self._stated
        return made

    @property
    def stated(self) -> Machine:
        """The machine as its file states it, before any `using`: a board keeps its rated power under another cap."""
        return self if self._stated is None else self._stated

    def get(self, path: str) -> Any:
        """The value at a dotted path ("memory.L1.capacity").

        Raises
        ------
        InputError
            Where there is no such field.
        """
        if path not in self._read:
            self._read[path] = self._at(path)
        return self._read[path]

    @cached_property
    def _read(self) -> dict[str, Any]:
        """What was read by its path: the same few numbers stand in every formula."""
        return {}

    def _at(self, path: str) -> Any:
        if path.endswith(f".{REACHED}") and path == f"memory.{self.main_memory}.{REACHED}":
            return min(self._product(self.stated_factors(self.main_memory)), self.between_dies)
        if path.startswith(STATED):
            return self.stated.get(path.removeprefix(STATED))
        value: Any = self
        above = ""
        for name in path.split("."):
            if isinstance(value, BaseModel) and name in value.__class__.__pydantic_fields__:
                value = getattr(value, name)
            elif name in names_in(value):
                value = fields_in(value)[name]
            else:
                known = [f"{above}{field}" for field in sorted(names_in(value))]
                if path == "memory.bandwidth":  # whose name says which memory
                    raise unknown_name(
                        f"field of machine {self.name!r}:", path, [f"memory.{self.main_memory}.bandwidth"]
                    )
                raise unknown_name(f"field of machine {self.name!r}:", path, known)
            above += f"{name}."
        return value

    @cached_property
    def numbers(self) -> dict[str, float]:
        """Every number of the machine by dotted path; what can be varied."""
        return dict(numbers_of(self, ""))

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that can change a measured time; names, prices and sources are left out."""
        return content_digest(as_before(self.model_dump(mode="json", exclude=NOT_TIMED)))

    @cached_property
    def form(self) -> Hashable:
        """What of the machine is no magnitude: names, words, counts, and which numbers are None, 0 or neither.

        Formulas that name the machine's numbers, and read no more than this of them, are equal on machines of one form.
        """
        fields = {name: value for name, value in fields_in(self).items() if name not in NOT_TIMED}
        return form_of(fields), self.slow_halves

    @cached_property
    def slow_halves(self) -> frozenset[tuple[str, str]]:
        """The vector engine with 16-bit types whose rate is below its own of float32, as on Pascal's GP102 and GP104.

        Libraries compute these in float32 (cuBLAS with CUBLAS_COMPUTE_32F, as PyTorch calls it). Products of a matrix
        engine stay on it, however fast the other is.
        """
        rates = self.engines["vector"].flop_per_cycle if "vector" in self.engines else {}
        plain = rates.get("float32", 0.0)
        return frozenset(("vector", half) for half in HALF if rates.get(half, plain) < plain)

    def peak_factors(self, unit: str, dtype: str) -> tuple[str, ...]:
        """The fields whose product is the peak rate in flop/s of one unit and dtype.

        Raises
        ------
        InputError
            Where the machine has no such unit, or not for this dtype.
        """
        if unit not in self.engines:
            raise unknown_name(f"engine of machine {self.name!r}", unit, list(self.engines))
        if dtype not in self.engines[unit].flop_per_cycle:
            known = list(self.engines[unit].flop_per_cycle)
            raise unknown_name(f"dtype of the {unit} engine of machine {self.name!r}", dtype, known)
        return ("clock", "cores", f"engines.{unit}.flop_per_cycle.{dtype}")

    def bandwidth_factors(self, level: str) -> tuple[str, ...]:
        """The fields whose product is a level's bandwidth in bytes a second, all instances together.

        Raises
        ------
        InputError
            Where the machine has no such level.
        """
        if level not in self.memory:
            raise unknown_name(f"memory level of machine {self.name!r}", level, list(self.memory))
        if level == self.main_memory and self.dies.bandwidth is not None:
            return (f"memory.{level}.{REACHED}",)
        return self.stated_factors(level)

    def stated_factors(self, level: str) -> tuple[str, ...]:
        """The same without what the connections between dies leave of it."""
        if self.memory[level].bandwidth is not None:
            return (f"memory.{level}.bandwidth",)
        return (f"memory.{level}.bytes_per_cycle", "clock", "cores")

    def peak(self, unit: str, dtype: str) -> float:
        """Peak rate in flop/s (see `peak_factors`)."""
        return self._product(self.peak_factors(unit, dtype))

    def stated_peak(self, unit: str, dtype: str) -> float:
        """Peak rate in flop/s as the vendor states it, by which MFU counts: a clock below the stated one lowers it not.

        Raises
        ------
        InputError
            Where the machine has no such unit, or not for this dtype.
        """
        stated = self.stated.clock
        rated = self.rated_clock if unit == "matrix" and dtype != "float64" else None
        return self.peak(unit, dtype) / self.clock * (rated or stated) * max(1.0, self.clock / stated)

    def bandwidth(self, level: str) -> float:
        """A level's bandwidth in bytes a second (see `bandwidth_factors`)."""
        return self._product(self.bandwidth_factors(level))

    @property
    def main_memory(self) -> str:
        """The name of the last level."""
        return list(self.memory)[-1]

    def instances(self, level: str) -> int:
        """How many instances of a memory level the machine has."""
        share = {
            "core": 1,
            "cluster": self.cores_per_cluster,
            "numa": self.cores_per_numa,
            "socket": self.cores_per_socket,
            "machine": None,
        }
        cores = share[self.memory[level].per]
        return 1 if cores is None else max(1, self.cores // cores)

    def _product(self, paths: tuple[str, ...]) -> float:
        product = 1.0
        for path in paths:
            product *= self.get(path)
        return product

    def _repr_html_(self) -> str:

        return machine_html(self)

    def source_of(self, path: str) -> str:
        """Where the number at a dotted path comes from: its own entry, or its nearest head's."""
        head = path
        while head:
            if head in self.sources:
                return self.sources[head]
            head = head.rpartition(".")[0]
        return ""


def _put(data: Any, path: str, value: Any, machine: Machine) -> None:
    """Put a value into plain data; the records above it are taken apart, all others stay as they are."""
    *heads, last = path.split(".")
    present, factor = machine.get(path), parse_multiple(value)
    if factor is not None and isinstance(present, (int, float)):
        value = present * factor
    for name in heads:
        place: Any = int(name) if isinstance(data, list) else name
        holder = data[place]
        data[place] = list(holder) if isinstance(holder, (list, tuple)) else dict(fields_in(holder))
        data = data[place]
    data[int(last) if isinstance(data, list) else last] = value


def describe(machine: Machine) -> list[tuple[str, str, str]]:
    """Rows (field, value with its unit, source) for people."""
    return [
        (path, format_quantity(value, unit_at(Machine, path.split("."))), machine.source_of(path))
        for path, value in machine.numbers.items()
    ]
