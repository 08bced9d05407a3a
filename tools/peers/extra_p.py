"""python extra_p.py CASES.csv PREDICTIONS.csv: Extra-P's model of each series of the scaling cases.

In an environment of its own (pip install extrap "numpy<2"); Slipstick is not needed. CASES.csv comes from
`slipstick validate scaling --export-cases CASES.csv`. Calotoiu et al., "Using Automated Performance Modeling to Find
Scalability Bugs in Complex Codes", SC 2013.
"""

from __future__ import annotations

import sys

from extrap.entities.callpath import Callpath
from extrap.entities.coordinate import Coordinate
from extrap.entities.measurement import Measurement
from extrap.entities.metric import Metric
from extrap.modelers.single_parameter.basic import SingleParameterModeler
from peer_files import numbers, predict_all


def predict(case: dict[str, str]) -> float:
    """Seconds at the case's value."""
    points = zip(numbers(case["known"]), numbers(case["times_s"]), strict=True)
    measured = [Measurement(Coordinate(x), Callpath("all"), Metric("time"), [t]) for x, t in points]
    modeler = SingleParameterModeler()
    modeler.allow_negative_exponents = case["kind"] == "strong"  # its own option for times that fall
    model = modeler.create_model(measured)
    return float(model.hypothesis.function.evaluate(float(case["to"])))


if __name__ == "__main__":
    predict_all(sys.argv[1], sys.argv[2], predict)
