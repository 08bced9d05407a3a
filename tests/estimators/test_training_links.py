"""Transfers of a training step in absolute seconds: rings, hand-overs and exchanges by their closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.estimators.training.layout_step_time import TrainingLinks
from slipstick.hwmodels.catalog import machine

DGX = TrainingLinks(near=450e9, near_latency=3e-6, domain=8, far=50e9, far_latency=10e-6, devices=1024)
"""Eight devices on a switch of 450 GB/s each, each with a port of 50 GB/s."""


def test_a_ring_of_64_ranks_moves_the_data_once_over_the_ports() -> None:
    """Patarasuk and Yuan 2009: (p - 1) / p of the data at the bandwidth; here 8 ports of 50 GB/s a domain carry it."""
    assert DGX.ring(64e9, 64, 1) == pytest.approx(63e9 / 400e9 + 7 * 3e-6 + 7 * 10e-6)
    assert DGX.ring(8e9, 8, 1) == pytest.approx(7e9 / 450e9 + 7 * 3e-6)
    assert DGX.ring(8e9, 8, 8) == pytest.approx(7e9 / 50e9 + 7 * 10e-6)  # one device a domain: its port alone
    assert DGX.ring(8e9, 1, 1) == 0


def test_nccl_s_bus_bandwidth_is_what_a_ring_gives_back() -> None:
    """nccl-tests' PERFORMANCE.md: bus bandwidth = 2 (p - 1) / p x size / time is the link's, whatever p is."""
    links = TrainingLinks.of(machine("h100-dgx"), 64)
    for ranks in (2, 4, 8, 64):
        seconds = 2 * links.ring(16e9, ranks, 1)
        busbw = 2 * (ranks - 1) / ranks * 16e9 / seconds
        assert busbw == pytest.approx(min(links.near, links.far * 8) if ranks > 8 else links.near, rel=0.02)


@given(st.floats(1e3, 1e11), st.sampled_from([2, 4, 8, 16, 64, 512]), st.sampled_from([1, 2, 8]))
def test_no_ring_beats_its_links_nor_takes_longer_than_over_the_ports_alone(data: float, ranks: int, step: int) -> None:
    seconds, moved = DGX.ring(data, ranks, step), data * (ranks - 1) / ranks
    assert moved / 450e9 <= seconds <= moved / 50e9 + ranks * 13e-6


def test_each_copy_of_a_token_is_sent() -> None:
    """Of 8 copies spread over 16 domains 15 of 16 leave theirs by its port; within one 7 of 8 move to another rank."""
    assert DGX.dispatch(1e9, 128, 8) == pytest.approx(8 * 15 / 16 * 1e9 / 50e9 + 10e-6)
    assert DGX.dispatch(1e9, 8, 8) == pytest.approx(7e9 / 450e9 + 3e-6)
    assert DGX.dispatch(1e9, 1, 8) == 0


def test_a_neighbour_within_the_domain_is_reached_by_the_switch() -> None:
    assert DGX.neighbour(1e9, 4) == pytest.approx(1e9 / 450e9 + 3e-6)
    assert DGX.neighbour(1e9, 8) == pytest.approx(1e9 / 50e9 + 10e-6)
