"""Fits the calibration that ships: python -m slipstick.experiments.evidence.validation.serving.refit FILE.json"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from slipstick.estimators.operation.serving.engines import ServingCalibration
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.validation.serving.silicon import Case, read_cases
from slipstick.experiments.evidence.validation.serving.step_fit import fit, predict, predict_first, with_first
from slipstick.hwmodels.files.readers import InputError, atomic_write
from slipstick.hwmodels.files.records import Table

FILE = "serving/silicon.csv.gz"
KINDS = ("dense", "experts")
LEVEL = 80.0


def trained_on(cases: Sequence[Case]) -> list[Case]:
    """Rows to fit: without doubts, of known precision, not known to speculate."""
    return [c for c in cases if c.fit_for_training]


def left_out(
    cases: Sequence[Case], key: Callable[[Case], object], kind: str
) -> Iterator[tuple[list[Case], list[Case]]]:
    """Splits (known, scored): each value of a key left out in turn; scored are rows of one kind."""
    for value in sorted({str(key(c)) for c in cases if c.scored and c.kind == kind}):
        scored = [c for c in cases if c.scored and c.kind == kind and str(key(c)) == value]
        yield [c for c in cases if str(key(c)) != value], scored


def model_of(case: Case) -> str:
    """What is left out when a model is unseen."""
    return case.model.name


def system_of(case: Case) -> str:
    """What is left out when a system is unseen."""
    return case.system


def half_widths(cases: Sequence[Case], kind: str) -> tuple[float, float]:
    """Log errors that 80 % of rows stay below when their model or their system is left out: further and first token."""
    further, first = [], []
    for key in (model_of, system_of):
        for known, scored in left_out(cases, key, kind):
            calibration = with_first(fit(known), known)
            further += list(np.abs(np.log(predict(calibration, scored) / [c.tpot for c in scored])))
            first += list(np.abs(np.log(predict_first(calibration, scored) / [c.ttft for c in scored])))
    return float(np.percentile(further, LEVEL)), float(np.percentile(first, LEVEL))


def calibration_of(cases: Sequence[Case]) -> ServingCalibration:
    """The calibration of all rows, with bands from what is left out."""
    known = trained_on(cases)
    widths = {kind: half_widths(known, kind) for kind in KINDS}
    return replace(
        with_first(fit(known), known),
        half_width=Table({kind: round(width[0], 4) for kind, width in widths.items()}),
        first_half_width=Table({kind: round(width[1], 4) for kind, width in widths.items()}),
        source=f"{len(known)} aggregated rows of ai-dynamo/aiconfigurator (095f58a), fitted by "
        "python -m slipstick.experiments.evidence.validation.serving.refit",
    )


def main(path: str) -> None:
    """Write the calibration of the public rows.

    Raises
    ------
    InputError
        Where the public rows are missing.
    """
    file = training_file(FILE)
    if file is None:
        raise InputError(why_missing(FILE))
    cases, _ = read_cases(file)
    with atomic_write(path) as stream:
        json.dump(calibration_of(cases).to_dict(), stream, indent=1)


if __name__ == "__main__":
    main(sys.argv[1])
