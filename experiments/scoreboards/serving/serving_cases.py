"""Measured times of a further token while serving; held out: the rows of the same model."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.public_data import scored_file, why_missing
from slipstick.experiments.scoreboards.serving import serving_rows
from slipstick.experiments.scoreboards.serving.serving_baselines import nearest_scaled, one_efficiency
from slipstick.experiments.scoreboards.serving.serving_refit import FILE, outer, trained_on
from slipstick.experiments.scoreboards.serving.step_fit import step_rows
from slipstick.experiments.scoring.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime


def case_set(scored: Path | None) -> CaseSet:
    """Inputs: model, machine, engine and version, layout, types of weights, tokens and users; times of one token.

    Raises InputError where the public data are missing.
    """
    path = scored_file(FILE, scored)
    if path is None:
        raise InputError(why_missing(FILE, scored))
    every = trained_on(serving_rows.read_cases(path)[0])
    wanted = [one for one in every if one.scored]
    measured = tuple(Measured(_case(one, number), one.tpot) for number, one in enumerate(wanted))

    @cache
    def held_out(name: str) -> FloatArray:
        """Predictions of every model's rows from those of the others."""
        seconds = np.zeros(len(wanted))
        for model in sorted({one.model.name for one in wanted}):
            places = [place for place, one in enumerate(wanted) if one.model.name == model]
            known, mine = [one for one in every if one.model.name != model], [wanted[place] for place in places]
            same = [one for one in known if one.kind == mine[0].kind] or known
            baseline = one_efficiency if name == "roofline with one efficiency" else nearest_scaled
            seconds[places] = baseline(same, mine)
        return seconds

    def ours() -> list[StatedTime | None]:
        made = outer(every, step_rows(every), "model unseen")
        rows = [(made.seconds[at], np.exp(made.half[at])) for at, one in enumerate(every) if one.scored]
        return [StatedTime(float(s), float(s / f), float(s * f)) for s, f in rows]

    def baseline(name: str) -> Callable[[], list[StatedTime | None]]:
        return lambda: [StatedTime(float(seconds)) for seconds in held_out(name)]

    names = ("roofline with one efficiency", "nearest known row, scaled")
    return CaseSet("serving", "model", measured, {"ours": ours} | {name: baseline(name) for name in names})


def _case(one: serving_rows.SiliconCase, number: int) -> Case:
    model, layout = one.model, one.layout
    inputs: dict[str, Input] = {
        **model_inputs(model), "machine": one.machine_name, **machine_inputs(one.machine),
        "engine": one.engine, "version": one.version, "weights": one.stored, "tensor": layout.tensor,
        "pipeline": layout.pipeline, "replicas": layout.replicas, "expert": layout.expert,
        "input_tokens": one.load.input_tokens, "output_tokens": one.load.output_tokens, "users": one.load.users,
    }  # fmt: skip
    return Case(f"{number}: {model.name} on {one.system}, {one.load.users} users", model.name, inputs, one.kind)
