"""slipstick read FILE"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.common.formatting import visible
from slipstick.experiments.cli.vocabulary import Format, option


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def read(
        file: Annotated[str, typer.Argument(help="of a profiler or a benchmark; its content says what it is")],
        on: Annotated[str | None, option("on", "whose estimate stands beside what was measured")] = None,
        model: Annotated[str | None, option("model", "of a server's benchmark, where its name is not known")] = None,
        devices: Annotated[int | None, option("devices", "of the server", min=1)] = None,
        dtype: Annotated[
            str | None, option("dtype", "of a server's weights (bf16), or of counted arithmetic (float64)")
        ] = None,
        engine: Annotated[str, option("engine", "of the server: vllm, sglang, trtllm")] = "vllm",
        top: Annotated[int, option("top", min=1, max=10000)] = 10,
        format: Format = "table",
    ) -> None:
        """What a file is, what it holds, and which command goes on."""
        from slipstick.experiments.replay.read_files import ReadOptions, read_any
        from slipstick.experiments.report.output import emit, emit_line

        result = read_any(file, ReadOptions(on, model, devices, dtype, engine, top))
        if format == "json":
            about = {
                "file": file,
                "kind": result.kind.key,
                "holds": result.line,
                "left_out": result.kind.left_out,
                "next": list(result.commands),
            }
            emit([about | {"rows": [dict(row) for row in result.rows]}], format)
            return
        if format == "csv":
            emit(result.rows, format)
            return
        left_out = [f"left out: {result.kind.left_out}"] if result.kind.left_out else []
        for note in (result.line, *left_out):
            emit_line(note)
        for command in result.commands:  # a command that is folded cannot be copied
            print(visible(f"next: {command}"))
        if result.rows:
            emit(result.rows, format)
