"""slipstick read FILE"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def read(
        file: Annotated[str, typer.Argument(help="of a profiler or a benchmark; its content says what it is")],
        on: Annotated[str | None, typer.Option(help="a machine to set an estimate of beside what was measured")] = None,
        model: Annotated[str | None, typer.Option(help="of a server's benchmark, where its name is not known")] = None,
        gpus: Annotated[int | None, typer.Option(help="devices of the server", min=1)] = None,
        dtype: Annotated[
            str | None, typer.Option(help="of a server's weights (bf16), or of counted arithmetic (float64)")
        ] = None,
        engine: Annotated[str, typer.Option(help="of the server: vllm, sglang, trtllm ('vllm 0.19.0')")] = "vllm",
        rows: Annotated[int, typer.Option(help="operations to list, those that take longest", min=1, max=10_000)] = 10,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """What a file is, what it holds, and which command goes on."""
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.traces.files_read import With, read_any
        from slipstick.hwmodels.files.shown import visible

        result = read_any(file, With(on, model, gpus, dtype, engine, rows))
        if format == "json":
            about = {"file": file, "kind": result.kind.key, "holds": result.line, "next": list(result.commands)}
            emit([about | {"rows": [dict(row) for row in result.rows]}], format)
            return
        if format == "csv":
            emit(result.rows, format)
            return
        notes = [result.line, *(f"next: {command}" for command in result.commands)]
        if result.rows:
            emit(result.rows, format, notes=notes)
        else:
            print("\n".join(visible(note) for note in notes))
