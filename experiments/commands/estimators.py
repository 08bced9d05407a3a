"""slipstick estimators list|show"""

from __future__ import annotations

from typing import Annotated

import typer

FORMAT = "table | json | csv"


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    estimators = typer.Typer(no_args_is_help=True, help="What answers: for what it was made, and how far it errs.")
    app.add_typer(estimators, name="estimators")

    @estimators.command("list")
    def list_estimators(format: Annotated[str, typer.Option(help=FORMAT)] = "table") -> None:  # noqa: A002
        """Every estimator by name: what it is for, and its error on data that it was not fitted to."""
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.answers.estimator_sheets import sheets

        rows = [{"estimator": one.name, "for": one.purpose, "held-out error": one.error} for one in sheets().values()]
        emit(rows, format, notes=["default: chosen by kind of machine, see slipstick estimators show default"])

    @estimators.command()
    def show(
        name: Annotated[str, typer.Argument(help="an estimator of the list, or default")],
        format: Annotated[str, typer.Option(help=FORMAT)] = "table",  # noqa: A002
    ) -> None:
        """What an estimator is for, its domain, its held-out error and its parameters."""
        from slipstick.experiments.pages.output import emit
        from slipstick.experiments.question.answers.estimator_sheets import parameter_rows, sheet

        one = sheet(name)
        facts = {"for": one.purpose, "domain": one.domain, "held-out error": one.error, "scoreboard": one.board}
        if format != "table":
            emit([{"estimator": one.name, **facts, "parameters": parameter_rows(name)}], format)
            return
        emit(parameter_rows(name), format, notes=[one.name, *(f"{key}: {text}" for key, text in facts.items() if text)])
