"""slipstick measure host|...: clocks and kernels on this machine; each subject adds its command here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli import measure_anchors, measure_threads
from slipstick.experiments.cli.vocabulary import Clock, Format, Input, option, verb_of
from slipstick.experiments.report.output import emit

USUAL = TrustedName("usual")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    about = "Take measurements on this host, all with one timing discipline."
    measures = verb_of(app, "measure", about, host, decoders, bricks, pipeline, spmv, training, steps)
    measure_threads.register(measures)
    measure_anchors.register(measures)


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
        progress=lambda text: print(f"slipstick: {text}", file=sys.stderr),
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
        say=lambda text: print(f"slipstick: {text}", file=sys.stderr),
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

    measure_steps(out, networks or [], say=lambda text: print(f"slipstick: {text}", file=sys.stderr))
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
