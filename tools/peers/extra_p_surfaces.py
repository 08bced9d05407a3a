"""python extra_p_surfaces.py KNOWN.csv ASKED.csv PREDICTIONS.csv: Extra-P's multi-parameter model of a table.

In an environment of its own (pip install extrap "numpy<2"); Slipstick is not needed. KNOWN.csv has the varying
parameters as columns and `time_s`, ASKED.csv the same parameters; PREDICTIONS.csv is ASKED.csv with `time_s`. Along a
parameter where times fall (slope of the logarithm below -0.5), which Extra-P's terms cannot follow, the time multiplied
by the parameter is modelled, and divided again. Calotoiu et al., "Fast Multi-parameter Performance Modeling", CLUSTER
2016.
"""

from __future__ import annotations

import csv
import sys

import numpy as np
from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler

TIME = "time_s"
FALLING = -0.5


def table(path: str) -> tuple[list[str], np.ndarray, list[float]]:
    """Names of the parameters, their values (rows, parameters), and times where the file has them."""
    with open(path, newline="") as stream:
        rows = list(csv.DictReader(stream))
    names = [name for name in rows[0] if name not in (TIME, "rep")]
    values = np.array([[float(row[name]) for name in names] for row in rows])
    return names, values, [float(row[TIME]) for row in rows if row.get(TIME)]


def predict(known: np.ndarray, times: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """Seconds at points; shapes (points, parameters), (points,), (wanted, parameters)."""
    design = np.column_stack([np.ones(len(known)), np.log(known)])
    slopes = np.linalg.lstsq(design, np.log(times), rcond=None)[0][1:]
    falling = np.where(slopes < FALLING, 1.0, 0.0)
    work = times * np.prod(known**falling, axis=1)
    measured = [
        Measurement(Coordinate(*point), Callpath("all"), Metric("time"), [value])
        for point, value in zip(known, work, strict=True)
    ]
    function = MultiParameterModeler().create_model(measured).hypothesis.function
    return np.array([function.evaluate(list(map(float, point))) for point in asked]) / np.prod(asked**falling, axis=1)


if __name__ == "__main__":
    names, known, times = table(sys.argv[1])
    again, asked, _ = table(sys.argv[2])
    if names != again or len(times) != len(known):
        raise SystemExit(f"want the same parameters in both files, and {TIME} in the first: {names}, {again}")
    with open(sys.argv[3], "w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*names, TIME])
        seconds = predict(known, np.array(times), asked)
        writer.writerows([*point, time] for point, time in zip(asked, seconds, strict=True))
