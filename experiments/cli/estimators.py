"""slipstick estimators list|show"""

from __future__ import annotations

from typing import Annotated

import typer

from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.cli.vocabulary import Format, option, verb_of
from slipstick.experiments.question.registry import named_estimator, named_estimators
from slipstick.experiments.report.output import emit


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    estimators = verb_of(app, "estimators", "What answers: for what it was made, and how far it errs.")

    @estimators.command("list")
    def list_estimators(
        routes: Annotated[bool, option("routes")] = False,
        format: Format = "table",
    ) -> None:
        """Every estimator by name: what it is for, and its error on data that it was not fitted to."""

        if routes:
            from slipstick.estimators.routing import ROUTES

            emit([row.row() for row in ROUTES], format, notes=["the first row that holds answers"])
            return

        rows = [
            {"estimator": one.name, "for": one.purpose, "held-out error": one.held_out_error}
            for one in named_estimators()
        ]
        emit(rows, format, notes=["default: chosen by the table that slipstick estimators list --routes shows"])

    @estimators.command()
    def show(
        name: Annotated[
            TrustedName,
            typer.Argument(parser=TrustedName, help="an estimator of the list, or your own, MODULE:ATTRIBUTE"),
        ],
        format: Format = "table",
    ) -> None:
        """What an estimator is for, its domain, its held-out error, where its calibrations hold, and its parameters."""
        from slipstick.estimators.routing import ROUTES

        one, rows = named_estimator(name), [row.row() for row in ROUTES]
        facts = {
            "for": one.purpose,
            "domain": one.domain,
            "held-out error": one.held_out_error,
            "scoreboard": one.board,
            "source": one.source,
            "other names": ", ".join(one.aliases),
            "calibrations": "; ".join(str(domain) for domain, _ in one.calibrations),
            "default for": "; ".join(f"{row['work']} on {row['machine']}" for row in rows if row["law"] == one.name),
            "example": f"{one.example.command} --estimator {one.name}" if one.example else "",
        }
        known = {} if name == "default" else one.estimator().parameters
        parameters = [
            {"parameter": f"estimator.{key}", "value": value, "unit": note.unit, "meaning": note.meaning}
            for key, (value, note) in known.items()
        ]
        if format != "table":
            emit([{"estimator": one.name, **facts, "parameters": parameters}], format)
            return
        emit(parameters, format, notes=[one.name, *(f"{key}: {text}" for key, text in facts.items() if text)])
