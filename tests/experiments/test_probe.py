"""A minute on a processor: what it fits is found again, and what it never saw is foretold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.symbolic.formula import parameters
from slipstick.experiments.calibrate.probing import probe as probing
from slipstick.experiments.calibrate.probing.probe import EXPECTED, Probe, ProbeRow, cpu_rows, probe, scale_of
from slipstick.experiments.measure.clocks.timing import Protocol, Timing, measure
from slipstick.workloads.layers.single import dense
from slipstick.workloads.layers.single import pool as pooled

MADE = {"gemm.compute_efficiency": 0.5, "gemm.memory_efficiency": 0.3, "convolution.compute_efficiency": 0.6,
        "other.memory_efficiency": 0.6, "norm.compute_efficiency": 0.05}  # fmt: skip


def _timing(seconds: float) -> Timing:
    return Timing(seconds, seconds, seconds, 0.0, (seconds,), 1, 1.0, None, 0.0, 0.0, Protocol())


@cache
def faked_probe(seconds: float = 600.0) -> Probe:
    """A host that is the formula with shares of its own, and 5 % of noise."""
    machine, model = ss.machine("epyc-9654").using(cores=1), ss.estimator("cpu-kinds").model
    values = {name: value for name, (value, _) in parameters(model).items()}
    truth = model.with_parameters(
        {**values, **{f"operation.kinds.{name}": value for name, value in {**EXPECTED, **MADE}.items()}}
    )
    noise = np.random.default_rng(2)

    def timed(rows: Sequence[ProbeRow]) -> Mapping[str, Timing]:
        return {
            row.name: _timing(truth.estimate(row.workload, machine).time * math.exp(noise.normal(0, 0.05)))
            for row in rows
        }

    return probe(seconds, machine=machine, timed=timed)


@pytest.fixture(scope="module")
def faked() -> Probe:
    return faked_probe()


def test_shares_are_found_again(faked: Probe) -> None:
    fitted = faked.calibration.values
    for name, value in MADE.items():
        # the peak is taken from the fastest product seen, so that shares of arithmetic are of that
        scale = 1.0
        if name.endswith("compute_efficiency"):
            scale = ss.machine("epyc-9654").using(cores=1).peak("vector", "float32") / faked.machine.peak(
                "vector", "float32"
            )
        assert fitted[f"operation.kinds.{name}"] == pytest.approx(value * scale, rel=0.25), name


def test_all_the_time_takes_every_row(faked: Probe) -> None:
    assert len(faked.rows) == faked.offered
    assert faked.typical_error() < 0.1


def test_little_time_takes_the_rows_that_teach_most_and_widens_the_band(faked: Probe) -> None:
    """Five rows say little of forty shares: an unseen product and a pool have wider bands than all rows leave."""
    few = faked_probe(1e-3)
    assert len(few.rows) == 5 < few.offered
    pool = ss.Workload("pool", (pooled("pool", 4, 64, (2, 2), (40, 40)),))
    product = ss.Workload("unseen", (dense("unseen", 300, 700, 900),))
    for one in (pool, product):
        widths = []
        for made in (few, faked):
            low, high = made.calibration.estimate(one, made.machine).interval(0.8)
            widths.append(math.sqrt(high / low))
        assert widths[0] > 1.2 * widths[1]


def test_the_budget_holds_with_time_left_for_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group takes ten seconds, half of them waiting: after 40 of 56, ten more and a fit of 25 rows are too long."""
    clock = [0.0]
    monkeypatch.setattr(probing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(probing.time, "process_time", lambda: clock[0] / 2)

    def timed(rows: Sequence[ProbeRow]) -> Mapping[str, Timing]:
        clock[0] += 2.0 * len(rows)
        return {row.name: _timing(1e-3) for row in rows}

    made = probe(56.0, machine=ss.machine("epyc-9654").using(cores=1), timed=timed)
    assert len(made.rows) == 20 and made.seconds == 40.0 and len(made.rows) < made.offered


def test_the_scale_of_students_t_is_found() -> None:
    """Of draws from it, with one in fifty thrown far off."""
    drawn = 0.1 * np.random.default_rng(1).standard_t(4, 4000)
    assert scale_of(drawn, rows=0) == pytest.approx(0.1, rel=0.05)
    drawn[::50] = 3.0
    assert scale_of(drawn, rows=0) < 0.13


def test_the_files_answer_later_questions(faked: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slipstick.estimators.fitting.calibration_file import save
    from slipstick.hwmodels.machine_file import save_machine

    save_machine(faked.machine, tmp_path / "host.yaml")
    save(faked.calibration, "cpu-kinds", tmp_path / "host.json")
    with pytest.warns(UserWarning, match="hardly meant"):  # a server's memory beside one of its cores
        machine = ss.load_machine(tmp_path / "host.yaml")
    known = ss.read_calibration(str(tmp_path / "host.json"))
    product = ss.Workload("unseen", (ss.operations.dense("unseen", 300, 700, 900),))
    estimate = known.estimate(product, machine)
    low, high = estimate.interval(0.8)
    assert low < faked.calibration.estimate(product, faked.machine).time < high
    assert high / low < 1.6


def test_threads_beyond_the_host_are_refused() -> None:
    with pytest.raises(InputError, match="threads = 5000: want 1 to"):
        probe(1.0, threads=5000)


@pytest.mark.slow
def test_a_minute_here_foretells_what_it_never_saw() -> None:
    """GEMM, stream, a network of convolutions and a transformer: within 15 % at the median (figures: docs/notes)."""
    torch = pytest.importorskip("torch")
    from tests.experiments.own_networks import cnn, transformer

    found = probe(60.0)
    rows = {
        "gemm": (ss.Workload("gemm", (ss.operations.dense("gemm", 200, 1000, 1500),)), _linear(torch, 200, 1000, 1500)),
        "stream": (
            ss.Workload("add", (ss.operations.elementwise("add", 6_000_000, inputs=2, memory="kept"),)),
            _add(torch, 6_000_000),
        ),
    }
    for name, (net, x) in {"cnn": cnn(), "transformer": transformer()}.items():
        rows[name] = (ss.import_torch(net, (x,), name, purpose="inference"), lambda net=net, x=x: net(x))
    torch.set_num_threads(1)
    with torch.inference_mode():
        times = measure({name: call for name, (_, call) in rows.items()}, Protocol(repeats=7))
    errors = {}
    for name, (workload, _) in rows.items():
        estimate = found.calibration.estimate(workload, found.machine)
        low, high = estimate.interval(0.8)
        errors[name] = times[name].minimum / estimate.time
        print(f"{name}: measured / calibrated {errors[name]:.3f}, band x{math.sqrt(high / low):.2f}")
    assert float(np.median([abs(math.log(value)) for value in errors.values()])) < math.log(1.15)


def _linear(torch, rows: int, inputs: int, outputs: int):  # type: ignore[no-untyped-def]
    x, weights = torch.randn(rows, inputs), torch.randn(outputs, inputs)
    return lambda: torch.nn.functional.linear(x, weights)


def _add(torch, elements: int):  # type: ignore[no-untyped-def]
    x, y, out = torch.randn(elements), torch.randn(elements), torch.empty(elements)
    return lambda: torch.add(x, y, out=out)


def test_rows_have_names_of_their_own() -> None:
    rows = cpu_rows()
    assert len({row.name for row in rows}) == len(rows) >= 35
