"""slipstick extrapolate FILE --to 480,3840"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Format, Level, Plot, Report, option


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def extrapolate(
        file: Annotated[
            str,
            typer.Argument(help="CSV, sacct, seff, Extra-P, hyperfine, asv, pytest-benchmark or Google Benchmark file"),
        ],
        to: Annotated[str, option("to", "480,3840 or threads=64,size=3200; threads=128,size=3200")],
        kind: Annotated[
            str | None, option("kind", "strong | weak | problem_size | collective, or threads=strong")
        ] = None,
        parameter: Annotated[str | None, option("parameter", "where several could")] = None,
        column: Annotated[str | None, option("column", "the one that holds the time, where several could")] = None,
        statistic: Annotated[
            str | None, option("statistic", "least | median; least for measure scaling, else median")
        ] = None,
        region: Annotated[str | None, option("region")] = None,
        on: Annotated[str | None, option("on", "its borders are respected, its cores counted")] = None,
        cores_per_node: Annotated[float | None, option("cores_per_node", "the machine's if left out", min=1)] = None,
        family: Annotated[str | None, option("family", "amdahl, usl, line, ...")] = None,
        level: Level = 0.80,
        check: Annotated[str | None, option("check", "12.3s")] = None,
        next: Annotated[int, option("next", min=0)] = 0,
        plot: Plot = None,
        report: Report = None,
        format: Format = "table",
    ) -> int:
        """Times beyond what was measured, with band, formula, verdict, speed-up; many regions are ranked by growth."""
        from slipstick.estimators.scaling.laws.repeats import statistic_of
        from slipstick.experiments.extrapolate.predictions import ExtrapolationRequest
        from slipstick.experiments.report.print_extrapolation import answer

        statistic = None if statistic is None else statistic_of(statistic)
        return answer(
            ExtrapolationRequest(
                file,
                to,
                kind,
                parameter,
                column,
                region,
                on,
                family,
                level,
                next,
                plot,
                report,
                statistic=statistic,
                cores_per_node=cores_per_node,
                check=check,
            ),
            format,
        )
