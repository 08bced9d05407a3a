"""A calibration as JSON: parameters, covariance and residuals; the estimator itself is named, not stored."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import of_schema, read_json
from slipstick.common.records import FrozenDict, of_kind
from slipstick.common.renamed_arguments import checked
from slipstick.common.writer import write_json
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.symbolic.formula import parameters

SCHEMA = "slipstick-calibration-1"
MAX_PARAMETERS = 1000
Table: TypeAlias = tuple[tuple[float, ...], ...]
MAX_DRAWS, MAX_WARNINGS = 10_000, 1000


def to_dict(calibration: Calibration, estimator_name: str) -> dict[str, Any]:
    """The calibration as plain JSON values; an unknown covariance is null."""
    known = parameters(calibration.estimator)
    covariance = np.asarray(calibration.covariance)
    return {
        "schema": SCHEMA,
        "estimator": estimator_name,
        **({"quantity": calibration.wanted} if calibration.wanted else {}),
        "parameters": {
            name: {"value": known[name][0], "unit": known[name][1].unit, "fitted": name in calibration.names}
            for name in known
        },
        "names": list(calibration.names),
        "covariance": covariance.tolist() if np.isfinite(covariance).all() else None,
        "residuals": list(calibration.residuals),
        "residual_std": calibration.residual_std,
        **({"common_std": calibration.common_std} if calibration.common_std else {}),
        "degrees_of_freedom": calibration.degrees_of_freedom,
        "residual_seconds": calibration.residual_seconds,
        "residual_freedom": calibration.residual_freedom,
        "metric_std": dict(calibration.metric_std),
        "fingerprint": calibration.fingerprint,
        "source": calibration.source,
        "sample": [list(draw) for draw in calibration.sample],
        "warnings": list(calibration.warnings),
    }


def save(calibration: Calibration, estimator_name: str, path: str | os.PathLike[str]) -> None:
    """Write the JSON file, whole or not at all."""
    write_json(path, to_dict(calibration, estimator_name), indent=1)


@checked
def load_calibration(path: str | os.PathLike[str], estimator: Estimator) -> Calibration:
    """The calibration of a file, put into an estimator of the same parameters.

    Raises
    ------
    InputError
        Where the file is no calibration, or names a parameter that the estimator lacks.
    """
    fields = of_schema(read_json(path), SCHEMA, path)
    entries = of_kind(dict[str, dict[str, Any]], fields.get("parameters"), f"{path}: parameters")
    names = of_kind(tuple[str, ...], fields.get("names"), f"{path}: names")
    if not 0 < len(names) <= MAX_PARAMETERS or not entries.keys() >= {*names}:
        raise InputError(f"{path}: names: want a list of fitted parameters, each one in 'parameters'")
    values = {name: of_kind(float, entry.get("value"), f"{path}: {name}") for name, entry in entries.items()}
    try:
        fitted = estimator.model.with_parameters(values)
        fitted = fitted.about(str(fields["quantity"])) if fields.get("quantity") else fitted
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    numbers = {
        name: None if fields.get(name) is None else of_kind(float, fields[name], f"{path}: {name}")
        for name in ("residual_std", "degrees_of_freedom", "residual_seconds", "residual_freedom", "common_std")
    }
    sample = of_kind(Table, fields.get("sample") or [], f"{path}: sample")  # none in files of before they were kept
    if len(sample) > MAX_DRAWS or any(len(draw) != len(names) for draw in sample):
        raise InputError(f"{path}: sample: want at most {MAX_DRAWS} draws of {len(names)} numbers, one a parameter")
    warnings = of_kind(tuple[str, ...], fields.get("warnings") or [], f"{path}: warnings")
    return Calibration(
        fitted,
        names,
        _covariance(fields.get("covariance"), len(names), path),
        of_kind(tuple[float, ...], fields.get("residuals"), f"{path}: residuals"),
        numbers["residual_std"],
        numbers["degrees_of_freedom"],
        str(fields.get("fingerprint", "")),
        str(fields.get("source", "")),
        residual_seconds=numbers["residual_seconds"],
        residual_freedom=numbers["residual_freedom"],
        common_std=numbers["common_std"] or 0.0,
        metric_std=of_kind(FrozenDict[float], fields.get("metric_std") or {}, f"{path}: metric_std"),
        sample=sample,
        warnings=tuple(line[:500] for line in warnings[:MAX_WARNINGS]),
    )


def _covariance(table: Any, size: int, path: object) -> Table:
    if table is None:
        return tuple((float("nan"),) * size for _ in range(size))
    covariance = of_kind(Table, table, f"{path}: covariance")
    matrix = np.array(covariance) if len({len(row) for row in covariance}) == 1 else np.empty(0)
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise InputError(f"{path}: covariance: want a symmetric table of {size} x {size} numbers")
    return covariance
