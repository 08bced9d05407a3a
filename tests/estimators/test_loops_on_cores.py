"""Streams by threads: limits of the saturation law, measured curves, refusals, public bandwidths of a CPU left out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.cpu.layer_conditions import LayerConditions
from slipstick.estimators.cpu.saturating_loops import STREAMS as KIND
from slipstick.estimators.cpu.saturating_loops import shipped
from slipstick.estimators.fitting.source_effects import source_effect
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.question.estimator_builders import loops_lack
from slipstick.experiments.question.question import question
from slipstick.experiments.scoreboards.cpu.bandwidth_data import FILE, read_bandwidths
from slipstick.experiments.scoreboards.cpu.loop_scores import loop_rows

GOLD, COD = ss.machine("xeon-gold-6148"), ss.machine("xeon-e5-2695v3-cod")
TRIAD = ss.workload("stream-triad")
LOOPS = ss.estimator("loops")


def rate(machine: ss.Machine, threads: int, size: float = 1e8) -> float:
    """Bytes/s of the triad between fork and join: two arrays read, one loaded and stored, eight bytes each."""
    answer = LOOPS.estimate(TRIAD, machine, {"threads": threads, "x": size})
    return 32 * size / (answer.time - answer.fixed)


def test_a_full_domain_nears_its_share_of_the_data_sheet_and_a_second_one_doubles_it() -> None:
    limit = LOOPS.parameters["operation.efficiency"][0] * COD.bandwidth("DRAM") / 2
    assert 0.9 * limit < rate(COD, 7) <= limit
    assert rate(COD, 14) == pytest.approx(2 * rate(COD, 7), rel=1e-9)
    # in a second domain too the full one decides: its cores are slowest
    assert rate(COD, 8) == pytest.approx(8 / 7 * rate(COD, 7), rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 19))
def test_another_core_of_a_domain_never_slows_and_never_more_than_adds_its_part(threads: int) -> None:
    one, two = rate(GOLD, threads), rate(GOLD, threads + 1)
    assert one * (1 - 1e-12) <= two <= one * (threads + 1) / threads * (1 + 1e-12)


def test_a_what_if_over_threads_and_clock_is_the_estimate_at_each_point() -> None:
    table = ss.whatif(
        TRIAD, GOLD, {"run.threads": [1, 20], "machine.clock": [1.2e9, 2.4e9]}, settings={"run.threads": 20}
    ).frame
    for threads, clock, time in zip(table["run.threads"], table["machine.clock"], table["time_s"], strict=True):
        one = LOOPS.estimate(TRIAD, GOLD.using({"clock": clock}), {"threads": threads}).time
        assert time == pytest.approx(one, rel=1e-12)
    assert table["time_ratio"].max() > 4


def test_where_caches_hold_all_cores_divide_the_cycles() -> None:
    """Vectors of 2.4 KB in caches of 32 KiB, which lose 2e-7 of them."""
    alone = LOOPS.estimate(TRIAD, GOLD, {"threads": 1, "x": 100}).time
    bound = TRIAD.bind_known({"x": 100})
    assert alone == pytest.approx(float(LayerConditions(1).times(bound.operations, GOLD)[0]))
    four = LOOPS.estimate(TRIAD, GOLD, {"threads": 4, "x": 100})
    assert four.time - four.fixed == pytest.approx(alone / 4)


def test_a_short_loop_on_threads_takes_a_barrier() -> None:
    """EPCC's OpenMP benchmarks put a barrier at about a microsecond; one thread waits for nobody."""
    few, many = (LOOPS.estimate(TRIAD, GOLD, {"threads": n, "x": 1000}) for n in (1, 20))
    alone, band = few.interval(), many.interval()
    assert alone is not None and band is not None
    assert alone[1] < 1.5 * few.time and few.fixed == 0
    assert 1e-6 <= many.time < 1.1e-6 and many.fixed == 1e-6 and band[0] < 0.4e-6 and band[1] > 2.5e-6
    assert many.time == pytest.approx(many.fixed + sum(part.contribution for part in many.parts), rel=1e-12)
    assert any("fork and join of 20 threads" in text for text in many.assumptions)
    assert not any("fork" in text for text in few.assumptions)
    said = ss.estimate("stream-triad", GOLD, settings={"estimator.operation.write_allocate": 1.0}, threads=20)
    known = math.hypot(shipped().scatter, source_effect(KIND).deviation)
    assert said.spread.total == pytest.approx(known, rel=1e-3)


@pytest.mark.parametrize(("stream", "traffic"), [("stream-triad", 4 / 3), ("stream-copy", 3 / 2)])
def test_streaming_stores_are_a_condition_with_its_factor_in_the_band(stream: str, traffic: float) -> None:
    """McCalpin's STREAM counts 24 and 16 bytes an element; a store that allocates its line moves 32 and 24."""
    name = "estimator.operation.write_allocate"
    unsaid, streamed, loaded = (
        ss.estimate(stream, GOLD, settings={} if share is None else {name: share}, threads=20, x=10**9)
        for share in (None, 0.0, 1.0)
    )
    assert unsaid.time == loaded.time
    assert loaded.time / streamed.time == pytest.approx(traffic, rel=1e-3)
    assert [one.origin for one in unsaid.conditions if one.name == name] == ["unknown"]
    assert [one.origin for one in streamed.conditions if one.name == name] == ["given"]
    assert unsaid.spread.total == pytest.approx(math.hypot(loaded.spread.total, math.log(traffic) / 2), rel=1e-3)
    assert not any(one.name == name for one in ss.estimate("daxpy", GOLD).conditions), "daxpy reads what it writes"


CPUS = [name for name in ss.machine_names() if not loops_lack(ss.machine(name))]
STREAMS = ("stream-copy", "stream-triad", "daxpy")


@given(st.sampled_from(CPUS), st.sampled_from(STREAMS), st.floats(0, 10), st.data())
def test_more_threads_slow_a_stream_by_a_barrier_at_most_and_a_shared_cache_holds_what_it_holds_for_one(
    name: str, stream: str, size: float, data: st.DataObject
) -> None:
    on, workload = ss.machine(name), ss.workload(stream)
    few = data.draw(st.integers(1, on.cores))
    more = data.draw(st.integers(few, on.cores))
    answers = (LOOPS.estimate(workload, on, {"threads": n, "x": round(10**size)}) for n in (few, more))
    one, two = (answer.time - answer.fixed for answer in answers)
    assert two <= one * (1 + 1e-9)
    assert min(one, two) >= 0.999 / on.clock  # however few elements: a line takes one core a cycle at least


@pytest.mark.parametrize("threads", [1, 10, 20])
def test_arrays_that_the_shared_cache_holds_never_come_from_main_memory(threads: int) -> None:
    """2.4 MB in 27.5 MB: each of 20 cores sweeps 0.12 MB, the times stay in proportion."""
    times = [LOOPS.estimate(TRIAD, GOLD, {"threads": n, "x": 1e5}).time for n in (1, threads)]
    assert times[1] * threads <= times[0] * (1 + 1e-9)


def test_a_measured_curve_goes_before_the_data_sheet_and_says_what_lies_beyond() -> None:
    """Four measured cores of a Gold 6148 as its own law would have them: 13 GB/s a core, 100 GB/s, exponent 3."""
    points = [(n, n * 13e9 / (1 + (n * 13e9 / 100e9) ** 3) ** (1 / 3)) for n in (1, 2, 4, 10)]
    measured = GOLD.using({"memory.DRAM.bandwidth_by_cores": points})
    for cores, bandwidth in points:
        assert rate(measured, cores) == pytest.approx(bandwidth, rel=0.06)
    assert rate(measured, 20) == pytest.approx(100e9, rel=0.1)
    near, far = (LOOPS.estimate(TRIAD, measured, {"threads": n}).interval() for n in (2, 20))
    assert near is not None and far is not None
    assert math.log(far[1] / far[0]) > math.log(near[1] / near[0])


def test_loops_are_answered_by_default_on_cpus_that_say_enough() -> None:
    found = question("jacobi-2d-5pt", "xeon-gold-6148", settings={"run.threads": 8})
    assert found.estimator == LOOPS and "layer conditions" in found.why
    assert found.answer().interval() is not None
    assert question("stream-triad", "v100-sxm").estimator != LOOPS
    assert question("stream-triad", "xeon-phi-7120p").estimator != LOOPS  # no stream was seen on a many-core processor
    load = ss.workload("daxpy")  # no store of it streams
    wide, usual = (LOOPS.estimate(load, ss.machine(name)).spread.total or 0 for name in ("xeon-phi-7120p", "epyc-7452"))
    others = source_effect(KIND).deviation
    assert wide**2 - others**2 > 2**2 * (usual**2 - others**2)
    bare = GOLD.using({"memory.L3.bytes_per_cycle": None, "memory.L3.bandwidth": 1e12})
    assert question("stream-triad", bare).estimator != LOOPS
    with pytest.raises(InputError, match="cores = 21"):
        LOOPS.estimate(TRIAD, GOLD, {"threads": 21})


@pytest.mark.parametrize("stream", [*STREAMS, "jacobi-2d-5pt"])
def test_floats_of_half_the_size_halve_the_traffic_of_a_stream_and_other_types_are_refused(stream: str) -> None:
    long = {"x": 1e3, "y": 4e6} if stream == "jacobi-2d-5pt" else {"x": 4e9}  # 384 MB of cache hold nothing of it
    wide, narrow = (question(stream, "epyc-9654", dtype=name, **long).answer().time for name in ("float64", "float32"))
    assert narrow == pytest.approx(wide / 2, rel=1e-3)
    assert question(stream, "epyc-9654", **long).answer().time == wide
    with pytest.raises(InputError, match="in bfloat16: its arithmetic is not modelled"):
        question(stream, "epyc-9654", dtype="bfloat16").answer()


def test_streams_of_a_cpu_left_out_beat_the_corner_and_bytes_over_bandwidth() -> None:
    path = training_file(FILE)
    if path is None:
        pytest.skip("no public measurements here (set SLIPSTICK_DATA)")
    machines = read_bandwidths(path)
    out = "SkylakeSP_Gold-6148"
    row, _ = loop_rows(machines, {out: machines[out]}, "bandwidth")
    assert row.ours < min(value for value in row.baselines.values() if value is not None)
    assert row.ours < 0.12 and (row.interval_coverage or 0) > 0.7


def test_a_kernel_on_a_many_core_processor_is_no_network_of_images() -> None:
    """A product with 60 threads took 1.7 min, as a network of one image and one epoch; without threads 10 ms."""
    with pytest.raises(InputError, match=r"unknown number of the run .*run\.threads"):
        question("gemm", "xeon-phi-7120p", settings=["run.threads=60"]).answer()
    assert question("gemm", "xeon-phi-7120p").answer().time > 0
