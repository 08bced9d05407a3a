"""A calibration as JSON: parameters, covariance and residuals; the estimator itself is named, not stored."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.readers import read_json, require_mapping
from slipstick.common.records import FrozenDict
from slipstick.common.renamed_arguments import checked
from slipstick.common.writer import atomic_write
from slipstick.estimators.base.protocols import Estimator
from slipstick.estimators.fitting.calibration import Calibration
from slipstick.estimators.symbolic.parameters import parameters

SCHEMA = "slipstick-calibration-1"
MAX_PARAMETERS = 1000
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
    with atomic_write(path) as stream:
        json.dump(to_dict(calibration, estimator_name), stream, indent=1, allow_nan=False)


@checked
def load_calibration(path: str | os.PathLike[str], estimator: Estimator) -> Calibration:
    """The calibration of a file, put into an estimator of the same parameters.

    Raises
    ------
    InputError
        Where the file is no calibration, or names a parameter that the estimator lacks.
    """
    fields = require_mapping(read_json(path), path, "file")
    if fields.get("schema") != SCHEMA:
        raise InputError(f"{path}: schema = {str(fields.get('schema'))[:40]!r}, want {SCHEMA!r}")
    entries = require_mapping(fields.get("parameters"), path, "parameters")
    names = fields.get("names")
    if not (isinstance(names, list) and 0 < len(names) <= MAX_PARAMETERS and all(name in [*entries] for name in names)):
        raise InputError(f"{path}: names: want a list of fitted parameters, each one in 'parameters'")
    values = {
        name: _number(require_mapping(entry, path, name).get("value"), path, name) for name, entry in entries.items()
    }
    try:
        fitted = estimator.model.with_parameters(values)
        fitted = fitted.about(str(fields["quantity"])) if fields.get("quantity") else fitted
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return Calibration(
        fitted,
        tuple(map(str, names)),
        _covariance(fields, len(names), path),
        tuple(_number(r, path, "residuals") for r in listed(fields.get("residuals"), path, "residuals")),
        _optional(fields, "residual_std", path),
        _optional(fields, "degrees_of_freedom", path),
        str(fields.get("fingerprint", "")),
        str(fields.get("source", "")),
        residual_seconds=_optional(fields, "residual_seconds", path),
        residual_freedom=_optional(fields, "residual_freedom", path),
        common_std=_optional(fields, "common_std", path) or 0.0,
        metric_std=FrozenDict(
            {
                name: _number(value, path, f"metric_std.{name}")
                for name, value in require_mapping(fields.get("metric_std") or {}, path, "metric_std").items()
            }
        ),
        sample=_sample(fields, len(names), path),
        warnings=_warnings(fields, path),
    )


def _warnings(fields: Mapping[str, Any], path: object) -> tuple[str, ...]:
    lines = listed(fields.get("warnings") or [], path, "warnings")
    return tuple(str(line)[:500] for line in lines[:MAX_WARNINGS])


def _sample(fields: Mapping[str, Any], size: int, path: object) -> tuple[tuple[float, ...], ...]:
    """Draws of the fitted parameters; none in files of before they were kept."""
    draws = listed(fields.get("sample") or [], path, "sample")
    if len(draws) > MAX_DRAWS:
        raise InputError(f"{path}: sample: {len(draws)} draws, want at most {MAX_DRAWS}")
    sample = tuple(tuple(_number(v, path, "sample") for v in listed(draw, path, "sample")) for draw in draws)
    if any(len(draw) != size for draw in sample):
        raise InputError(f"{path}: sample: want draws of {size} numbers, one a fitted parameter")
    return sample


def _covariance(fields: Mapping[str, Any], size: int, path: object) -> tuple[tuple[float, ...], ...]:
    table = fields.get("covariance")
    if table is None:
        return tuple((float("nan"),) * size for _ in range(size))
    rows = listed(table, path, "covariance")
    covariance = tuple(tuple(_number(v, path, "covariance") for v in listed(row, path, "covariance")) for row in rows)
    matrix = np.array(covariance) if len({len(row) for row in covariance}) == 1 else np.empty(0)
    if matrix.shape != (size, size) or not np.allclose(matrix, matrix.T):
        raise InputError(f"{path}: covariance: want a symmetric table of {size} x {size} numbers")
    return covariance


def listed(value: Any, path: object, field: str) -> list[Any]:
    """A list of a file, as it stands there.

    Raises InputError where it is none.
    """
    if not isinstance(value, list):
        raise InputError(f"{path}: {field}: want a list")
    return value


def _number(value: Any, path: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{path}: {field}: {str(value)[:40]!r} is no number")
    return float(value)


def _optional(fields: Mapping[str, Any], name: str, path: object) -> float | None:
    return None if fields.get(name) is None else _number(fields[name], path, name)
