"""python big_o_laws.py CASES.csv PREDICTIONS.csv: the complexity class that big_O finds for each scaling series.

In an environment of its own (pip install big-O); Slipstick is not needed.
"""

from __future__ import annotations

import sys

import big_o
import numpy as np
from peer_files import numbers, predict_all


def predict(case: dict[str, str]) -> float:
    """Seconds at the case's value, by the best of big_O's classes."""
    best, _ = big_o.infer_big_o_class(np.array(numbers(case["known"])), np.array(numbers(case["times_s"])))
    return float(best.compute(np.array([float(case["to"])]))[0])


if __name__ == "__main__":
    predict_all(sys.argv[1], sys.argv[2], predict)
