"""Measured times of a further token while serving; held out: the rows of the same model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.estimators.core.lambdified import FloatArray
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.evidence.cases import Case, CaseSet, Input, Measured, Prediction
from slipstick.experiments.evidence.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.evidence.validation.serving import silicon
from slipstick.experiments.evidence.validation.serving.baselines import nearest_scaled, one_efficiency
from slipstick.experiments.evidence.validation.serving.refit import FILE, model_of, trained_on
from slipstick.experiments.evidence.validation.serving.step_fit import fit, predict
from slipstick.experiments.serve.oracle import serving_calibration
from slipstick.hwmodels.files.readers import InputError


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: model, machine, engine and version, layout, types of weights, tokens and users; times of one token.

    Raises
    ------
    InputError
        Where the public data are missing.
    """
    path = scored_file(FILE, scored)
    if path is None:
        raise InputError(why_missing(FILE, scored))
    every = trained_on(silicon.read_cases(path)[0])
    wanted = [one for one in every if one.scored]
    measured = tuple(Measured(_case(one, number), one.tpot) for number, one in enumerate(wanted))

    @cache
    def held_out(name: str) -> FloatArray:
        """Predictions of every model's rows from those of the others."""
        seconds = np.zeros(len(wanted))
        for model in sorted({model_of(one) for one in wanted}):
            places = [place for place, one in enumerate(wanted) if model_of(one) == model]
            known, mine = [one for one in every if model_of(one) != model], [wanted[place] for place in places]
            if name == "ours":
                seconds[places] = predict(fit(known), mine)
            else:
                same = [one for one in known if one.kind == mine[0].kind] or known
                baseline = one_efficiency if name == "roofline with one efficiency" else nearest_scaled
                seconds[places] = baseline(same, mine)
        return seconds

    def ours() -> list[Prediction | None]:
        half = serving_calibration().half_width
        factors = [float(np.exp(half[one.kind])) for one in wanted]
        return [Prediction(s, s / f, s * f) for s, f in zip(held_out("ours"), factors, strict=True)]

    def baseline(name: str) -> Callable[[], list[Prediction | None]]:
        return lambda: [Prediction(float(seconds)) for seconds in held_out(name)]

    names = ("roofline with one efficiency", "nearest known row, scaled")
    return CaseSet("serving", "model", measured, {"ours": ours} | {name: baseline(name) for name in names})


def _case(one: silicon.Case, number: int) -> Case:
    model, layout = one.model, one.layout
    inputs: dict[str, Input] = {
        **model_inputs(model), "machine": one.machine_name, **machine_inputs(one.machine),
        "engine": one.engine, "version": one.version, "weights": one.stored, "tensor": layout.tensor,
        "pipeline": layout.pipeline, "replicas": layout.replicas, "expert": layout.expert,
        "input_tokens": one.load.input_tokens, "output_tokens": one.load.output_tokens, "users": one.load.users,
    }  # fmt: skip
    return Case(f"{number}: {model.name} on {one.system}, {one.load.users} users", model.name, inputs, one.kind)
