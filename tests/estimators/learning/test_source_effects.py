"""Others' collections: planted spreads come back, few choose nothing, a question is of none of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slipstick.estimators.engine_steps.engines import SERVERS
from slipstick.estimators.engine_steps.fitted_steps import groups_on, serving_fit
from slipstick.estimators.fitting.fitted_model import SOURCE, UNGROUPED, LawFit, LawRows
from slipstick.estimators.fitting.source_effects import SourceEffect, effect_of, source_effect
from slipstick.experiments.scoreboards.sources.source_refit import ANSWERED, KIND, fitted_effects
from slipstick.hwmodels.catalog import machine


def planted(kind: str, offsets: list[float], noise: float = 0.05, count: int = 60) -> LawRows:
    """Rows of one kind whose sources take exp(offset) times what is answered."""
    draws = np.random.default_rng(len(offsets))
    logs = np.concatenate([one + noise * draws.standard_normal(count) for one in offsets])
    names = [f"{kind}: {at}" for at in range(len(offsets)) for _ in range(count)]
    groups = {KIND: [kind] * len(names), SOURCE: names}
    cluster = [str(at) for at in range(len(names))]
    return LawRows({ANSWERED: np.full(len(names), 2.0)}, groups, cluster, 2.0 * np.exp(logs), [kind] * len(names))


def effects(**offsets: list[float]) -> dict[str, SourceEffect]:
    rows = {kind: planted(kind, each) for kind, each in offsets.items()}
    return {kind: effect_of(made) for kind, made in fitted_effects(rows).items()}


def test_many_sources_tell_their_mean_and_their_spread() -> None:
    """Forty sources: the mean of their effects, and the sample's standard deviation with that of the mean."""
    spread = np.random.default_rng(3).normal(0.3, 0.2, 40)
    known = effects(servers=spread.tolist())["servers"]
    assert known.mean == pytest.approx(spread.mean(), abs=0.03)
    assert known.deviation == pytest.approx(spread.std() * math.sqrt(1 + 1 / 40), rel=0.1)


def test_few_sources_choose_nothing_and_are_wider() -> None:
    known = effects(few=[0.0, 0.4], many=[0.0, 0.1, -0.1, 0.05, -0.05, 0.0])
    assert known["few"].mean == 0.0 and known["few"].deviation > known["many"].deviation
    assert abs(known["many"].mean) < 0.05


def test_a_kind_takes_what_others_know_of_spreads() -> None:
    """Two sources that agree say little: beside kinds that lie far apart they are less sure."""
    apart = [0.0, 0.6, -0.6, 0.5, -0.5, 0.4, -0.4]
    alone, beside = effects(few=[0.0, 0.0])["few"], effects(few=[0.0, 0.0], many=apart)["few"]
    assert beside.deviation > 1.2 * alone.deviation


def test_a_question_is_of_no_source_and_a_fitted_row_of_none() -> None:
    """The band of a step holds the spread of sources, its time their mean; rows of the dashboards have neither."""
    fitted, at = serving_fit(), machine("h100-sxm")
    asked = groups_on(at, "vllm", "llama-3.1-8b", 8.03e9, "bf16")
    own = {**asked, SOURCE: UNGROUPED}
    ratio = fitted.parameters(asked).factor / fitted.parameters(own).factor
    assert ratio == pytest.approx(math.exp(source_effect(SERVERS).mean), rel=1e-9)
    nothing = LawFit((), np.zeros(0), np.zeros((0, 0)), {}, {}, {})
    with_effect = SourceEffect(0.2, 0.1).on(nothing)
    assert with_effect.logs.tolist() == [0.2] and with_effect.covariance[0, 0] == pytest.approx(0.01)
