"""slipstick measure contention|scaling: what threads do to a network of yours, and to any program, on this host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.vocabulary import Clock, Format, Input, option
from slipstick.experiments.report.output import emit

if TYPE_CHECKING:
    from slipstick.experiments.measure.threads.scaling_runs import ScalingTime


def register(measures: typer.Typer) -> None:
    """Add the verbs to those of `slipstick measure`."""
    measures.command("contention")(contention)
    measures.command("scaling")(scaling)


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
    print(f"slipstick: {text}", file=sys.stderr)
