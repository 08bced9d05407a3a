"""Run as a module it fits the kernels of 16-bit programs to image networks, and writes the numbers that ship.

python -m slipstick.experiments.evidence.validation.vision.vision_train
"""

from __future__ import annotations

import json

from slipstick.estimators.operation.gpu.programs.program_kernels import HALF_FITS
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.evidence.validation.models.programs.program_fit import numbers
from slipstick.experiments.evidence.validation.vision.timed_networks import networks_of
from slipstick.experiments.evidence.validation.vision.vision_rows import FILE, read_rows
from slipstick.hwmodels.files.readers import InputError
from slipstick.hwmodels.files.writer import atomic_write

ROWS = 240
"""Of each mode, spread evenly over the table: as many as make a fit of minutes one of seconds."""


def main() -> None:
    """Fit to all GPU rows of inference in 16 bits, eager and compiled, and write them.

    Raises
    ------
    InputError
        Where the public times are missing.
    """
    path = training_file(FILE)
    if path is None:
        raise InputError(why_missing(FILE))
    frame = read_rows(path)
    for mode, file in HALF_FITS.items():
        rows = frame[(frame["task"] == "inference") & (frame["dtype"] == "float16-amp") & (frame["mode"] == mode)]
        law = networks_of(rows.iloc[:: -(-len(rows) // ROWS)]).law()
        if law is None:
            raise InputError(f"{path}: too few rows of {mode} networks")
        with atomic_write(file) as stream:
            json.dump(numbers(law.point, law.classes), stream, indent=1)


if __name__ == "__main__":
    main()
