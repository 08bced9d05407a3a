"""slipstick probe: a minute on this host, a machine file and a calibration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Format, option
from slipstick.experiments.report.output import emit


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def probe(
        budget_seconds: Annotated[float, option("budget_seconds", min=1.0, max=86400.0)] = 60.0,
        threads: Annotated[int, option("threads", "of torch: 1 by its own clock, more by wall time", min=1)] = 1,
        name: Annotated[str, option("name")] = "host",
        device: Annotated[str, option("device")] = "cpu",
        on: Annotated[
            str | None, option("on", "of --device, where the catalogue lacks the name it gives itself")
        ] = None,
        out: Annotated[
            Path, option("out", "FOLDER for NAME.yaml and NAME-calibration.json, or NAME-operations.csv")
        ] = Path(),
        format: Format = "table",
    ) -> None:
        """A minute on the device at hand: a machine file and a calibration, or operations, for later answers.

        A processor is measured whole. Of a GPU that torch sees (--device cuda, rocm, mps) the operations are timed that
        teach most about it, for --measured.
        """
        from slipstick.common.columns import in_seconds
        from slipstick.common.errors import InputError
        from slipstick.estimators.fitting.calibration_file import save
        from slipstick.experiments.calibrate.probing.probe import ESTIMATOR, TOGETHER
        from slipstick.experiments.calibrate.probing.probe import probe as probed
        from slipstick.hwmodels.machine_file import save_machine

        _require_place(out, name)
        if device != "cpu":
            _device(device, on, budget_seconds, out, name, format)
            return
        if on is not None:
            raise InputError(f"--on {on}: the processor of this host is measured, not taken from the catalogue")
        result = probed(budget_seconds, threads, name, lambda text: print(f"slipstick: {text}", file=sys.stderr))
        machine, calibration = out / f"{name}.yaml", out / f"{name}-calibration.json"
        written = "written anew" if machine.exists() or calibration.exists() else "written"
        save_machine(result.machine, machine)
        save(result.calibration, ESTIMATOR, calibration)
        load = "unknown" if result.load is None else f"{result.load:.2f} a core"
        left_out = "" if len(result.rows) == result.offered else ", the others left out for the time"
        if result.seconds > budget_seconds:
            left_out += (
                f" (beyond {budget_seconds:g} s: the host's levels and {TOGETHER} operations are timed in any case)"
            )
        notes = [
            f"{result.machine.name}: {len(result.rows)} of {result.offered} operations timed{left_out}, "
            f"{result.seconds:.0f} s, load {load}; fitted within {result.typical_error():.0%} at the median",
            f"{written}: {machine}, {calibration}; now: slipstick estimate WORKLOAD --on {machine} "
            f"--calibration {calibration}",
        ]
        emit(result.table(), format, notes=notes, columns=in_seconds(["calibrated"]))


def _require_place(out: Path, name: str) -> None:
    """Check where the files are to stand before a minute is spent on them.

    Raises
    ------
    InputError
        Where no file of the folder can have the name, or nothing can be written there.
    """
    import os

    from slipstick.common.errors import InputError

    if not name.strip() or Path(name).name != name or not name.isprintable():
        raise InputError(f"--name {name!r}: want the name of a file in {out}, without folders")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "a file, not a folder" if out.exists() else error.strerror
        raise InputError(f"--out {out}: {why}; want a folder for the files of {name}") from None
    if not os.access(out, os.W_OK):
        raise InputError(f"--out {out}: nothing can be written there")


def _device(device: str, on: str | None, seconds: float, out: Path, name: str, format: Format) -> None:
    """Times the operations of a GPU that teach most about it, and prints them.

    Raises
    ------
    InputError
        Where torch sees no such device here, or nobody knows which machine it is.
    """
    from slipstick.common.columns import in_seconds
    from slipstick.estimators.gpu.transfer.devices_file import load_device_calibration
    from slipstick.experiments.calibrate.probing.device_probe import machine_called, probe_device
    from slipstick.experiments.measure.clocks.anchor_times import stopwatch, torch_call
    from slipstick.experiments.question.registry import CALIBRATIONS
    from slipstick.hwmodels.catalog import machine

    watch, called = stopwatch(device)
    at = machine(on) if on else machine_called(called)
    place = "mps" if device == "mps" else "cuda"
    rows = out / f"{name}-operations.csv"
    result = probe_device(
        load_device_calibration(CALIBRATIONS / "gpus.json"),
        at, watch, lambda row: torch_call(row, place), rows, seconds,
        lambda text: print(f"slipstick: {text}", file=sys.stderr),
    )  # fmt: skip
    notes = [
        f"{called} is {at.name}: {len(result.rows)} of {result.offered} operations timed, {result.seconds:.0f} s",
        f"written: {rows}; now: slipstick estimate WORKLOAD --on {on or at.name!r} --measured {rows}",
    ]
    emit(result.table(), format, notes=notes, columns=in_seconds(["predicted"]))
