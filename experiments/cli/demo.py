"""slipstick demo"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.experiments.cli.vocabulary import Format, option


def register(app: typer.Typer) -> None:
    """Add the verb."""

    @app.command()
    def demo(
        out: Annotated[str, option("out")] = "slipstick-out/xeon-phi",
        format: Format = "table",
    ) -> None:
        """The Xeon Phi job: run times known at 1..240 threads, predicted for 3,840, a faster clock, more cores."""
        from slipstick.common.optional_packages import require_packages
        from slipstick.experiments.papers.xeon_phi import xeon_phi_report
        from slipstick.experiments.report.output import emit

        require_packages(["matplotlib"])
        page, picture, rows = xeon_phi_report.write(out)
        notes = ["Training on a Xeon Phi 7120P, 3,840 threads beside today's 240; 80 % bands; ratios to today:"]
        emit(rows, format, notes=notes)
        if format == "table":
            print(f"report: {page.resolve()}\npicture: {picture.resolve()}")
