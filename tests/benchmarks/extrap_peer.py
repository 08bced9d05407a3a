"""Extra-P 4.2.5 beside our extrapolation, on the same cases, in its fairest setting (a script, no test).

Needs the package `extrap` (which pins numpy 1.26: use an environment of its own with extrap, pandas, sympy, networkx,
pydantic, pyyaml and pint). Extra-P gets the medians of the repeats; strong scaling is turned into p x t before and back
after, because its search space only grows. Prints median errors by kind and ratio, and the models a second of both.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from slipstick.estimators.extrapolation.extrapolate import extrapolate_many
from slipstick.estimators.extrapolation.series import Series
from slipstick.experiments.evidence.boards.scaling import BINS, cases
from slipstick.experiments.evidence.validation.scaling.series_collection import ScalingSeries, read_collection


def extrap_predictions(known: Series, later: np.ndarray, kind: str) -> np.ndarray:
    """Times by Extra-P's single-parameter modeler at `later`."""
    from extrap.entities.callpath import Callpath
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.entities.metric import Metric
    from extrap.modelers.single_parameter.basic import SingleParameterModeler

    path, metric = Callpath("all"), Metric("time")
    factors = known.x if kind == "strong" else (1.0,) * len(known)
    data = [
        Measurement(Coordinate(x), path, metric, [y * f]) for x, y, f in zip(known.x, known.y, factors, strict=True)
    ]
    modeler = SingleParameterModeler()
    modeler.use_measure = True  # means of single medians are the medians
    model = modeler.create_model(data)
    predicted = np.array([model.hypothesis.function.evaluate(float(x)) for x in later], dtype=float)
    return predicted / later if kind == "strong" else predicted


def main() -> None:
    """Score both on every admissible number of known values."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with scaling/series.csv and scaling/index.csv")
    folder = parser.parse_args().data / "scaling"
    asked = [
        (measured, known, later, truth)
        for measured in read_collection(folder / "index.csv", folder / "series.csv")
        for known, later, truth in cases(measured)
    ]
    rows: list[tuple[str, str, bool, float, float]] = []
    clocks = {"extra-p": 0.0, "slipstick": 0.0}
    for measured, known, later, truth in asked:
        start = time.thread_time()
        theirs = extrap_predictions(known, later, measured.kind)
        clocks["extra-p"] += time.thread_time() - start
        start = time.thread_time()
        ours = np.array(extrapolate_many([known], later, measured.kind, level=None)[0].value)
        clocks["slipstick"] += time.thread_time() - start
        rows += _rows(measured, known, later, truth, theirs, ours)
    for kind in sorted({row[0] for row in rows}):
        for name in [name for name, *_ in BINS] + ["five"]:
            some = [row for row in rows if row[0] == kind and (row[1] == name or (name == "five" and row[2]))]
            if some:
                errors = np.array([row[3:] for row in some])
                median, worst = np.median(errors, axis=0), np.quantile(errors, 0.9, axis=0)
                print(
                    f"{kind:13s} {name:5s} n {len(some):4d}  median %: Extra-P {median[0]:7.1f} ours {median[1]:6.1f}"
                    f"   90th percentile %: Extra-P {worst[0]:8.1f} ours {worst[1]:6.1f}"
                )
    for name, seconds in clocks.items():
        print(f"{name}: {len(asked) / seconds:.0f} series a second, one at a time, no bands")


def _rows(
    measured: ScalingSeries, known: Series, later: np.ndarray, truth: np.ndarray, theirs: np.ndarray, ours: np.ndarray
) -> list[tuple[str, str, bool, float, float]]:
    five = len(np.unique(measured.values)) == 5
    found = []
    for target, true, one, other in zip(later, truth, theirs, ours, strict=True):
        ratio = target / known.x[-1]
        bin_name = next((name for name, low, high in BINS if low <= ratio < high), None)
        if bin_name:
            found.append((measured.kind, bin_name, five, 100 * abs(one / true - 1), 100 * abs(other / true - 1)))
    return found


if __name__ == "__main__":
    main()
