"""slipstick machines list|show"""

from __future__ import annotations

from typing import Annotated

import typer

FORMAT = "table | json | csv"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    machines = typer.Typer(no_args_is_help=True, help="The machines that ship, and your own files.")
    app.add_typer(machines, name="machines")

    @machines.command("list")
    def list_machines(format: Annotated[str, typer.Option(help=FORMAT)] = "table") -> None:  # noqa: A002
        """Names and main figures of the shipped machines."""
        from experiments.output import emit
        from hwmodels.catalog import machine, machine_names

        rows = []
        for name in machine_names():
            shipped = machine(name)
            rows.append(
                {
                    "machine": name,
                    "name": shipped.name,
                    "cores": shipped.cores,
                    "clock_Hz": shipped.clock,
                    "memory_B_per_s": shipped.bandwidth(shipped.main_memory),
                    "price_dollars_per_h": shipped.price,
                }
            )
        emit(rows, format)

    @machines.command()
    def show(
        name: Annotated[str, typer.Argument(help="a shipped machine, or the path of a YAML file")],
        format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
    ) -> None:
        """Every number of a machine with its source."""
        from experiments.output import emit
        from hwmodels.catalog import machine
        from hwmodels.machine import describe

        shown = machine(name)
        rows = [
            {"field": field, "value": shown.numbers[field] if format != "table" else text, "source": source}
            for field, text, source in describe(shown)
        ]
        emit(rows, format, notes=[f"{shown.name} ({shown.family}), fingerprint {shown.fingerprint}", shown.description])
