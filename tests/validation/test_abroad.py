"""The published figures of the board `abroad` are questions that the documented commands take."""

from __future__ import annotations

from collections import Counter

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.scoreboards.abroad.abroad_board import answer_json, answered, figures
from slipstick.hwmodels.catalog import machine_names

BY_ID = {figure.id: figure for figure in figures().figures}


def test_every_class_of_devices_has_twelve_figures_with_their_sources() -> None:
    assert len(BY_ID) == len(figures().figures) >= 120
    counted = Counter(figure.device_class for figure in figures().figures)
    assert len(counted) >= 8 and min(counted.values()) >= 12
    assert {figure.source for figure in figures().figures} == set(figures().sources)
    assert all(one.url.startswith("https://") for one in figures().sources.values())


def test_figures_name_machines_of_the_catalogue_and_state_a_positive_value() -> None:
    for figure in figures().figures:
        words = figure.arguments
        assert words[words.index("--on") + 1] in machine_names(), figure.id
        assert figure.published > 0, figure.id


def test_a_quotient_is_work_over_rate() -> None:
    assert BY_ID["lambda-resnet50-a6000-mixed"].published == pytest.approx(928 / 916)


@pytest.mark.parametrize("name", ["lambda-resnet50-a6000-mixed", "llama-8b-apple-m4-tg128", "llama-3.1-8b-v6e-8"])
def test_a_figure_of_each_verb_is_answered_with_a_band(name: str) -> None:
    answer = answered(BY_ID[name])
    assert answer.low is not None and answer.high is not None
    assert 0 < answer.low <= answer.value <= answer.high


def test_a_refusal_is_the_commands_own_line() -> None:
    with pytest.raises(InputError, match="unknown machine 'no-such-machine'"):
        answer_json(["estimate", "gemm", "--on", "no-such-machine"])
