"""`slipstick read FILE`: what a file is, what it holds, which command goes on, and its figures as rows.

Counted kernels and regions beside a machine: arithmetic intensity, reached rates, and which roof is nearer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.array_types import FloatArray, Mask
from slipstick.common.errors import InputError
from slipstick.common.formatting import shown
from slipstick.common.readers import unknown_name
from slipstick.hwmodels.catalog import machine_of_device, name_of_device
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.importers.counters.counted import Counted
from slipstick.workloads.importers.counters.likwid import read_likwid
from slipstick.workloads.importers.counters.ncu import read_ncu
from slipstick.workloads.importers.counters.perf_script import read_perf_script
from slipstick.workloads.importers.counters.perf_stat import read_perf_stat
from slipstick.workloads.importers.counters.rocprof_counters import read_rocprof_counters
from slipstick.workloads.importers.counters.summaries import read_summary
from slipstick.workloads.importers.formats.registry import COMMANDS, Format, identify, unknown
from slipstick.workloads.runs.event_table import EventTable

RARELY = 0.9
"""Share of the time below which it is said that an event was counted in that much alone."""
WITHOUT = ("float64", "float32")
"""Data types tried where none is named."""
READERS: Mapping[str, Callable[[Path], tuple[Counted, ...]]] = {
    "ncu": read_ncu,
    "rocprof-counters": read_rocprof_counters,
    "likwid": read_likwid,
    "perf-stat": read_perf_stat,
    "perf-script": read_perf_script,
    "summary": read_summary,
}
"""Readers of counters by the name of the format."""


def rooflines(
    regions: Sequence[Counted], machine: Machine | None, dtype: str | None, most: int
) -> list[dict[str, Any]]:
    """One row a kernel or region, longest first.

    `machine`: whose peaks the reached rates are divided by; None for the counts alone.
    `dtype`: of the arithmetic, which says the peak; the first of `WITHOUT` where it is not given.
    Raises InputError where the machine has no unit for the dtype.
    """
    ordered = sorted(regions, key=lambda one: -(one.seconds or one.shares.get("samples", 0.0)))[:most]
    return [_row(one, machine, dtype) for one in ordered]


def _row(one: Counted, machine: Machine | None, dtype: str | None) -> dict[str, Any]:
    row: dict[str, Any] = {"region": one.name[:100], "count": one.count, "time_s": one.seconds}
    row |= {f"{what.replace(' ', '_')}_share": share for what, share in one.shares.items()}
    if one.flop is not None or one.moved is not None:
        row |= {"flop": one.flop, "bytes": one.moved, "flop_per_byte": one.intensity}
    if machine is None or not one.seconds:
        return row
    bandwidth = machine.bandwidth(machine.main_memory)
    shares: dict[str, float] = {}
    if one.moved is not None:
        row["bytes_per_s"] = one.moved / one.seconds
        shares["memory"] = one.moved / one.seconds / bandwidth
    elif "main memory" in one.shares:
        shares["memory"] = one.shares["main memory"]
    if one.flop is not None:
        peak = peak_of(machine, dtype)
        row["flop_per_s"] = one.flop / one.seconds
        shares["compute"] = one.flop / one.seconds / peak
        row["machine_flop_per_byte"] = peak / bandwidth
    elif "compute" in one.shares:
        shares["compute"] = one.shares["compute"]
    if shares:
        nearer = max(shares, key=lambda what: shares[what])
        row |= {f"of_peak_{what}": share for what, share in shares.items()}
        row["nearer_roof"] = nearer
        row["faster_at_most"] = 1 / shares[nearer] if shares[nearer] > 0 else None
    return row


def peak_of(machine: Machine, dtype: str | None) -> float:
    """The highest flop/s of any unit in a dtype; without one, in the first of `WITHOUT` that the machine has.

    Raises InputError where no unit computes in it.
    """
    known = {name: unit for unit, engine in machine.engines.items() for name in engine.flop_per_cycle}
    chosen = dtype or next((name for name in WITHOUT if name in known), next(iter(known), ""))
    units = [unit for unit, engine in machine.engines.items() if chosen in engine.flop_per_cycle]
    if not units:
        raise unknown_name(f"dtype of {machine.name}:", chosen, sorted(known))
    return max(machine.peak(unit, chosen) for unit in units)


Rows = list[dict[str, Any]]
TOP = 10


@dataclass(frozen=True)
class ReadOptions:
    """What the command's options add: a machine to compare with, and how a server was set up."""

    machine: str | None = None
    model: str | None = None
    gpus: int | None = None
    dtype: str | None = None
    engine: str = "vllm"
    top: int = TOP


@dataclass(frozen=True)
class Holding:
    """What a file holds.

    `line`: it in one line; `kind.left_out` says what is never read of such a file.
    `commands`: what goes on with it.
    `rows`: its figures; empty where the commands show them.
    """

    kind: Format
    line: str
    commands: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...] = ()


def read_any(path: str, given: ReadOptions | None = None) -> Holding:
    """Find out what a file is and read it.

    Raises InputError where nothing is known of the file, or it is broken.
    """
    kind = identify(path)
    if kind is None:
        raise unknown(path)
    reader = _READERS.get(kind.key) or _TARGETS[kind.target]
    line, rows, commands = reader(path, given or ReadOptions())
    offered = COMMANDS[kind.target] if commands is None else commands
    named = tuple(command.replace("{file}", path) for command in offered)
    return Holding(kind, f"{path}: {kind.name}; {line}", named, tuple(rows))


Read: TypeAlias = tuple[str, Rows, Sequence[str] | None]
"""What a file holds in a line, its figures, and the commands that go on; None for those of its target."""
_Read = Callable[[str, ReadOptions], Read]


def _timeline(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.importers.timeline import read_timeline, replays
    from slipstick.workloads.importers.traces.activity import CALLS, DEVICE
    from slipstick.workloads.importers.traces.kernel_shapes import LISTS
    from slipstick.workloads.importers.traces.kineto_graph import device_name

    table = read_timeline(path, lists=LISTS)
    category = np.array([name.lower() for name in table.categories] or [""])
    codes = category[table.category] if len(table) else np.array([], dtype=str)
    counts = {name: int(np.count_nonzero(codes == name)) for name in category.tolist()}
    device = np.isin(codes, list(DEVICE))
    span = float((table.start + table.duration).max() - table.start.min()) if len(table) else 0.0
    parts = [f"{count:,} {name}" for name, count in sorted(counts.items(), key=lambda one: -one[1])[:5]]
    recorded_on = device_name(table)
    where = f" on {recorded_on}" if recorded_on else ""
    line = f"{', '.join(parts)} in {shown(span, 's')}{where}"
    line += "".join(f"; {text}" for text in table.notes.words())
    if device.any():
        rows = _top(table, device, table.duration, given.top)
    else:
        spans = ~np.isin(codes, (*CALLS, WHOLE))
        rows = _top(table, spans, _own_seconds(table, spans), given.top)
    commands = ["slipstick replay {file} --on MACHINE"]
    if marker := _marker(table):
        commands[0] += f" --step-pattern '{marker}'"
        commands.append(f"slipstick phases {{file}} --step-pattern '{marker}'")
    if not device.any():
        shaped = table.text is not None and bool((table.text >= 0).any())
        commands = [*(["slipstick estimate {file} --on MACHINE"] if shaped else []), *commands[1:]]
        line += "; no work of a device, so nothing to replay; times apart from the operations called inside"
        line += "" if shaped else "; no shapes (record_shapes=True), so no workload of them"
    elif not replays(table, path):
        commands = commands[1:]
        line += "; no call of the host launches these, so nothing to replay: record CPU and device together"
    elif recorded_on and (known := machine_of_device(recorded_on)) is not None:
        line += f" ({known.name})"
    else:
        commands[0] += " --recorded-on MACHINE"
    return line, rows, commands


def _marker(table: EventTable) -> str:
    """The pattern of ranges that are numbered from step to step, such as "iteration (\\d+)"; empty without any."""
    ranges = np.isin(table.category, [i for i, name in enumerate(table.categories) if name == "user_annotation"])
    numbered: dict[str, int] = {}
    for code in np.unique(table.name[ranges]).tolist():
        match = re.fullmatch(r"([\w #:/.-]{0,60}?)(\d{1,9})", table.names[code])
        if match:
            numbered[match.group(1)] = numbered.get(match.group(1), 0) + 1
    base = max(numbered, key=lambda name: numbered[name], default="")
    pattern = re.sub(r"\\([ #/:-])", r"\1", re.escape(base))
    return f"{pattern}(\\d+)" if numbered.get(base, 0) > 1 else ""


WHOLE = "trace"
"""Category of the span of PyTorch's whole recording, in lower case: no operation."""


CLOCK = 1e-9
"""Seconds by which the end of an event may lie behind the start of the next: its profiler rounds to them."""


def _own_seconds(table: EventTable, chosen: Mask) -> FloatArray:
    """Seconds of each chosen event less those of the chosen ones inside it on its thread."""
    at = np.flatnonzero(chosen)
    at = at[np.lexsort((-table.duration[at], table.start[at], table.thread[at], table.process[at]))]
    columns = (table.start[at], table.start[at] + table.duration[at], table.process[at], table.thread[at])
    left = table.duration[at].tolist()
    callers: list[tuple[int, float, tuple[int, int]]] = []  # place, end and thread of each event that is open
    for place, (start, end, *lane) in enumerate(zip(*(one.tolist() for one in columns), strict=True)):
        thread = (lane[0], lane[1])
        while callers and (callers[-1][1] <= start + CLOCK or callers[-1][2] != thread):
            callers.pop()
        if callers:
            left[callers[-1][0]] -= min(end, callers[-1][1]) - start
        callers.append((place, end, thread))
    seconds = np.zeros(len(table))
    seconds[at] = np.maximum(left, 0.0)
    return seconds


def _top(table: EventTable, chosen: Mask, times: FloatArray, most: int) -> Rows:
    """The operations that take the most time; `times`: seconds of every event."""
    names = table.name[chosen]
    seconds = np.bincount(names, times[chosen], len(table.names))
    counts = np.bincount(names, minlength=len(table.names))
    total = float(seconds.sum()) or 1.0
    order = [i for i in np.argsort(-seconds, kind="stable")[:most].tolist() if counts[i]]
    return [
        {
            "operation": table.names[i][:100],
            "count": int(counts[i]),
            "time_s": float(seconds[i]),
            "share": float(seconds[i]) / total,
        }
        for i in order
    ]


def _served(path: str, given: ReadOptions) -> Read:
    from slipstick.experiments.calibrate.measured_serving import traffic_of
    from slipstick.experiments.serve.measured_runs import compared_rows, measured_rows
    from slipstick.experiments.serve.serving_question import ServingOptions
    from slipstick.workloads.importers.serving.vllm_bench import read_vllm_bench
    from slipstick.workloads.language_catalog import shipped_name
    from slipstick.workloads.language_names import typed

    runs = read_vllm_bench(Path(path))
    first = runs[0]
    model = given.model or shipped_name(first.model)
    load = traffic_of(first)
    loop = f"--concurrency {load.users}" if load.users else f"--rate {load.rate:g}"
    command = (
        f"slipstick serve {model or 'CONFIG.json'} --on {given.machine or 'MACHINE'} {loop} "
        f"--input-tokens {load.input_tokens} --output-tokens {load.output_tokens} --length-range 0"
    )
    line = (
        f"{first.tool}: {len(runs)} run{'s' if len(runs) > 1 else ''} of {first.model or 'a model without a name'} on "
        f"{first.backend or 'a server'}"
    )
    if model is not None and not given.model and model not in typed(first.model).names:
        line += f"; {first.model} ships as {model}, which has its sizes"
    if given.machine is None:
        return f"{line}; --on MACHINE sets the estimate beside it", measured_rows(runs), [command]
    if model is None:
        raise InputError(f"{path}: {first.model!r} is no model that ships: say --model CONFIG.json")
    wanted = ServingOptions(model, given.machine, given.gpus, dtype=given.dtype, engine=given.engine)
    rows = compared_rows(runs, wanted)
    inside = sum(row["low"] <= row["measured"] <= row["high"] for row in rows)
    return f"{line}; within the 80 % band in {inside} of {len(rows)}", rows, [command]


def _local(path: str, given: ReadOptions) -> Read:
    from slipstick.experiments.calibrate.measured_serving import generation, model_of_size
    from slipstick.experiments.serve.measured_runs import local_rows
    from slipstick.workloads.importers.serving.llama_bench import read_llama_bench

    runs = read_llama_bench(Path(path))
    rows = local_rows(runs)
    made = generation(runs)
    device = given.machine or name_of_device(runs[0].device) or "MACHINE"
    line = f"{len(runs)} tests of {runs[0].model} on {runs[0].device or 'an unnamed device'}"
    if made is None:
        return (
            f"{line}; none generates tokens alone, so it anchors nothing",
            rows,
            ["slipstick extrapolate {file} --to VALUE"],
        )
    if given.machine and (model := given.model or model_of_size(made.parameters)):
        from slipstick.experiments.serve.llama_cpp import local
        from slipstick.hwmodels.catalog import machine

        answer = local(model, machine(given.machine), made.stored or None, 512, 128, None).row()
        estimated = float(answer["output_tokens_per_s"])
        line += (
            f"; generation measured {made.rate:.4g} tokens/s, estimated {estimated:.4g} "
            f"(80 %: {answer['low_tokens_per_s']:.3g} .. {answer['high_tokens_per_s']:.3g})"
        )
    return line, rows, [f"slipstick serve MODEL --on {device} --engine llama.cpp --measured {{file}}"]


def _counters(path: str, given: ReadOptions) -> Read:
    from slipstick.hwmodels.catalog import machine

    kind = identify(path)
    regions = READERS[kind.key if kind else ""](Path(path))
    rows = rooflines(regions, machine(given.machine) if given.machine else None, given.dtype, given.top)
    times = [one.seconds for one in regions if one.seconds is not None]
    counted = [
        f"{sum(getattr(one, name) is not None for one in regions)} with {what}"
        for name, what in (("seconds", "time"), ("flop", "flop"), ("moved", "bytes"))
    ]
    line = f"{len(regions)} kernels or regions: {', '.join(counted)}"
    if times:
        line += f"; {shown(sum(times), 's')} in all"
    placed = any(row.get("flop") or row.get("bytes") or row.get("compute_share") for row in rows)
    if kind and kind.key == "perf-stat" and given.machine is None:
        rows = [{"event": name, "value": value} for name, value in regions[0].values.items()]
        scaled = [(name, share) for name, share in regions[0].scaled.items() if share < RARELY][:5]
        line += "".join(f"; {name} was counted in {share:.1%} of the time and scaled up" for name, share in scaled)
    if kind and kind.key == "summary":
        whole = sum(times) or 1.0
        rows = [{**row, "share": (row["time_s"] or 0.0) / whole} for row in rows]
    if placed and given.machine is None:
        return line, rows, ["slipstick read {file} --on MACHINE --dtype float64"]
    if not placed:
        line += "; no flop or bytes, so no point under a roofline"
    return line, rows, [] if placed else None


def _series(path: str, given: ReadOptions) -> Read:
    from slipstick.experiments.extrapolate.series_files import read

    readings = read(path)
    varying = [
        name for name in readings.parameters if len(set(readings.points[:, readings.parameters.index(name)])) > 1
    ]
    regions = len(set(readings.regions)) or 1
    of = "" if regions == 1 else f" of {regions:,} regions"
    line = f"{len(readings.times):,} times{of} over"
    left_out = "".join(f"; {note}" for note in readings.notes if "left out" in note)
    if not varying:
        return f"{line} nothing that varies: a series wants 2 values of one parameter, better 5{left_out}", [], []
    wanted = "VALUE" if len(varying) == 1 else ",".join(f"{name}=VALUE" for name in varying)
    return f"{line} {', '.join(varying)}{left_out}", [], [f"slipstick extrapolate {{file}} --to {wanted}"]


def _machine(path: str, given: ReadOptions) -> Read:
    from slipstick.experiments.replay.machine_files import TOPOLOGIES, imported_machine, topology

    kind = identify(path)
    if kind is not None and kind.key in TOPOLOGIES:
        host = topology(path)
        clock, extra = (f" at {shown(host.clock, 'Hz')}", "") if host.clock else ("; no clock", " --clock 2.5GHz")
        where = f"{host.cores} cores{clock}, {host.threads_per_core} threads each, {host.sockets} sockets"
        held = ", ".join(f"{one.instances} x {one.name} of {shown(one.capacity, 'byte')}" for one in host.caches)
        line = "; ".join(filter(None, [host.model, where, held, "bandwidths are assumed until measured"]))
        return line, [], [f"slipstick machines import {{file}}{extra} --out m.yaml"]
    made = imported_machine(path)
    bandwidth = shown(made.bandwidth(made.main_memory), "byte/s")
    return f"{made.cores} cores at {shown(made.clock, 'Hz')}, main memory {bandwidth}", [], None


def _telemetry(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.importers.counters.telemetry import read_telemetry

    columns = read_telemetry(Path(path))
    rows: Rows = [
        {
            "device": one.device, "quantity": one.quantity, "unit": one.unit,
            "mean": sum(one.values) / len(one.values), "least": min(one.values), "most": max(one.values),
            "samples": len(one.values),
        }
        for one in columns
    ]  # fmt: skip
    devices = list(dict.fromkeys(one.device for one in columns))
    samples = max(len(one.values) + one.missing for one in columns)
    line = f"{samples:,} samples of {len(devices)} device{'s' * (len(devices) > 1)}"
    if missing := sum(one.missing for one in columns):
        line += f"; {missing} cells without a value left out"
    named = given.machine or next((name for one in devices if (name := name_of_device(one))), None) or "MACHINE"
    clocks = [max(one.values) for one in columns if one.quantity in ("clocks.current.sm", "clocks.sm", "pclk")]
    at = f" --set machine.clock={max(clocks):g}MHz" if clocks and max(clocks) > 0 else ""
    return line, rows, [f"slipstick estimate WORKLOAD --on {named}{at}"]


def _matrix(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.kernels.sparse_files import read_matrix

    matrix = read_matrix(path)
    rows, columns = matrix.shape
    return f"{rows:,} x {columns:,}, {matrix.nonzeros:,} non-zeros", [], None


def _graph(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.importers.detect import import_file

    workload = import_file(path)
    bound = workload.bind(**workload.defaults).bound() if workload.symbols else workload
    sizes = ", ".join(sorted(workload.symbols)) or "none"
    line = f"{len(workload)} operations, {shown(float(bound.cost.flop), 'flop')}, free sizes: {sizes}"
    if workload.uncounted:
        line += f"; not counted: {', '.join(workload.uncounted[:8])}"
    return line, [], None


def _model(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.language_catalog import language_model

    model = language_model(path)
    kept = f", weights {model.weights}"
    stated = "".join(f"; {doubt}" for doubt in (*model.doubts, *(words for words, _ in model.omitted)))
    return f"{model.name}, {model.parameters:,} parameters{kept}{stated}", [], None


def _chakra(path: str, given: ReadOptions) -> Read:
    replayed = "slipstick replay {file} --on MACHINE --recorded-on MACHINE"
    return "a graph of operations of one rank", [], [replayed, *COMMANDS["graph"]]


def _saved(path: str, given: ReadOptions) -> Read:
    line, rows, _ = _graph(path, given)
    return line, rows, ["slipstick estimate {file} --on MACHINE"]


def _run(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.importers.mllog.trainer_logs import read_training_log

    log = read_training_log(path)
    kinds = dict.fromkeys(profile.label or "" for profile in log.profiles())
    spans = [profile for profile in log.profiles() if profile.label in kinds]
    rows = [
        {
            "what": kind,
            "spans": sum(profile.label == kind for profile in spans),
            "time_s": sum(profile.duration for profile in spans if profile.label == kind),
        }
        for kind in kinds
    ]
    known = "devices" in log.settings  # and the layout, which a plan asks
    return "; ".join(log.lines()), rows, COMMANDS["run"] if known else COMMANDS["run"][:-1]


def _iterations(path: str, given: ReadOptions) -> Read:
    from slipstick.workloads.importers.iteration_logs import read_log

    log = read_log(path)
    seconds = "" if log.times is None else f", {shown(float(sum(log.times)), 's')} in all"
    return f"{len(log.lengths):,} iterations of {len(set(log.lengths)):,} lengths{seconds}", [], None


_TARGETS: Mapping[str, _Read] = {
    "timeline": _timeline,
    "counters": _counters,
    "series": _series,
    "graph": _graph,
    "matrix": _matrix,
    "serving": _served,
    "machine": _machine,
    "telemetry": _telemetry,
    "model": _model,
    "run": _run,
    "iterations": _iterations,
}
_READERS: Mapping[str, _Read] = {"llama-bench": _local, "chakra": _chakra, "workload": _saved}
