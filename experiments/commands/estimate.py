"""slipstick estimate WORKLOAD --on MACHINE"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def estimate(
        workload: Annotated[
            str, typer.Argument(help="a built-in workload, or a .json file (slipstick workloads list)")
        ],
        on: Annotated[str, typer.Option(help="a machine, or a YAML file (slipstick machines list)")],
        set: Annotated[list[str] | None, typer.Option(help="run.threads=240, machine.clock=2GHz, ...")] = None,  # noqa: A002
        estimator: Annotated[str | None, typer.Option(help="an estimator by name")] = None,
        parts: Annotated[int, typer.Option(help="operations to list, slowest first", min=0)] = 10,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """How long a workload takes on a machine, with an 80 % band where it is known."""
        from experiments.output import emit
        from experiments.question import question
        from hwmodels.units import format_quantity

        asked = question(workload, on, estimator, set or [])
        answer = asked.answer()
        band = answer.interval()
        whole = sum(part.contribution for part in answer.parts) or 1.0
        slowest = sorted(answer.parts, key=lambda part: -part.contribution)[:parts]
        operations = [
            {
                "operation": part.name,
                "kind": part.kind,
                "time_s": part.time,
                "times": part.times,
                "share": part.contribution / whole,
                "bound_by": part.bound_by,
            }
            for part in slowest
        ]
        row = {
            "workload": asked.workload.name,
            "machine": asked.machine.name,
            "time_s": answer.time,
            "low_s": band[0] if band else None,
            "high_s": band[1] if band else None,
            "interval_level": 0.8 if band else None,
            "energy_J": answer.energy,
            "rule": answer.rule,
        }
        if format != "table":
            extra = {"assumptions": list(answer.assumptions), "metrics": dict(answer.metrics), "parts": operations}
            emit([{**row, **extra} if format == "json" else row], format)
            return
        text = format_quantity(answer.time, "s")
        between = f" (80 %: {format_quantity(band[0], 's')} .. {format_quantity(band[1], 's')})" if band else ""
        notes = [
            "assuming: " + "; ".join(answer.assumptions),
            f"{asked.workload.name} on {asked.machine.name}: {text}{between}",
        ]
        notes += [f"{name}: {value:.4g}" for name, value in answer.metrics.items()]
        emit(operations, format, notes=notes)
