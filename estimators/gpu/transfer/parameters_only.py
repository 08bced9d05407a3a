"""A calibration across devices without measured rows: parameters alone, and how far they err for what kin.

It is small, holds nobody's measurements, and says less: nothing of the shapes at which libraries choose well or badly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from slipstick.estimators.base.machine_family import MOST_WORDS, shared_words
from slipstick.estimators.fitting.similarity_weights import SimilarityWeights
from slipstick.estimators.gpu.transfer.device_calibration import DeviceCalibration, device_name
from slipstick.estimators.gpu.transfer.kernel_class import KernelClass, of_one_chip, pooled, times
from slipstick.estimators.gpu.transfer.operation_times import joined_times
from slipstick.estimators.gpu.transfer.pooling_constants import UNKNOWN
from slipstick.estimators.gpu.transfer.transfer_bands import LeaveOneOutDevice, Scatter, at_least, left, of_one_source
from slipstick.hwmodels.machine import Machine


def without_rows(calibration: DeviceCalibration, kinship: SimilarityWeights) -> DeviceCalibration:
    """The same, reduced to parameters; scatters are learned from the rows before they go."""
    machines = calibration.machines
    classes = [
        replace(
            one,
            rows={},
            scatters=tuple(_scatter(one, machines, closest, kinship) for closest in range(MOST_WORDS + 1)),
        )
        for one in calibration.classes
    ]
    return replace(calibration, classes=tuple(classes), anchors=())


def _scatter(one: KernelClass, machines: Mapping[str, Machine], closest: int, kinship: SimilarityWeights) -> Scatter:
    """Every machine predicted from the mean of those that share at most `closest` words of its family."""
    trials = []
    for fit in one.fits:
        here = device_name(machines[fit.machine])
        others = [other for other in one.fits if device_name(machines[other.machine]) != here]
        others = [other for other in others if shared_words(fit.family, other.family) <= closest] or others
        forms = one.sampled.get(fit.machine)
        if others and forms:
            predicted = np.log(times(forms, pooled(others, machines[fit.machine], kinship, one.priors)))
            nearest = max(shared_words(fit.family, other.family) for other in others)
            scale = kinship.errors[closest] / kinship.errors[nearest]
            trials.append(
                LeaveOneOutDevice(predicted, np.zeros(len(predicted)), np.log(joined_times(forms)), scale=scale)
            )
    learned = left(trials, 0.0, kinship.tails) if trials else Scatter(UNKNOWN, UNKNOWN)
    return at_least(learned, of_one_source(closest, kinship)) if of_one_chip(one.fits, closest) else learned
