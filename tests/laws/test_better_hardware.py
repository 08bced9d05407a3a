"""Better hardware is never slower, and parts sum to the answer: a sample, and by `make slow` two thousand what-ifs."""

from __future__ import annotations

import pytest

from tests.laws.better_hardware import STEPS, Case, answered, ask, varied


def test_a_sample_of_what_ifs_breaks_no_law() -> None:
    assert [(one.case.text(), one.faults) for one in answered(12, seed=7) if one.faults] == []


def test_a_faster_vector_engine_takes_no_product_from_the_matrix_engine() -> None:
    asked = ask(Case("megatron-22b", "rtx-a5000", None, "engines.vector.flop_per_cycle.float32", 5.49))
    assert asked is not None
    assert asked.faults == ()


@pytest.mark.slow
def test_two_thousand_what_ifs_break_no_law() -> None:
    assert [(one.case.text(), one.faults) for one in answered(2000, seed=1) if one.faults] == []


def test_a_sample_of_sweeps_is_not_faster_with_less() -> None:
    """Clocks, bandwidths, capacities, links, channels, lanes and dies, swept and set, on all kinds of machines."""
    assert [(one.text(), faults) for one, faults in varied(4, seed=3) if faults] == []


@pytest.mark.slow
def test_three_thousand_variations_are_not_faster_with_less() -> None:
    assert [(one.text(), faults) for one, faults in varied(3000 // STEPS, seed=1) if faults] == []
