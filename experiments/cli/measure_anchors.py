"""slipstick measure anchors: what to time first on a GPU that nobody measured; operations where torch sees it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.typed_numbers import WithNumbers
from slipstick.experiments.cli.vocabulary import Format, Input, Number, Train, option

if TYPE_CHECKING:
    from slipstick.experiments.calibrate.next_measurements import NextMeasurements


def register(measures: typer.Typer) -> None:
    """Add the verb to those of `slipstick measure`."""
    measures.command("anchors", cls=WithNumbers)(anchors)


def anchors(
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
        proposed = _for_workload(workload, on, next, dtype, engine, tp, calibration, input, train, number)
        if device is not None:
            raise InputError("--device: not with --workload: fill in what --out FILE.csv writes")
        if out is not None:
            proposed.write(out)
        emit(list(proposed.rows), format, notes=proposed.lines_above(str(out or "FILE.csv")))
        return
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
        _on_terminal(f"{len(wanted)} operations on {place}")
        times = timed(
            wanted,
            out,
            watch,
            lambda row: torch_call(row, device),
            lambda text: print(f"slipstick: {text}", file=sys.stderr),
        )
    elif out is not None:
        write_rows(out, dict.fromkeys(wanted))
    rows: list[dict[str, object]] = []
    for row, one in zip(result, wanted, strict=True):
        cells: dict[str, object] = {
            "operation": row.name,
            "sizes": ", ".join(f"{dim} = {size:g}" for dim, size in row.dims),
            "predicted_s": row.time,
            "spread_now": row.spread,
            "mean_spread_after": row.left,
        }
        rows.append(cells | ({"time_s": times.get(one)} if device is not None else {}))
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
    query = question(graph, on, "roofline", as_settings(number, graph), dtype)
    sized = query.workload.bind_known({**query.workload.defaults, **query.run})
    return operations_to_measure(sized, query.machine, known, count)


def _on_terminal(text: str) -> None:
    print(f"slipstick: {text}", file=sys.stderr, flush=True)
