"""slipstick workloads list|show"""

from __future__ import annotations

from typing import Annotated

import typer

FORMAT = "table | json | csv"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    workloads = typer.Typer(no_args_is_help=True, help="The workloads that ship, and your own files.")
    app.add_typer(workloads, name="workloads")

    @workloads.command("list")
    def list_workloads(format: Annotated[str, typer.Option(help=FORMAT)] = "table") -> None:  # noqa: A002
        """Names, sizes and open symbols of the built-in workloads."""
        from experiments.output import emit
        from workloads.catalog import workload, workload_names

        rows = []
        for name in workload_names():
            built = workload(name)
            defaults = ", ".join(f"{key}={value:g}" for key, value in built.defaults.items())
            rows.append({"workload": name, "operations": len(built), "symbols": defaults})
        emit(rows, format)

    @workloads.command()
    def show(
        name: Annotated[str, typer.Argument(help="a built-in workload, or the path of a .json or .json.gz file")],
        set: Annotated[list[str] | None, typer.Option(help="workload.NAME=VALUE")] = None,  # noqa: A002
        format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
    ) -> None:
        """The operations of a workload with flop and bytes."""
        from experiments.output import emit
        from experiments.question import assignments
        from workloads.catalog import workload

        values = assignments(set or [], ("workload", "run"))
        shown = workload(name).bind_known({**values["run"], **values["workload"]})
        if set:
            shown = shown.bound()
        rows = [
            {
                "operation": op.name,
                "kind": op.kind,
                "dtype": op.dtype,
                "times": _amount(op.times),
                "flop": _amount(op.cost.flop),
                "bytes": _amount(op.cost.bytes_moved),
                "dims": {key: str(_amount(value)) for key, value in op.dims.items()},
            }
            for op in shown
        ]
        notes = [f"{shown.name}: {len(shown)} operations; uncounted: {', '.join(shown.uncounted) or 'none'}"]
        emit(rows, format, notes=notes)


def _amount(value: object) -> object:
    return value if isinstance(value, (int, float)) else str(value)
