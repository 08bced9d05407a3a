"""The option that names an estimator, of the shipped ones or of the user's own."""

from __future__ import annotations

import typer

from slipstick.hwmodels.files.own_names import OwnName

ESTIMATOR = typer.Option(
    "--estimator",
    "--with",
    parser=OwnName,
    help="by name, or your own, MODULE:ATTRIBUTE; code that a file names is run only where it is the same",
)
