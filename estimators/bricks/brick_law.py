"""A network's time on a machine where only its sequences of layers were timed: what a framework adds to their sum.

It belongs to the network and to the family of machines, and is learned on other machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.estimators.fitting.fitted_file import load_fitted
from slipstick.estimators.fitting.fitted_model import Columns, FormulaLaw, Grouping, LawFit, ParameterPrior

NAME = "bricks"
"""Of the fitted file, and of its refit."""


def _seconds(parameters: Mapping[str, FloatArray], columns: Columns) -> FloatArray:
    """Seconds of each network."""
    sequences = columns["warm"] + parameters["share"] * columns["extra"]
    return np.asarray(parameters["start"] + parameters["whole"] * sequences)


WHOLE_LAW = FormulaLaw(
    "whole-over-bricks",
    (
        ParameterPrior(
            "whole",
            "1",
            "time of a network over that of its sequences",
            1.0,
            0.03,
            0.2,
            5.0,
            "whole",
            ("family", "instance", "network"),
        ),
        ParameterPrior(
            "share",
            "1",
            "of the way from warm to cold inside a network",
            0.7,
            0.4,
            0.02,
            5.0,
            "share",
            ("host", "caches"),
        ),
        ParameterPrior("start", "s", "of a call, beyond its sequences", 3e-5, 1.0, 1e-7, 0.01, "start", ("host",)),
    ),
    _seconds,
    (
        Grouping("family", 0.03),
        Grouping("instance", 0.03),
        Grouping("network", 0.03),
        Grouping("host", 0.3),
        Grouping("caches", 0.5),
    ),
)
"""A network's time from its sequences: start + whole x (warm + share x extra).

Columns: `warm`, seconds of its sequences, each run again at once; `extra`, by how much each takes longer after
others ran (weights and the framework's code have left the caches), 0 where that was not timed.
Expected widths are those that a family of machines and an instance of a family may have before any row is seen: a
few per cent each; a network finds more or less of its code in the cache than others do. What machines agree on of
a network is carried apart, since few networks have any and those much."""


@cache
def shipped() -> LawFit:
    """The law fitted to what ships (`slipstick validate --refit bricks`)."""
    return load_fitted(NAME).fit(WHOLE_LAW.name)


def extra_seconds() -> float:
    """By how much a sequence of what ships takes longer after others ran than again at once, at the median [s]."""
    return float(load_fitted(NAME).facts["extra_seconds"])
