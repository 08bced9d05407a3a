"""What the SeqPoint paper states as numbers, and the studies that stand beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache

from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.papers.seqpoint.seqpoint_study import (
    Network,
    SeqPointStudy,
)

TITLES: dict[Network, str] = {"gnmt": "GNMT", "deepspeech2": "DS2"}


TABLE_I: dict[tuple[Network, str], tuple[int, int, tuple[int, int], tuple[int, int]]] = {  # (M, K, lengths, N)
    ("gnmt", "GEMM-a"): (36549, 1024, (94, 9), (6016, 576)),
    ("gnmt", "GEMM-b"): (1024, 36549, (94, 9), (6016, 576)),
    ("deepspeech2", "GEMM-a"): (29, 1600, (1606, 234), (25728, 3776)),
    ("deepspeech2", "GEMM-b"): (1600, 29, (1606, 234), (25728, 3776)),
}


SEQPOINTS: dict[Network, int] = {"gnmt": 15, "deepspeech2": 8}


TIME_ERROR_PERCENT: dict[Network, float] = {"gnmt": 0.53, "deepspeech2": 0.11}


SPEEDUP_ERROR_PERCENT: dict[Network, float] = {"gnmt": 1.50, "deepspeech2": 0.13}


SENSITIVITY_PERCENT: dict[Network, float] = {"gnmt": 30.0, "deepspeech2": 45.0}


WORST_SPEEDUP_PERCENT: dict[Network, float] = {"gnmt": 22.0, "deepspeech2": 27.0}


SAVING_SERIAL: dict[Network, float] = {"gnmt": 40.0, "deepspeech2": 72.0}


SAVING_PARALLEL: dict[Network, float] = {"gnmt": 214.0, "deepspeech2": 345.0}


LENGTH_PAIRS: dict[Network, tuple[int, int]] = {"gnmt": (94, 9), "deepspeech2": (1606, 234)}


CLOSE_AND_FAR = ((87, 89), (87, 30))
"""Lengths of GNMT: a close pair of Figure 8, and one of its lengths with a far one."""


MODEL = "our model of the card stands for the card"


@cache
def study(network: Network, purpose: str = "training") -> SeqPointStudy:
    """The study of one network; its times are computed once."""
    return SeqPointStudy(network, "inference" if purpose == "inference" else "training")


def checked(holds: bool) -> bool | None:  # noqa: FBT001 - a result, no switch
    """What was found, where the lengths are the public ones; None where they are drawn for want of them."""
    return holds if training_file("sequences/iwslt15/lengths.csv") is not None else None


def geomean(values: Iterable[float]) -> float:
    """The geometric mean; values of 0 count as 1e-6 (an error of 0.0001 %)."""
    logs = [math.log(max(value, 1e-6)) for value in values]
    return math.exp(sum(logs) / len(logs))
