"""A step's time behind the interface of scikit-learn's regressors, for simulators that have a slot for one.

scikit-learn is imported only for its own tags.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from slipstick.common.errors import InputError
from slipstick.common.readers import unknown_name
from slipstick.estimators.engine_steps.measured_steps import ServerStep, TimedServerStep
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_time_predictor import StepTimePredictor
from slipstick.estimators.fitting.fitted_model import FloatArray
from slipstick.experiments.serve.serving_question import ServingOptions

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("decodes", "context", "prompt", "past")
"""Of a batch, in this order; a frame has them by name and may lack the last ones."""
MOST_FITTED = 200
"""Rows that a fit looks at, spread over those given: a law of a score of parameters learns no more from others."""


class StepRegressor:
    """Seconds of a server's steps: `predict` from what ships, after `fit` moved by measured steps.

    Parameters
    ----------
    model, machine, engine, devices, dtype
        As `slipstick.oracle` takes them.

    Examples
    --------
    >>> import slipstick as ss
    >>> step = ss.StepRegressor("llama-3.1-8b", "h100-sxm", engine="vllm 0.19.0")
    >>> [row] = [[64, 2048, 0, 0]]
    >>> slower = [1.2 * step.predict([row])[0]]
    >>> bool(step.predict([row])[0] < step.fit([row], slower).predict([row])[0])
    True
    """

    _estimator_type = "regressor"

    def __init__(
        self,
        model: str = "llama-3.1-8b",
        machine: str = "h100-sxm",
        engine: str = "",
        devices: int = 1,
        dtype: str | None = None,
    ) -> None:
        self.model, self.machine, self.engine, self.devices, self.dtype = model, machine, engine, devices, dtype

    def get_params(self, deep: object = None) -> dict[str, Any]:
        """The arguments by name, as scikit-learn asks (there are no nested ones, whatever `deep`)."""
        del deep
        return {name: getattr(self, name) for name in ("model", "machine", "engine", "devices", "dtype")}

    def set_params(self, **arguments: Any) -> Self:
        """Change arguments by name.

        Raises
        ------
        InputError
            Where a name is unknown.
        """
        for name, value in arguments.items():
            if name not in self.get_params():
                raise unknown_name("argument", name, list(self.get_params()))
            setattr(self, name, value)
        return self

    def fit(self, X: pd.DataFrame | npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Move the fitted law by measured steps, shape (rows, up to 4) as `COLUMNS`, and their seconds, shape (rows,).

        Raises
        ------
        InputError
            Where shapes differ, or a step is faster than the data sheet allows.
        """
        rows, seconds = _columns(X), np.asarray(y, dtype=float).ravel()
        if rows.shape[1] != len(seconds):
            raise InputError(f"{rows.shape[1]} batches and {len(seconds)} times: want as many")
        deployment = self._wanted().deployment()
        chosen = {round(at) for at in np.linspace(0, len(seconds) - 1, MOST_FITTED)} if len(seconds) else set()
        known = tuple(
            TimedServerStep(
                ServerStep(
                    deployment.model, deployment.stored, deployment.machine, deployment.runs_under,
                    _batch(*rows[:, at].tolist()), deployment.layout, deployment.cache_type,
                ),
                float(seconds[at]),
            )
            for at in sorted(chosen)
        )  # fmt: skip
        self.oracle_ = replace(deployment, known=known).oracle
        return self

    def predict(self, X: pd.DataFrame | npt.ArrayLike) -> FloatArray:
        """Seconds of each batch, shape (rows,)."""
        decodes, context, prompt, past = _columns(X)
        seconds: FloatArray = self._oracle()(decodes, context, prompt, past=past).seconds
        return seconds

    def score(self, X: pd.DataFrame | npt.ArrayLike, y: npt.ArrayLike) -> float:
        """The share of variance that is explained (R^2), as scikit-learn's regressors score."""
        measured = np.asarray(y, dtype=float)
        left = ((measured - self.predict(X)) ** 2).sum()
        return float(1 - left / ((measured - measured.mean()) ** 2).sum())

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags, Tags, TargetTags

        return Tags(estimator_type="regressor", target_tags=TargetTags(required=True), regressor_tags=RegressorTags())

    def _wanted(self) -> ServingOptions:
        return ServingOptions(self.model, self.machine, devices=self.devices, dtype=self.dtype, engine=self.engine)

    def _oracle(self) -> StepTimePredictor:
        fitted = getattr(self, "oracle_", None)
        return fitted if isinstance(fitted, StepTimePredictor) else self._wanted().deployment().oracle


def _columns(X: Any) -> FloatArray:
    """The four numbers of each batch, shape (4, rows)."""
    if hasattr(X, "columns"):
        for name in X.columns:
            if name not in COLUMNS:
                raise unknown_name("column", str(name), list(COLUMNS))
        return np.array([X[name] if name in X.columns else np.zeros(len(X)) for name in COLUMNS], dtype=float)
    table = np.atleast_2d(np.asarray(X, dtype=float))
    if not 1 <= table.shape[1] <= len(COLUMNS):
        raise InputError(f"batches of {table.shape[1]} numbers: want {', '.join(COLUMNS)}")
    made = np.zeros((len(COLUMNS), len(table)))
    made[: table.shape[1]] = table.T
    return made


def _batch(decodes: float, context: float, prompt: float, past: float) -> Batch:
    return Batch(decodes, context, prompt, past, prompt, 1.0 if prompt else 0.0)
