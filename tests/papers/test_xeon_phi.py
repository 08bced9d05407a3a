"""Viebke et al. 2019: the paper's cells."""

from functools import cache

import pytest

from slipstick.common.errors import InputError
from slipstick.estimators.cpu import xeon_phi_study
from slipstick.experiments.papers.xeon_phi import xeon_phi_rows as xeon_phi
from slipstick.experiments.scoring.score_rows import ReproductionRow
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.networks.phi_cnn import forward_pass, phi_cnn, phi_network, weights


@cache
def everything() -> tuple[ReproductionRow, ...]:
    return tuple(xeon_phi.run())


def rows(table: str, status: str = "exact") -> list[ReproductionRow]:
    return [row for row in everything() if row.table == table and row.status == status]


@pytest.mark.parametrize(("table", "cells"), [("IV", 12), ("X", 24), ("XI", 18)])
def test_every_cell_of_a_predicted_table_holds(table: str, cells: int) -> None:
    found = rows(table)
    assert len(found) == cells
    assert [row.cell for row in found if not row.ok] == []


def test_tolerances_are_those_promised() -> None:
    assert {(row.tolerance_abs, row.tolerance_rel) for row in rows("X")} == {(0.06, None)}
    assert {(row.tolerance_abs, row.tolerance_rel) for row in rows("XI")} == {(0.06, 0.004)}
    assert {(row.tolerance_abs, row.tolerance_rel) for row in rows("IV")} == {(None, 0.007)}


def test_misses_are_the_counts_of_operations_alone() -> None:
    missed = {(row.table, row.cell.partition(",")[0]) for row in everything() if row.ok is False}
    assert missed == {("VII", "forward operations of one image"), ("VIII", "backward operations of one image")}
    judged = [row for row in everything() if isinstance(row.ours, float) and isinstance(row.published, float)]
    assert all(row.ok is not None for row in judged)
    assert all(row.inputs for row in judged)


def test_prep_as_printed_gives_medium_one_point_eight_minutes_more() -> None:
    for threads in xeon_phi_study.PREDICTED_THREADS:
        more = xeon_phi.minutes("medium", "a", threads, "printed") - xeon_phi.minutes("medium", "a", threads)
        assert more == pytest.approx(15 * 9e9 / 1.238e9 / 60, rel=1e-9)
        assert more == pytest.approx(1.8, abs=0.05)


def test_nothing_stated_is_dropped() -> None:
    deviations = [row for row in everything() if row.table == "IX" and row.status == "not_reproducible"]
    assert [row.published for row in deviations] == [14.57, 16.35, 14.76, 7.48, 15.36, 10.22]
    assert all(row.reason for row in everything() if row.status == "not_reproducible")
    assert all(row.holds for row in everything() if row.status == "qualitative")


@pytest.mark.parametrize(
    ("size", "layer", "neurons", "layer_weights"),
    [("small", 0, 3380, 85), ("medium", 0, 13_520, 340), ("large", 4, 3600, 216_100)],
)
def test_layers_are_those_of_figure_2(size: str, layer: int, neurons: int, layer_weights: int) -> None:
    network = phi_network(size)
    assert network.layers[layer].neurons == neurons
    assert weights(network, layer) == layer_weights
    assert network.layers[-1].neurons == 10


@pytest.mark.parametrize(("size", "thousands"), [("small", 5), ("medium", 56), ("large", 137)])
def test_fully_connected_weights_are_the_column_of_table_vii(size: str, thousands: int) -> None:
    network = phi_network(size)
    total = sum(weights(network, i) for i, layer in enumerate(network.layers) if layer.kind == "fully_connected")
    assert round(total / 1000) == thousands


def test_convolutions_follow_from_the_input_of_29_by_29() -> None:
    for size in xeon_phi_study.SIZES:
        side = 29
        for layer in phi_network(size).layers:
            if layer.kind == "convolution":
                side = side - layer.kernel + 1
            elif layer.kind == "pool":
                side //= layer.kernel
            else:
                side = 1
            assert layer.side == side
    macs = sum(float(op.cost.flop) / 2 for op in forward_pass("small") if op.kind == "convolution")
    assert macs == 5 * 26**2 * 4**2 + 10 * 9**2 * 5 * 5**2


def test_measured_times_do_not_answer_a_what_if_on_the_machine(phi: Machine) -> None:
    with pytest.raises(InputError, match="measured times do not answer a what-if on the machine"):
        xeon_phi_study.estimator("b").estimate(phi_cnn("small"), phi.using(clock="2 GHz"), {"threads": 240})


def test_the_range_at_3840_threads_holds_the_line_and_the_published_deviation() -> None:
    answer = xeon_phi_study.calibrated("small").estimate(phi_cnn("small"), xeon_phi_study.phi(), {"threads": 3840})
    low, high = answer.interval(0.8)
    assert low < answer.time < high
    assert answer.spread.parameter < answer.spread.residual
    assert answer.spread.degrees_of_freedom == 5


def test_contention_grows_with_threads_beyond_those_measured(phi: Machine) -> None:
    times = [xeon_phi.minutes("large", "a", threads) for threads in (480, 960, 1920, 3840)]
    assert times == sorted(times, reverse=True)
