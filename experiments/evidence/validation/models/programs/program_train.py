"""Run as a module it fits the kernels of programs, eager and compiled, and writes the numbers that ship.

python -m slipstick.experiments.evidence.validation.models.programs.program_train
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.estimators.operation.gpu.programs.program_kernels import COMPILED, TRAINED
from slipstick.experiments.calibrate.public_data import data_folder
from slipstick.experiments.evidence.validation.models.programs.compile_scores import both, compiled_point
from slipstick.experiments.evidence.validation.models.programs.program_data import MACHINES, programs, times
from slipstick.experiments.evidence.validation.models.programs.program_fit import (
    classes,
    columns,
    fit,
    modelled,
    numbers,
)
from slipstick.hwmodels.files.readers import InputError, atomic_write


def main() -> None:
    """Fit to all times of v0.1 and write them.

    Raises
    ------
    InputError
        Where the public times are missing.
    """
    folder = data_folder()
    known = programs(folder) if folder else {}
    if folder is None or not known:
        raise InputError("no public times of programs here (set SLIPSTICK_DATA)")
    frame = times(folder)
    frame = frame[frame["source"].isin(list(known))]
    eager = frame[frame["mode"] == "eager"]
    sources, names = sorted(set(eager["source"])), classes(known)
    data = []
    for _, part in eager.groupby("machine"):
        rows = columns(sources, known, names, MACHINES[str(part["device"].iloc[0])])
        index = np.array([sources.index(source) for source in part["source"]])
        data.append((rows, index, np.log(part["mean_s"].to_numpy())))
    point = fit(data, names)
    errors = np.concatenate([np.log(modelled(point, rows, len(names)))[index] - logs for rows, index, logs in data])
    middle, far = np.quantile(np.abs(errors), (0.5, 0.9))
    print(f"{len(errors)} times: median |log ratio| {middle:.3f}, 90th percentile {far:.3f}")
    _write(TRAINED, point, names)
    pairs = both(frame[frame["source"].isin(sources)], known, sources, names)
    _write(COMPILED, compiled_point(pairs, np.ones(len(sources), bool), point, names), names)


def _write(path: Path, point: FloatArray, names: list[str]) -> None:
    with atomic_write(path) as stream:
        json.dump(numbers(point, names), stream, indent=1)


if __name__ == "__main__":
    main()
