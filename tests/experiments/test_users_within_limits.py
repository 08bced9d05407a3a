"""How many users a server holds within limits: a quantity that every verb can ask for."""

from __future__ import annotations

import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.serving.request_estimator import ATTAINED, FINE

LIMITS = {"run.tpot_limit": "9 ms", "run.ttft_limit": "0.3 s"}
SHORT = {"workload.input_tokens": 256, "workload.output_tokens": 32}


@pytest.mark.slow
def test_the_most_users_keep_the_limits_and_more_do_not() -> None:
    settings = {**LIMITS, **SHORT}
    wanted = ss.estimate("llama-3.1-8b", "h100-sxm", settings=settings, quantity="users").headline
    assert wanted.name == "users" and wanted.unit == "users" and wanted.better == "more"
    assert (wanted.low or 0) <= wanted.value <= (wanted.high or 0)

    def kept(users: float) -> float:
        made = ss.estimate("llama-3.1-8b", "h100-sxm", settings={**settings, "run.concurrency": users})
        return made.quantities["kept"].value

    assert kept(wanted.value) >= ATTAINED > kept(round(wanted.value * FINE) + 2)


def test_serve_prints_the_share_that_is_kept() -> None:
    settings = {**LIMITS, **SHORT, "run.concurrency": 16}
    share = ss.estimate("llama-3.1-8b", "h100-sxm", settings=settings).quantities["kept"]
    limits = {"tpot": 9e-3, "ttft": 0.3}
    from slipstick.experiments.serve.serving_question import ServingOptions, traffic

    load = traffic(input_tokens=256, output_tokens=32, users=16, rate=None)
    from slipstick.estimators.serving.serving_answer import serve

    summary = serve(ServingOptions("llama-3.1-8b", "h100-sxm").deployment(), load, limits).summary()
    assert share.value == summary["meeting_limits"]
    assert share.low == min(summary["meeting_limits_low"], summary["meeting_limits_high"])


@pytest.mark.slow  # `test_better_hardware` asks it of steps
def test_more_bandwidth_never_holds_fewer_users() -> None:
    settings = {**LIMITS, **SHORT}
    vary = {"machine.memory.HBM3.bandwidth": ["0.9x", "1x", "1.3x"]}
    users = ss.whatif("llama-3.1-8b", "h100-sxm", vary, settings=settings, quantity="users").to_frame()["users"]
    assert users.is_monotonic_increasing and users.iloc[0] < users.iloc[-1]


def test_without_limits_or_with_impossible_ones_it_says_so() -> None:
    with pytest.raises(InputError, match="give one: run.ttft_limit, run.tpot_limit, run.latency_limit"):
        ss.estimate("llama-3.1-8b", "h100-sxm", settings=SHORT, quantity="users")
    with pytest.raises(InputError, match=r"one user alone keeps the limits in 0% of requests"):
        ss.estimate("llama-3.1-8b", "h100-sxm", settings={**SHORT, "run.tpot_limit": "1 us"}, quantity="users")
    with pytest.raises(InputError, match=r"run.tpot_limit = 0 s: want a time above 0"):
        ss.estimate("llama-3.1-8b", "h100-sxm", settings={**SHORT, "run.tpot_limit": 0}, quantity="users")
