"""slipstick extrapolate FILE --to 480,3840"""

from __future__ import annotations

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def extrapolate(
        file: Annotated[
            str,
            typer.Argument(help="CSV, sacct, seff, Extra-P, hyperfine, asv, pytest-benchmark or Google Benchmark file"),
        ],
        to: Annotated[str, typer.Option(help="480,3840 or threads=64,size=3200; threads=128,size=3200")],
        kind: Annotated[
            str | None,
            typer.Option(help="strong | weak | problem_size | collective, or threads=strong"),
        ] = None,
        parameter: Annotated[str | None, typer.Option(help="the column that varies, where several could")] = None,
        time: Annotated[str | None, typer.Option(help="the column or metric that holds the time")] = None,
        repeats: Annotated[
            str | None,
            typer.Option(help="least | median of each point's repeats; least for measure scaling, else median"),
        ] = None,
        region: Annotated[str | None, typer.Option(help="only this region")] = None,
        machine: Annotated[
            str | None, typer.Option("--machine", "--on", help="its borders are respected, its cores counted")
        ] = None,
        cores_per_node: Annotated[
            float | None, typer.Option(help="for core-hours where nodes are counted; else the machine's", min=1)
        ] = None,
        family: Annotated[str | None, typer.Option(help="one family by name, such as amdahl, usl or line")] = None,
        level: Annotated[float, typer.Option(help="probability of the band")] = 0.80,
        next: Annotated[int, typer.Option(help="points to measure next to list, best first", min=0)] = 0,  # noqa: A002
        plot: Annotated[str | None, typer.Option(help="write a picture, FILE.png or .svg")] = None,
        report: Annotated[str | None, typer.Option(help="write a page, FILE.html")] = None,
        format: Annotated[str, typer.Option(help="table | json | csv")] = "table",  # noqa: A002
    ) -> None:
        """Times beyond what was measured, with band, formula, verdict, speed-up; many regions are ranked by growth."""
        from slipstick.estimators.extrapolation.repeats import statistic_of
        from slipstick.experiments.answers.extrapolating import answer
        from slipstick.experiments.extrapolate.predictions import ExtrapolationRequest

        statistic = None if repeats is None else statistic_of(repeats)
        answer(
            ExtrapolationRequest(
                file,
                to,
                kind,
                parameter,
                time,
                region,
                machine,
                family,
                level,
                next,
                plot,
                report,
                statistic=statistic,
                cores_per_node=cores_per_node,
            ),
            format,
        )
