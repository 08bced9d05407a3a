"""Speculative decoding: tokens a step by its published formula, what checking costs, and what both give a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.speculative_decoding import Speculation
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.serving.batching.closed_loop import Load, steady
from slipstick.estimators.serving.batching.scheduler import Scheduler
from slipstick.estimators.serving.batching.server import simulate
from slipstick.experiments.cli.cli import run
from slipstick.workloads.runs.requests import Request


def reading(batch: Batch) -> float:
    """A server that only reads its weights."""
    return 5e-3


def multiplying(batch: Batch) -> float:
    """A server that only multiplies, a millisecond a token."""
    return 1e-3 * batch.tokens


@pytest.mark.parametrize(("tokens", "kept", "made"), [(1, 0.85, 1.85), (5, 0.8, 3.68928), (3, 1.0, 4.0), (4, 0.0, 1.0)])
def test_tokens_of_a_step_are_those_of_the_paper(tokens: int, kept: float, made: float) -> None:
    assert Speculation(tokens, kept, 0.0).kept == pytest.approx(made)


@given(st.integers(1, 16), st.floats(0.01, 1.0), st.integers(1, 64))
def test_what_reads_gains_all_tokens_and_what_multiplies_none(tokens: int, kept: float, users: int) -> None:
    guesses, batch = Speculation(tokens, kept, 0.0), Batch(float(users), 100.0)
    assert reading(batch) / guesses.seconds(reading)(batch) == pytest.approx(guesses.kept)
    slower = guesses.seconds(multiplying)(batch) / multiplying(batch)
    assert slower == pytest.approx((tokens + 1) / guesses.kept) and slower >= 1 - 1e-9


def test_prompts_alone_are_read_as_before() -> None:
    prompt = Batch(prompt=512.0, chunk=512.0, finished=1.0)
    assert Speculation(3, 0.7, 0.1).seconds(multiplying)(prompt) == multiplying(prompt)


@pytest.mark.parametrize("wrong", [(0, 0.5, 0.0), (65, 0.5, 0.0), (2, 1.1, 0.0), (2, 0.5, -1.0)])
def test_impossible_numbers_are_refused(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(InputError):
        Speculation(*wrong)


def test_a_command_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--num-requests", "8", "--output-tokens", "32"]
    assert run([*words, "--draft-tokens", "3", "--acceptance", "0.7"]) == 0
    assert "3 tokens guessed ahead, 70 % of them kept: 2.53 tokens a step" in " ".join(capsys.readouterr().out.split())
    assert run([*words, "--draft-tokens", "3"]) == 2
    assert "acceptance = 0: want a whole number of guessed tokens and the chance" in capsys.readouterr().err


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_limits_are_those_of_each_rank(groups: int) -> None:
    """So many ranks place so many requests at a time, in the simulation and in the closed form."""
    rules, requests = Scheduler(64, 2, cache_tokens=100_000), tuple(Request(16, 33) for _ in range(40))
    served = simulate(requests, reading, rules, 40, groups=groups)
    assert served.stretches[:, 4].max() == 2 * groups
    state = steady(reading, rules, Load(16, 33, 40), 1, groups)
    assert state.placed == 2 * groups and state.queued == 40 - 2 * groups
