"""python extra_p_surfaces.py CASES.csv PREDICTIONS.csv: Extra-P's multi-parameter model of measured tables.

In an environment of its own (pip install extrap "numpy<2"); Slipstick is not needed. CASES.csv comes from
`slipstick validate surfaces --export-cases CASES.csv`. Along a parameter where times fall (slope of the logarithm below
-0.5), which Extra-P's terms cannot follow, the time multiplied by the parameter is modelled, and divided again.
Calotoiu et al., "Fast Multi-parameter Performance Modeling", CLUSTER 2016.
"""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np
from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.functions import Function
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler
from peer_files import numbers, predict_all

FALLING = -0.5


@lru_cache(maxsize=8)
def model(parameters: str, known: str, times: str) -> tuple[Function, np.ndarray]:
    """Extra-P's function of a table, and by which parameters it is to be divided (1 or 0)."""
    points = np.array(numbers(known)).reshape(-1, len(parameters.split(",")))
    seconds = np.array(numbers(times))
    design = np.column_stack([np.ones(len(points)), np.log(points)])
    slopes = np.linalg.lstsq(design, np.log(seconds), rcond=None)[0][1:]
    falling = np.where(slopes < FALLING, 1.0, 0.0)
    work = seconds * np.prod(points**falling, axis=1)
    measured = [
        Measurement(Coordinate(*point), Callpath("all"), Metric("time"), [value])
        for point, value in zip(points, work, strict=True)
    ]
    return MultiParameterModeler().create_model(measured).hypothesis.function, falling


def predict(case: dict[str, str]) -> float:
    """Seconds at the case's point."""
    function, falling = model(case["parameters"], case["known"], case["times_s"])
    to = np.array(numbers(case["to"]))
    return float(function.evaluate(list(map(float, to))) / np.prod(to**falling))


if __name__ == "__main__":
    predict_all(sys.argv[1], sys.argv[2], predict)
