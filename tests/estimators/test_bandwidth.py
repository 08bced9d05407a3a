"""Bandwidth of several cores: laws of the curve, borders of domains, what few cores and other machines say together."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstick.common.errors import InputError
from slipstick.estimators.cpu.multicore_bandwidth import (
    LAW,
    BranchBorders,
    Saturation,
    cores_of_link,
    curve_rows,
    fit_saturation,
    usual,
)
from slipstick.estimators.fitting.fit_model import fit
from slipstick.experiments.calibrate.public_data import training_file, why_missing
from slipstick.experiments.scoreboards.cpu import bandwidth_board as scoreboard
from slipstick.experiments.scoreboards.cpu.bandwidth_data import CATALOG, FILE, MeasuredMachine, read_bandwidths
from slipstick.hwmodels.catalog import machine, machine_names

rates = st.floats(1e9, 5e10)


@given(b=rates, factor=st.floats(0.5, 30), p=st.floats(1, 12), domain=st.integers(1, 32))
def test_never_above_the_limit_nor_above_linear_and_never_falling_inside_a_domain(
    b: float, factor: float, p: float, domain: int
) -> None:
    curve = Saturation(b, b * factor, p, BranchBorders(domain))
    n = np.arange(1, domain + 1)
    found = curve.bandwidth(n)
    assert np.all(found <= b * factor * (1 + 1e-12))
    assert np.all(found <= n * b * (1 + 1e-12))
    assert np.all(np.diff(found) >= -1e-9 * found[:-1])


@given(b=rates, factor=st.floats(0.5, 30), p=st.floats(1, 12), domain=st.integers(2, 16), domains=st.integers(2, 4))
def test_equal_work_over_domains(b: float, factor: float, p: float, domain: int, domains: int) -> None:
    curve = Saturation(b, b * factor, p, BranchBorders(domain))
    full = float(curve.bandwidth(domain))
    assert float(curve.bandwidth(domain * domains)) == pytest.approx(domains * full)
    # a core in a second domain waits for the full one: everybody keeps its pace
    assert float(curve.bandwidth(domain + 1)) == pytest.approx((domain + 1) * full / domain)


def test_a_cluster_is_a_border_of_its_own() -> None:
    free = Saturation(10e9, 100e9, 40.0, BranchBorders(8))
    tight = Saturation(10e9, 100e9, 40.0, BranchBorders(8, cluster=4), cluster_limit=20e9)
    assert float(tight.bandwidth(4)) == pytest.approx(20e9, rel=1e-3)
    assert float(tight.bandwidth(8)) == pytest.approx(40e9, rel=1e-3)
    assert float(free.bandwidth(8)) == pytest.approx(80e9, rel=1e-3)


def test_clusters_of_a_die_have_one_link() -> None:
    """Zen 2's two core complexes of a die reach the memory over one link, Zen's each over its own."""
    assert cores_of_link(machine("epyc-7452"), 8) is None and cores_of_link(machine("epyc-7451"), 6) == 3
    assert cores_of_link(machine("epyc-7452").using({"cores_per_numa": 32}), 32) == 8
    assert cores_of_link(machine("epyc-9654"), 96) == 8 and cores_of_link(machine("xeon-gold-6148"), 20) is None


TRUE = {"copy": Saturation(12e9, 55e9, 3.0, BranchBorders(16)), "load": Saturation(11e9, 62e9, 4.5, BranchBorders(16))}


def points(most: int) -> dict[str, list[tuple[int, float]]]:
    return {k: [(n, float(c.bandwidth(n))) for n in range(1, most + 1)] for k, c in TRUE.items()}


def test_full_curves_give_their_parameters_back() -> None:
    fitted = fit_saturation(points(16), BranchBorders(16))
    for name, true in TRUE.items():
        assert fitted.of(name).limit == pytest.approx(true.limit, rel=0.03)
        assert fitted.of(name).per_core == pytest.approx(true.per_core, rel=0.02)


def test_other_machines_say_where_the_curve_ends() -> None:
    others = []
    for peak, shift in ((60e9, 0.0), (120e9, 0.04), (90e9, -0.03)):
        curves = {
            k: [
                (n, float(Saturation(b, e * peak * np.exp(shift), 3.5, BranchBorders(20)).bandwidth(n)))
                for n in range(1, 21)
            ]
            for k, b, e in (("copy", peak / 8, 0.75), ("load", peak / 9, 0.9))
        }
        others.append(curve_rows(f"{peak:g}", BranchBorders(20, peak=peak), curves))
    prior = usual(fit(LAW, others[0] + others[1] + others[2]))
    limits = prior.values(LAW, {"machine": [""] * 2, "benchmark": ["copy", "load"], "curve": [""] * 2}, 2)["limit"]
    assert limits == pytest.approx([0.75, 0.9], rel=0.08)
    peak = 200e9
    truth = {k: Saturation(8e9, e * peak, 3.5, BranchBorders(32)) for k, e in (("copy", 0.75), ("load", 0.9))}
    first = {k: [(n, float(c.bandwidth(n))) for n in range(1, 5)] for k, c in truth.items()}  # still linear: no hint
    fitted = fit_saturation(first, BranchBorders(32, peak=peak), prior)
    for name, curve in truth.items():
        assert float(fitted.of(name).bandwidth(32)) == pytest.approx(float(curve.bandwidth(32)), rel=0.05)
        low, high = fitted.interval(name, 32)
        assert low[0] < float(curve.bandwidth(32)) < high[0]
        wide = fit_saturation(first, BranchBorders(32), prior).interval(name, 32)
        assert wide[1][0] / wide[0][0] > high[0] / low[0]  # without the data sheet the band is wider


def test_more_cores_measured_make_the_band_narrower() -> None:
    narrow, wide = (fit_saturation(points(most), BranchBorders(16, peak=70e9)) for most in (12, 2))
    widths = [high[0] / low[0] for low, high in (f.interval("copy", 16) for f in (narrow, wide))]
    assert widths[0] < widths[1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: BranchBorders(4, cluster=8), "want 1 <= cluster <= domain"),
        (lambda: BranchBorders(4, peak=0.0), "want a bandwidth above 0"),
        (lambda: fit_saturation({"copy": []}, BranchBorders(4)), "bandwidth of copy: want pairs"),
        (lambda: TRUE["copy"].bandwidth(0), "cores = 0: want 1 or more"),
        (lambda: fit_saturation(points(4), BranchBorders(16)).of("triad"), "no fitted bandwidth of benchmark 'triad'"),
    ],
)
def test_bad_input(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        call()


def test_a_table_with_more_cores_than_the_socket_is_seen() -> None:
    curves = {("MEM", 1): {"copy": tuple((n, 1e9 * n) for n in range(1, 25))}}
    assert "rows for 24 cores of a socket of 8" in MeasuredMachine("x", 8, 8, curves).suspicious
    assert MeasuredMachine("x", 24, 24, curves).suspicious == ""


def test_every_measured_machine_is_in_the_catalogue() -> None:
    assert set(CATALOG.values()) <= set(machine_names())


@pytest.mark.slow
def test_four_cores_predict_the_domain_of_a_machine_never_seen() -> None:
    path = training_file(FILE)
    if path is None:
        pytest.skip(why_missing(FILE))
    machines = {name: m for name, m in read_bandwidths(path).items() if not m.suspicious}
    inside, *_ = scoreboard.scores(machines, machines, threads=1)
    assert len(inside) == 55
    errors = [np.abs(score.errors) for score in inside]
    assert np.mean([error.mean() for error in errors]) <= 0.045
    assert max(error.max() for error in errors) <= 0.2
    for name in scoreboard.BASELINES:
        assert np.mean([np.abs(score.baselines[name]).mean() for score in inside]) > np.mean([e.mean() for e in errors])
