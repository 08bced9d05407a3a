"""slipstick measure contention|scaling: what threads do to a network of yours, and to any program, on this host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstick.hwmodels.files.own_names import OwnName

if TYPE_CHECKING:
    from slipstick.experiments.measure.threads.scaling_runs import ScalingTime

FORMAT = "table | json | csv"


def register(measures: typer.Typer) -> None:
    """Add the verbs to those of `slipstick measure`."""
    measures.command("contention")(contention)
    measures.command("scaling")(scaling)


def contention(
    network: Annotated[
        OwnName,
        typer.Argument(parser=OwnName, help="MODULE:FUNCTION that returns a torch model, or (model, inputs)"),
    ],
    threads: Annotated[str, typer.Option(help="1..8 (doubling) or 1,2,6")] = "1..2",
    given: Annotated[
        list[str] | None, typer.Option("--input", help="where the function returns a model alone: batch,3,224,224")
    ] = None,
    machine: Annotated[str, typer.Option(help="this host as a machine, FILE.yaml; detected if none is given")] = "",
    save: Annotated[Path | None, typer.Option(help="FILE.json for estimate --calibration")] = None,
    graph: Annotated[Path | None, typer.Option(help="also write the network's graph, FILE.json or .json.gz")] = None,
    images: Annotated[int, typer.Option(help="trained by each worker at each count", min=3)] = 20,
    repeats: Annotated[int, typer.Option(help="rounds over all counts", min=1)] = 3,
    clock: Annotated[str, typer.Option(help="of a core, such as 2.6GHz; found if none is given")] = "",
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Contention, cycles per instruction, passes and operation factor of a network here (needs torch and numba)."""
    from slipstick.estimators.named import thread_file
    from slipstick.experiments.measure.host.host_topology import detect
    from slipstick.experiments.measure.threads.network_threads import measure_network, thread_counts
    from slipstick.experiments.pages.output import emit
    from slipstick.experiments.question.settings import number_of
    from slipstick.hwmodels.catalog import machine as machine_named

    counts = thread_counts(threads)
    hertz = number_of("--clock", clock, "Hz") if clock else None
    host = machine_named(machine) if machine else detect(clock=hertz).machine("host")
    measured, step = measure_network(network, host, counts, given or [], images, repeats, _say)
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
    if save is not None:
        thread_file.save(measured, save)
        notes.append(f"written: {save} (estimate ... --estimator threads-counted --calibration {save})")
    if graph is not None:
        step.save(graph)
        notes.append(f"written: {graph}")
    emit(rows, format, notes=notes)


def scaling(
    program: Annotated[str, typer.Argument(help="a command with {threads} and {SIZE}, or MODULE:FUNCTION")],
    threads: Annotated[str, typer.Option(help="1..8 (doubling) or 1,2,6")] = "1..2",
    size: Annotated[list[str] | None, typer.Option(help="NAME=100,200,400; again for a second one")] = None,
    repeats: Annotated[int, typer.Option(help="runs of every point", min=1)] = 3,
    timeout: Annotated[float, typer.Option(help="seconds after which a run is given up")] = 3600.0,
    save: Annotated[Path, typer.Option(help="the CSV that slipstick extrapolate reads")] = Path("scaling.csv"),
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Times of your own program by threads and sizes; your program is run."""
    from slipstick.experiments.measure.threads.network_threads import thread_counts
    from slipstick.experiments.measure.threads.scaling_runs import measure_scaling, sizes_of, write_csv
    from slipstick.experiments.pages.output import emit

    runs = measure_scaling(program, thread_counts(threads), sizes_of(size or []), repeats, timeout, _say)
    write_csv(runs, save)
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
    written = f"written: {save}; slipstick extrapolate {save} --to ..."
    notes = [
        f"{clocks}, the wall time of a host without other programs",
        "times are the least of the repeats, since other programs only lengthen a run; spread: longest / least - 1",
        written,
    ]
    if runs[0].busiest is not None:
        notes[-1] += " (--time busiest_time_s where other programs run)"
    else:
        notes.append("no busiest_time_s: it is known of a MODULE:FUNCTION that keeps its threads, on Linux")
    emit(rows, format, notes=notes)


def _least(values: list[float | None]) -> float | None:
    """The least of the repeats; None where one is unknown."""
    known = [value for value in values if value is not None]
    return min(known) if known and len(known) == len(values) else None


def _say(text: str) -> None:
    print(f"slipstick: {text}", file=sys.stderr)
