"""Others' collections: planted spreads come back, few choose nothing, a question is of none of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slipstick.estimators.engine_steps.engines import SERVERS
from slipstick.estimators.engine_steps.fitted_steps import groups_on, serving_fit
from slipstick.estimators.fitting.fitted_model import SOURCE, UNGROUPED, LawFit, LawRows
from slipstick.estimators.fitting.source_effects import FIXED, SourceEffect, effect_of, source_effect
from slipstick.experiments.scoreboards.sources.source_refit import ANSWERED, KIND, fitted_effects
from slipstick.hwmodels.catalog import machine


def planted(kind: str, offsets: list[float], noise: float = 0.05, count: int = 60) -> LawRows:
    """Rows of one kind whose sources take exp(offset) times what is answered."""
    draws = np.random.default_rng(len(offsets))
    logs = np.concatenate([one + noise * draws.standard_normal(count) for one in offsets])
    names = [f"{kind}: {at}" for at in range(len(offsets)) for _ in range(count)]
    groups = {KIND: [kind] * len(names), SOURCE: names}
    cluster = [str(at) for at in range(len(names))]
    answered = np.full(len(names), 2.0)
    return LawRows({ANSWERED: answered, FIXED: 0 * answered}, groups, cluster, 2.0 * np.exp(logs), [kind] * len(names))


def effects(**offsets: list[float]) -> dict[str, SourceEffect]:
    rows = {kind: planted(kind, each) for kind, each in offsets.items()}
    return {kind: effect_of(made) for kind, made in fitted_effects(rows).items()}


def test_many_sources_tell_their_mean_and_their_spread() -> None:
    """Forty sources: the mean of their effects, and the sample's standard deviation with that of the mean."""
    spread = np.random.default_rng(3).normal(0.3, 0.2, 40)
    known = effects(servers=spread.tolist())["servers"]
    assert known.mean[0] == pytest.approx(spread.mean(), abs=0.03)
    assert known.deviation == pytest.approx(spread.std() * math.sqrt(1 + 1 / 40), rel=0.1)


def test_few_sources_choose_nothing_and_are_wider() -> None:
    known = effects(few=[0.0, 0.4], many=[0.0, 0.1, -0.1, 0.05, -0.05, 0.0])
    assert known["few"].mean[0] == 0.0 and known["few"].deviation > known["many"].deviation
    assert abs(known["many"].mean[0]) < 0.05


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
    effect = source_effect(SERVERS)
    for name, mean in zip(effect.parameters, effect.mean, strict=True):
        ratio = getattr(fitted.parameters(asked), name) / getattr(fitted.parameters(own), name)
        assert ratio == pytest.approx(math.exp(mean), rel=1e-9)
    nothing = LawFit((), np.zeros(0), np.zeros((0, 0)), {}, {}, {})
    made = SourceEffect(mean=np.array([0.2]), covariance=np.array([[0.01]])).on(nothing)
    assert made.logs.tolist() == [0.2, 0.0]
    assert made.covariance.diagonal().tolist() == pytest.approx([0.01, 0.01 + 0.2**2])


def test_a_machine_of_which_few_measured_servers_has_the_width_and_no_factor() -> None:
    fitted, asked = serving_fit(), groups_on(machine("gaudi3"), "vllm", "llama-3.1-8b", 8.03e9, "bf16")
    own = {**asked, SOURCE: UNGROUPED}
    assert fitted.parameters(asked) == fitted.parameters(own)


def test_gaps_between_kernels_are_told_from_reading() -> None:
    """Sources whose fixed part alone is longer: the factor of the whole stays near one."""
    draws, rows = np.random.default_rng(0), list[LawRows]()
    for at, factor in enumerate((1.0, 1.5, 1.7, 1.3, 1.6, 1.4)):
        share = draws.uniform(0.05, 0.8, 80)
        logs = np.log(1 + (factor - 1) * share) + 0.02 * draws.standard_normal(80)
        groups, cluster = {KIND: ["servers"] * 80, SOURCE: [f"servers: {at}"] * 80}, [f"{at} {i}" for i in range(80)]
        rows.append(LawRows({ANSWERED: np.ones(80), FIXED: share}, groups, cluster, np.exp(logs), ["servers"] * 80))
    effect = effect_of(fitted_effects({"servers": sum(rows[1:], rows[0])})["servers"])
    assert effect.parameters == ("factor", "fixed") and abs(effect.mean[0]) < 0.05
    assert effect.mean[1] == pytest.approx(math.log(1.4), abs=0.1)
