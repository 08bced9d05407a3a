"""Predictions where several parameters vary: threads=64,size=3200."""

from __future__ import annotations

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import number_of, unknown_name
from slipstick.estimators.scaling.surfaces import SurfacePrediction, extrapolate_surface
from slipstick.experiments.extrapolate.readings import Readings

MAX_TARGETS = 10_000


def targets_of(text: str, readings: Readings) -> list[list[float]]:
    """One value a varying parameter from "threads=64,size=3200; threads=128,size=3200".

    Raises InputError where a name is unknown, a value is no number, or a varying parameter has none.
    """
    varying, targets = readings.varying(), []
    for target in text.split(";")[: MAX_TARGETS + 1]:
        given = {
            name: number_of(value, f"--to {target[:60]!r}: {name}") for name, value in _pairs(target, "--to").items()
        }
        for name in given:
            if name not in readings.parameters:
                raise unknown_name("parameter", name, readings.parameters)
        missing = [name for name in varying if name not in given]
        if missing:
            raise InputError(f"--to gives no value for {', '.join(missing)}: several parameters vary, each needs one")
        targets.append([given[name] for name in varying])
    if len(targets) > MAX_TARGETS:
        raise InputError(f"--to: more than {MAX_TARGETS} targets")
    return targets


def kinds_of(text: str | None, varying: tuple[str, ...]) -> dict[str, str]:
    """Parameter -> kind, from "strong" (the first parameter) or "threads=strong,size=problem_size"."""
    if text is None:
        return {}
    return _pairs(text, "--kind") if "=" in text else {varying[0]: text}


def predict_surfaces(
    readings: Readings, to: str, kind: str | None, region: str | None, level: float | None
) -> dict[str, SurfacePrediction]:
    """One prediction a region: region -> `SurfacePrediction`.

    `level`: probability of the band; None leaves it away.
    Raises InputError where a name is unknown or the measurements are too few.
    """
    varying = readings.varying()
    columns = [readings.parameters.index(name) for name in varying]
    names = np.asarray(readings.regions) if readings.regions else np.zeros(len(readings.times), dtype=str)
    known = list(dict.fromkeys(names.tolist()))
    if region is not None and region not in known:
        raise unknown_name("region", region, known)
    targets, kinds = targets_of(to, readings), kinds_of(kind, varying)
    predictions: dict[str, SurfacePrediction] = {}
    for name in known if region is None else [region]:
        chosen = names == name
        x, y = readings.points[chosen][:, columns], readings.times[chosen]
        predictions[name] = extrapolate_surface(x, y, varying, targets, kinds, level, readings.statistic)
    return predictions


def _pairs(text: str, where: str) -> dict[str, str]:
    pairs = {}
    for word in text.split(","):
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"{where} {word[:60]!r}: want NAME=VALUE for each parameter")
        pairs[name.strip()] = value.strip()
    return pairs
