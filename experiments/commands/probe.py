"""slipstick probe: a minute on this host, a machine file and a calibration."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from slipstick.experiments.commands.vocabulary import Format, option


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def probe(
        budget_seconds: Annotated[float, option("budget_seconds", min=1.0)] = 60.0,
        threads: Annotated[int, option("threads", "of torch: 1 by its own clock, more by wall time", min=1)] = 1,
        name: Annotated[str, option("name")] = "host",
        out: Annotated[Path, option("out", "FOLDER for NAME.yaml and NAME-calibration.json")] = Path(),
        format: Format = "table",
    ) -> None:
        """A minute on this host's processor: a machine file, and a calibration that later answers rest on."""
        from slipstick.estimators.calibration.calibration_file import save
        from slipstick.experiments.calibrate.probing.probe import ESTIMATOR
        from slipstick.experiments.calibrate.probing.probe import probe as probed
        from slipstick.experiments.pages.output import emit
        from slipstick.hwmodels.machine_file import save_machine

        result = probed(budget_seconds, threads, name, lambda text: print(f"slipstick: {text}", file=sys.stderr))
        out.mkdir(parents=True, exist_ok=True)
        machine, calibration = out / f"{name}.yaml", out / f"{name}-calibration.json"
        save_machine(result.machine, machine)
        save(result.calibration, ESTIMATOR, calibration)
        load = "unknown" if result.load is None else f"{result.load:.2f} a core"
        notes = [
            f"{result.machine.name}: {len(result.rows)} of {result.offered} operations timed, {result.seconds:.0f} s, "
            f"load {load}; fitted within {result.typical_error():.0%} at the median",
            f"written: {machine}, {calibration}; now: slipstick estimate WORKLOAD --on {machine} "
            f"--calibration {calibration}",
        ]
        emit(result.table(), format, notes=notes)
