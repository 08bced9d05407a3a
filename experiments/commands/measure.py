"""slipstick measure host|...: clocks and kernels on this machine; each subject adds its command here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

FORMAT = "table | json | csv"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    measures = typer.Typer(no_args_is_help=True, help="Take measurements on this host, all with one timing discipline.")
    app.add_typer(measures, name="measure")
    measures.command("host")(host)


def host(
    save: Annotated[Path | None, typer.Option(help="write the measured machine to this YAML file")] = None,
    repeats: Annotated[int, typer.Option(help="samples of every loop")] = 11,
    name: Annotated[str, typer.Option(help="of the machine")] = "host",
    format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
) -> None:
    """Bandwidth and latency of every memory level, dependent additions and matrix products of this host."""
    from experiments.measure.host import measure_host
    from experiments.measure.timing import Protocol
    from experiments.output import emit
    from hwmodels.machine import save_machine

    measured = measure_host(
        protocol=Protocol(repeats=repeats), progress=lambda text: print(f"slipstick: {text}", file=sys.stderr)
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
    load = "unknown" if measured.load is None else f"{measured.load:.2f} a core"
    notes = [f"{measured.topology.model}: {measured.protocol}; load {load}; bytes are traffic, write-allocate included"]
    if save is not None:
        save_machine(measured.machine(name), save)
        notes.append(f"written: {save}")
    emit(rows, format, notes=notes)
