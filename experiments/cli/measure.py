"""slipstick measure host|...: clocks and kernels on this machine; each subject adds its command here.

slipstick measure contention|scaling: what threads do to a network of yours, and to any program, on this host.

slipstick measure anchors: what to time first on a GPU that nobody measured; operations where torch sees it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.typed_numbers import WithNumbers, only
from slipstick.experiments.cli.vocabulary import Clock, Format, Input, Number, Train, option, verb_of
from slipstick.experiments.report.output import emit

if TYPE_CHECKING:
    from slipstick.experiments.calibrate.next_measurements import NextMeasurements
    from slipstick.experiments.measure.threads.scaling_runs import ScalingTime


def anchors(
    context: typer.Context,
    on: Annotated[str, option("on")],
    workload: Annotated[
        TrustedName | None,
        option("workload", "FILE.py:f, decode:MODEL, prompt:MODEL, a config.json, ...", parser=TrustedName),
    ] = None,
    next: Annotated[int, option("next", min=1, max=50)] = 5,
    dtype: Annotated[
        str | None, option("dtype", "float32, bfloat16 (without --workload), float8; of a model's weights: fp8, ...")
    ] = None,
    engine: Annotated[str, option("engine", "of a model that is served")] = "",
    tp: Annotated[int, option("tp", "of a model that is served", min=1)] = 1,
    input: Input = None,
    train: Train = None,
    number: Number = None,
    calibration: Annotated[str, option("calibration", "gpus, or of slipstick calibrate --out")] = "gpus",
    device: Annotated[str | None, option("device", "measures them here, on what --on names; resumes --out")] = None,
    most_seconds: Annotated[float, option("most_seconds", min=1e-06)] = 1.0,
    out: Annotated[Path | None, option("out", "the CSV for estimate --measured; without --device to fill in")] = None,
    format: Format = "table",
) -> None:
    """The operations whose times would teach most about a GPU, the most informative first; --device measures them.

    With --workload, those of a program of your own, or whole steps of a model that is served.
    """
    from slipstick.common.errors import InputError
    from slipstick.estimators.gpu.transfer.devices_file import load_device_calibration
    from slipstick.estimators.gpu.transfer.next_measurements import GRIDS, candidates, next_rows
    from slipstick.experiments.calibrate.next_measurements import operation_row
    from slipstick.experiments.measure.clocks.anchor_times import (
        AnchorOperation,
        stopwatch,
        timed,
        torch_call,
        write_rows,
    )
    from slipstick.experiments.question.registry import CALIBRATIONS
    from slipstick.experiments.report.output import emit
    from slipstick.hwmodels.catalog import machine

    if workload is not None:
        proposed = _for_workload(workload, on, next, dtype, engine, tp, calibration, input, train, number, context)
        if device is not None:
            raise InputError("--device: not with --workload: fill in what --out FILE.csv writes")
        if out is not None:
            proposed.write(out)
        emit(list(proposed.rows), format, notes=proposed.lines_above(str(out or "FILE.csv")))
        return
    only(context, "no --workload", ("on", "next", "dtype", "calibration", "device", "most_seconds", "out", "format"))
    dtype = dtype or "bfloat16"
    if device is not None and out is None:
        raise InputError("--device: give --out FILE.csv, where times are kept as they are taken")
    watch, place = stopwatch(device) if device is not None else (None, "")
    machine_there = machine(on)
    known = load_device_calibration(CALIBRATIONS / "gpus.json" if calibration == "gpus" else calibration)
    names = [one.name for one in known.classes if one.name.endswith(f".{dtype}") and one.name.split(".")[0] in GRIDS]
    if not names:
        have = sorted({one.name.partition(".")[2] for one in known.classes})
        raise InputError(f"--dtype {dtype}: {calibration} has no operations of it (known: {', '.join(have)})")
    forecast = known.forecast(machine_there, anchors=())
    if not forecast.belief.roots.any():
        raise InputError(f"{machine_there.name} was measured for {calibration}: its own rows say more than anchors")
    offered = [
        row for row in candidates(names, machine_there) if float(forecast.predict([row]).time[0]) <= most_seconds
    ]
    if not offered:
        raise InputError(f"--most-seconds {most_seconds:g}: every operation is predicted to take longer")
    result = next_rows(forecast.belief, offered, next)
    wanted = [AnchorOperation.of(row.name, row.dims) for row in result]
    times: dict[AnchorOperation, float] = {}
    if watch is not None and device is not None and out is not None:
        _say(f"{len(wanted)} operations on {place}")
        times = timed(wanted, out, watch, lambda row: torch_call(row, device), _say)
    elif out is not None:
        write_rows(out, dict.fromkeys(wanted))
    rows = [
        operation_row(row) | ({"time_s": times.get(one)} if device is not None else {})
        for row, one in zip(result, wanted, strict=True)
    ]
    if device is not None:
        notes = [f"{machine_there.name}: measured on {place}; give them as --measured {out}"]
    else:
        notes = [
            f"{machine_there.name}: measure these, warm, medians of many runs, and give them as --measured FILE.csv"
        ]
        notes += [f"to fill in: {out}; where torch sees the machine, --device cuda measures them"] if out else []
    emit(rows, format, notes=notes)


def _for_workload(
    workload: TrustedName,
    on: str,
    count: int,
    dtype: str | None,
    engine: str,
    tp: int,
    calibration: str,
    shapes: Sequence[str] | None,
    train: str | None,
    number: Sequence[str] | None,
    context: typer.Context,
) -> NextMeasurements:
    """Rows to measure for a workload: whole steps where it is served, else its operations."""
    from slipstick.estimators.gpu.transfer.devices_file import load_device_calibration
    from slipstick.experiments.calibrate.next_measurements import is_served, operations_to_measure, steps_to_measure
    from slipstick.experiments.cli.typed_numbers import as_settings
    from slipstick.experiments.question.question import question
    from slipstick.experiments.question.registry import CALIBRATIONS
    from slipstick.experiments.question.user_code import own_or_none
    from slipstick.hwmodels.catalog import machine
    from slipstick.workloads.catalog import workload as by_name

    if is_served(workload):
        return steps_to_measure(workload, machine(on), count, dtype, engine, tp)
    known = load_device_calibration(CALIBRATIONS / "gpus.json" if calibration == "gpus" else calibration)
    graph = own_or_none(workload, [on], shapes or (), train, number or ()) or by_name(workload)
    query = question(graph, on, "roofline", as_settings(number, graph, context), dtype)
    sized = query.workload.bind_known({**query.workload.defaults, **query.run})
    return operations_to_measure(sized, query.machine, known, count)


def contention(
    network: Annotated[
        TrustedName,
        typer.Argument(parser=TrustedName, help="MODULE:FUNCTION that returns a torch model, or (model, inputs)"),
    ],
    threads: Annotated[str, option("threads", "1..8 (doubling) or 1,2,6")] = "1..2",
    input: Input = None,
    on: Annotated[str, option("on", "this host, FILE.yaml; detected if left out")] = "",
    out: Annotated[Path | None, option("out", "FILE.json for estimate --calibration")] = None,
    graph: Annotated[Path | None, option("graph", "of the network")] = None,
    images: Annotated[int, option("images", "at each count", min=3)] = 20,
    repeats: Annotated[int, option("repeats", "rounds over all counts", min=1)] = 3,
    clock: Clock = "",
    format: Format = "table",
) -> None:
    """Contention, cycles per instruction, passes and operation factor of a network here (needs torch and numba)."""
    from slipstick.estimators.cpu import thread_file
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.measure.threads.network_threads import measure_network, thread_counts
    from slipstick.experiments.question.settings import number_of
    from slipstick.hwmodels.catalog import machine as machine_named

    counts = thread_counts(threads)
    hertz = number_of("--clock", clock, "Hz") if clock else None
    host = machine_named(on) if on else detect(clock=hertz).machine("host")
    measured, step = measure_network(network, host, counts, input or [], images, repeats, _say)
    waits, times = dict(measured.contention), dict(measured.training)
    rows = [
        {
            "threads": count,
            "contention_s": waits[count],
            "image_s": times[count],
            "counted_s": measured.predicted("counted", count),
            "timed_s": measured.predicted("timed", count),
        }
        for count in counts
    ]
    notes = [
        f"{measured.network} on {measured.machine}, clock {host.clock / 1e9:.3g} GHz ({host.source_of('clock')}); "
        f"{measured.protocol}",
        f"operation factor {measured.operation_factor:.4g}, fitted at {measured.fitted_at} threads; forward "
        f"{measured.forward:.3g} s, backward {measured.backward:.3g} s, preparation {measured.preparation:.3g} s",
        f"cycles per instruction by threads a core: {', '.join(f'{v:.3g}' for v in measured.cycles_per_instruction)}",
    ]
    if out is not None:
        thread_file.save(measured, out)
        notes.append(f"written: {out} (estimate ... --estimator threads-counted --calibration {out})")
    if graph is not None:
        step.save(graph)
        notes.append(f"written: {graph}")
    emit(rows, format, notes=notes)


def scaling(
    program: Annotated[str, typer.Argument(help="a command with {threads} and {SIZE}, or MODULE:FUNCTION")],
    threads: Annotated[str, option("threads", "1..8 (doubling) or 1,2,6")] = "1..2",
    size: Annotated[list[str] | None, option("size", "again for a second one")] = None,
    repeats: Annotated[int, option("repeats", min=1)] = 3,
    timeout: Annotated[float, option("timeout")] = 3600.0,
    out: Annotated[Path, option("out", "the CSV that slipstick extrapolate reads")] = Path("scaling.csv"),
    format: Format = "table",
) -> None:
    """Times of your own program by threads and sizes; your program is run."""
    from slipstick.experiments.measure.threads.network_threads import thread_counts
    from slipstick.experiments.measure.threads.scaling_runs import measure_scaling, sizes_of, write_csv

    runs = measure_scaling(program, thread_counts(threads), sizes_of(size or []), repeats, timeout, _say)
    write_csv(runs, out)
    points: dict[tuple[float, ...], list[ScalingTime]] = {}
    for run in runs:
        points.setdefault(tuple(run.point.values()), []).append(run)
    names = list(runs[0].point)
    rows = [
        {
            **dict(zip(names, values, strict=True)),
            "time_s": min(run.seconds for run in taken),
            "spread": max(run.seconds for run in taken) / min(run.seconds for run in taken) - 1,
            "cpu_time_s": _least([run.cpu for run in taken]),
            "busiest_time_s": _least([run.busiest for run in taken]),
        }
        for values, taken in points.items()
    ]
    clocks = "time_s: wall; cpu_time_s: all threads together; busiest_time_s: CPU time of the busiest thread"
    written = f"written: {out}; slipstick extrapolate {out} --to ..."
    notes = [
        f"{clocks}, the wall time of a host without other programs",
        "times are the least of the repeats, since other programs only lengthen a run; spread: longest / least - 1",
        written,
    ]
    if runs[0].busiest is not None:
        notes[-1] += " (--column busiest_time_s where other programs run)"
    else:
        notes.append("no busiest_time_s: it is known of a MODULE:FUNCTION that keeps its threads, on Linux")
    emit(rows, format, notes=notes)


def _least(values: list[float | None]) -> float | None:
    """The least of the repeats; None where one is unknown."""
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def _say(text: str) -> None:
    print(f"slipstick: {text}", file=sys.stderr, flush=True)


USUAL = TrustedName("usual")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    about = "Take measurements on this host, all with one timing discipline."
    measures = verb_of(
        app, "measure", about, host, decoders, bricks, pipeline, spmv, training, steps, contention, scaling
    )
    measures.command("anchors", cls=WithNumbers)(anchors)


def host(
    out: Annotated[Path | None, option("out", "a machine file, FILE.yaml")] = None,
    repeats: Annotated[int, option("repeats")] = 11,
    name: Annotated[str, option("name")] = "host",
    clock: Clock = "",
    format: Format = "table",
) -> None:
    """Bandwidth and latency of every memory level, dependent additions and matrix products of this host."""
    from slipstick.common.formatting import shown
    from slipstick.experiments.measure.clocks.timing import Protocol
    from slipstick.experiments.measure.host.host_rates import measure_host
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.question.settings import number_of
    from slipstick.hwmodels.machine_file import save_machine

    measured = measure_host(
        detect(clock=number_of("--clock", clock, "Hz") if clock else None),
        protocol=Protocol(repeats=repeats),
        progress=_say,
    )
    rows = [
        {
            "quantity": r.quantity,
            "level": r.level,
            "benchmark": r.benchmark,
            "cores": r.cores,
            "value": r.value,
            "unit": r.unit,
            "spread": r.spread,
            "flags": "; ".join(r.flags),
        }
        for r in measured.results
    ]
    if format == "table":  # people read ns and GB/s, machines SI numbers
        rows = [
            {name: value for name, value in row.items() if name != "unit"} | {"value": shown(r.value, r.unit)}
            for row, r in zip(rows, measured.results, strict=True)
        ]
    load = "unknown" if measured.load is None else f"{measured.load:.2f} a core"
    notes = [f"{measured.topology.model}: {measured.protocol}; load {load}; bytes are traffic, write-allocate included"]
    if out is not None:
        save_machine(measured.machine(name), out)
        notes.append(f"written: {out}")
    emit(rows, format, notes=notes)


def decoders(
    decoder: Annotated[
        TrustedName,
        typer.Argument(
            parser=TrustedName,
            help="your own MODULE:FUNCTION, which makes an example (it is imported and run); or usual",
        ),
    ] = USUAL,
    repeats: Annotated[int, option("repeats", min=3)] = 15,
    format: Format = "table",
) -> None:
    """Seconds of one core to make a training example: run.host_seconds and run.example_bytes of estimate."""
    from slipstick.common.readers import unknown_name
    from slipstick.experiments.measure.host.decoders import own_decoder, timed, usual

    if ":" not in decoder and decoder != "usual":
        raise unknown_name("decoder", decoder, ["usual", "MODULE:FUNCTION"])
    rows = timed([own_decoder(decoder)] if ":" in decoder else usual(), repeats)
    first = rows[0]
    settings = f"--set run.host_seconds={first['host_seconds']:.3g} --set run.example_bytes={first['example_bytes']:g}"
    emit(rows, format, notes=[f"thread CPU time of one core; for the first: slipstick estimate ... {settings}"])


def pipeline(
    out: Annotated[Path | None, option("out", "the labelled steps, FILE.jsonl or .jsonl.gz")] = None,
    workers: Annotated[int, option("workers", "of every loader", min=1)] = 1,
    scale: Annotated[float, option("scale")] = 1.0,
    format: Format = "table",
) -> None:
    """Record a real training run with a known schedule, and find its phases while it goes on (needs torch)."""
    from collections import Counter

    from slipstick.experiments.methods.tuning.recorded_runs import RunSettings, record
    from slipstick.workloads.runs.step_profiles import save_steps, without_stolen_time

    report = record(RunSettings(workers=workers, scale=scale))
    notes = [f"{len(report.steps)} steps in {report.windows} windows; waits by wall clock, work by thread CPU time"]
    if out is not None:
        save_steps(report.steps, out)
        notes.append(f"written: {out}; slipstick phases {out} compares the methods")
    spent: Counter[str] = Counter()
    for step in report.steps:
        spent[str(step.label)] += without_stolen_time(step).duration  # type: ignore[assignment]
    counts = Counter(str(step.label) for step in report.steps)
    total = sum(spent.values()) or 1.0
    rows = [
        {"kind": kind, "steps": counts[kind], "time_s": time, "share": time / total} for kind, time in spent.items()
    ]
    emit(rows, format, notes=notes)


def bricks(
    models: Annotated[
        list[TrustedName],
        typer.Argument(parser=TrustedName, help="zoo:NAME, MODULE:FUNCTION, or a .json of bricks split --bricks-file"),
    ],
    granularity: Annotated[list[int] | None, option("granularity", "again for a second one", "-g")] = None,
    store: Annotated[Path, option("store", "only new bricks are measured")] = Path("slipstick-out/bricks.sqlite"),
    protocol: Annotated[str, option("protocol", "turns | warm | dlbricks")] = "turns",
    input: Input = None,
    name: Annotated[str, option("name", "in the store")] = "host",
    price: Annotated[float | None, option("price", "of this machine", min=0)] = None,
    device: Annotated[str, option("device", "cuda needs --on")] = "cpu",
    on: Annotated[str | None, option("on", "which the GPU is")] = None,
    batch: Annotated[int, option("batch", "first size of every input", min=1, max=65536)] = 1,
    mode: Annotated[str, option("mode", "eager | compiled (torch.compile of each brick and of the whole)")] = "eager",
    format: Format = "table",
) -> None:
    """Measure the unique layer sequences of torch models on this host; stop and start again as you like."""
    from slipstick.common.errors import InputError
    from slipstick.experiments.measure.bricks.brick_runs import host, measure_models
    from slipstick.experiments.measure.bricks.brick_store import BrickStore
    from slipstick.experiments.measure.clocks.torch_device import torch_device
    from slipstick.hwmodels.catalog import machine as machine_by_name

    place = torch_device(device, mode)
    if place.launches and on is None:
        raise InputError(f"--device {device} needs --on MACHINE: which machine is {place.model}?")
    described = machine_by_name(on) if on else host().model_copy(update={"name": name, "price": price})
    kept = BrickStore(store)
    failed = measure_models(
        models,
        granularity or [1],
        kept,
        protocol,
        say=_say,
        shapes=input or (),
        machine=described,
        device=place,
        batch=batch,
    )
    rows = [
        {"machine": on.name, "software": software, "protocol": how, "bricks": count}
        for on, software, how, count in kept.contents()
    ]
    emit(rows, format, notes=[f"store: {store}", *failed])


def spmv(
    matrices: Annotated[list[Path], typer.Argument(help=".mtx, .edges, .triplet0 (each also .gz) or .npz")],
    out: Annotated[Path | None, option("out", "a folder for one .npz of labels a matrix")] = None,
    seconds: Annotated[float, option("seconds", "for each kind of labels of a matrix, waiting included")] = 25.0,
    kernel: Annotated[
        str,
        option(
            "kernel",
            "spmv (its blocks); whole products by scipy, numba, torch, blocks or all",
        ),
    ] = "spmv",
    on: Annotated[str, option("on", "my-host.yaml, by which whole products are predicted as well")] = "",
    caches: Annotated[str, option("caches", "of whole products: warm | cold")] = "warm",
    threads: Annotated[int, option("threads", "of whole products", min=1)] = 1,
    format: Format = "table",
) -> None:
    """Times of blocks of sparse products here, hot and streaming; matrices already in the folder are skipped.

    'slipstick spmv train mine.spmv.json --measured FOLDER' fits costs of this machine to what was saved.
    """
    import numpy as np

    from slipstick.common.readers import unknown_name
    from slipstick.estimators.sparse.kernel_costs import KERNELS

    if kernel in (*KERNELS, "all"):
        from slipstick.experiments.methods.spmv.spmv_answers import measured_rows

        emit(measured_rows(matrices, kernel, caches, threads, on), format, notes=["least of interleaved rounds"])
        return
    if kernel != "spmv":
        raise unknown_name("sparse kernel", kernel, ("spmv", "all", *KERNELS))
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.measure.spmv.block_times import Reference, SpmvProtocol, measure_blocks
    from slipstick.experiments.measure.spmv.labels import save_times
    from slipstick.workloads.kernels.sparse_files import read_matrix

    reference, topology = Reference(), detect()
    rows = []
    for path in matrices:
        matrix = read_matrix(path)
        target = None if out is None else out / f"{matrix.name}.npz"
        if target is not None and target.exists():
            print(f"slipstick: {target} is there: skipped", file=sys.stderr)
            continue
        print(f"slipstick: {matrix.name}: {matrix.nonzeros} non-zeros", file=sys.stderr)
        times = measure_blocks(matrix, SpmvProtocol(budget_seconds=seconds), reference)
        if target is not None:
            save_times(times, matrix, path, topology.machine(topology.model), target)
        quiet = times.hot[~np.isnan(times.hot)]
        rows.append(
            {
                "matrix": matrix.name,
                "nonzeros": matrix.nonzeros,
                "hot_ns": float(quiet.mean()) * 1e9 if len(quiet) else None,
                "streaming_ns": None if times.streaming is None else float(times.streaming.mean()) * 1e9,
                **times.facts,
            }
        )
    emit(rows, format, notes=["ns a non-zero; streaming is empty where fewer than 20 sweeps were quiet"])


def training(
    network: Annotated[str, option("network", "gru, lstm or attention")] = "lstm",
    lengths: Annotated[
        str, option("lengths", "10,20,40, or a .csv with seq_len, or a .json of slipstick seqpoint --out")
    ] = "synthetic",
    iterations: Annotated[int, option("iterations", min=1, max=100000)] = 512,
    order: Annotated[str, option("order", "sorted, bucketed or shuffled")] = "bucketed",
    configurations: Annotated[str, option("configurations", "separated by commas")] = "base,repeat,avx2,bfloat16",
    repeats: Annotated[int, option("repeats", "medians count", min=1, max=101)] = 1,
    out: Annotated[Path, option("out", "a CSV; one that a stop cut short is continued")] = Path("training.csv"),
    format: Format = "table",
) -> None:
    """Training steps of a small real network by length, under changes that stand for hardware (needs torch)."""
    from slipstick.experiments.measure.training.epochs import measure_epoch, summary, wanted_lengths

    def progress(done: int, planned: int) -> None:
        if done % 16 == 0 or done == planned:
            print(f"slipstick: {done} of {planned} steps", file=sys.stderr)

    wanted = wanted_lengths(lengths, network, iterations, order)
    measure_epoch(network, wanted, configurations.split(","), out, repeats, progress)
    emit(summary(out), format, notes=[f"{network}: {len(wanted)} steps under each configuration; written: {out}"])


def steps(
    networks: Annotated[list[str] | None, typer.Argument(help="by name; all of them if none is given")] = None,
    out: Annotated[Path, option("out", "a CSV, with a .json beside it")] = Path("steps.csv"),
    format: Format = "table",
) -> None:
    """Eager training steps of small networks here, and every operation of them alone (needs torch)."""
    from slipstick.experiments.measure.training.step_files import read_steps
    from slipstick.experiments.measure.training.steps import measure_steps

    measure_steps(out, networks or [], say=_say)
    rows = [
        {
            "network": step.name,
            "step_s": step.measured,
            "operations_s": sum(step.seconds[op.name] * float(op.times) for op in step.workload),
            "calls_s": step.alone,
            "operations": sum(int(op.times) for op in step.workload),
        }
        for step in read_steps(out)
    ]
    emit(rows, format, notes=[f"written: {out}; slipstick validate dispatch --data {out.parent} predicts the steps"])
