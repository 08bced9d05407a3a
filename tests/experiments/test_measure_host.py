"""Measuring a host: sizes, plausibility, the machine that comes out, and the commands."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli import cli
from slipstick.experiments.measure.clocks.timing import Protocol, Timing
from slipstick.experiments.measure.host import host_rates as host
from slipstick.experiments.measure.host import host_topology
from slipstick.experiments.measure.host.host_rates import (
    HostMeasurement,
    HostRate,
    cycle_through,
    level_sizes,
    measure_host,
)
from slipstick.experiments.measure.host.host_topology import detect
from slipstick.hwmodels.importers.lscpu import Cache, Topology
from slipstick.hwmodels.machine_file import load_machine

SMALL = Topology("a host", 2, 1, 1, 1, (Cache("L1", 32768, 2), Cache("L2", 524288, 2)), clock=2e9, memory=8e9)


def test_arrays_live_in_their_level() -> None:
    """Half of a cache, and at most four times the nearer one."""
    sizes = level_sizes(SMALL)
    assert sizes == {"L1": 16384, "L2": 131072, "DRAM": 2097152}


def test_a_part_of_a_shared_cache_is_seen_and_its_path_is_what_the_nearer_one_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A virtual machine that reaches 40 of 260 MiB: beyond them a load comes from main memory."""
    near, far, reached = 30e9, 15e9, 40e6

    def measured(tasks: dict[str, object], protocol: Protocol) -> dict[str, Timing]:
        made = {}
        for size in tasks:
            lost = float(size) ** 6 / (float(size) ** 6 + reached**6)
            value = host.PASSES_OF_A_CACHE * float(size) * ((1 - lost) / near + lost / far)
            made[size] = Timing(value, value, value, 0.01, (value,), 1, 1.0, None, 0.0, 0.0, protocol)
        return made

    monkeypatch.setattr(host, "measure", measured)
    monkeypatch.setattr(host, "compiled", lambda: {"load": lambda *_: 0.0})
    caches = (Cache("L1", 49152, 1), Cache("L2", 2 * 2**20, 1), Cache("L3", 260 * 2**20, 2))
    large = Topology("a host", 2, 1, 1, 1, caches, clock=2e9, memory=8e9)
    speeds = {"L1": 200e9, "L2": 100e9, "L3": near, "DRAM": far}
    rates = [HostRate("bandwidth", level, "load", 1, rate, "byte/s", 0.01) for level, rate in speeds.items()]
    (found,) = host._reached(large, level_sizes(large), rates, Protocol())
    assert found.value == pytest.approx(reached, rel=0.15)
    made = HostMeasurement(large, (*rates, found), Protocol(), "2026-11-30", None).machine()
    assert made.memory["L3"].capacity == found.value
    assert made.memory["L3"].bytes_per_cycle == pytest.approx(1 / (1 / near - 1 / 100e9) / 2e9)
    assert (
        host._reached(large, level_sizes(large), [*rates[:2], rates[3], replace(rates[3], level="L3")], Protocol())
        == []
    )


def test_the_chase_visits_every_place_once() -> None:
    following = cycle_through(1000)
    place, seen = 0, set()
    for _ in range(1000):
        place = int(following[place])
        seen.add(place)
    assert len(seen) == 1000
    assert place == 0


def test_measured_host() -> None:
    pytest.importorskip("numba")
    measured = measure_host(SMALL, Protocol(warmups=1, repeats=3, sample_seconds=5e-4))
    machine = measured.machine()
    assert machine.memory["L1"].latency is not None
    assert machine.memory["DRAM"].latency is not None
    assert machine.memory["L1"].latency < machine.memory["DRAM"].latency * 3
    cores = [cores for cores, _ in machine.memory["DRAM"].bandwidth_by_cores]
    assert cores == [1, 2]
    assert "measured on" in machine.source_of("memory.L1.bytes_per_cycle")
    assert 1e8 < machine.bandwidth("DRAM") < 2e12
    assert machine.peak("vector", "float32") > machine.peak("vector", "float64") > 1e8
    chain = measured.best("dependent addition")
    load = measured.best("bandwidth", "L1", cores=1)
    assert chain is not None and load is not None
    assert 8 / chain < load  # a sum that may not be split waits for each addition


@pytest.mark.parametrize(
    ("loads", "count", "warned"), [((0.4, 0.4, 0.4), 1, False), ((8.0, 0.4, 0.4), 2, False), ((8.0, 8.0, 8.0), 3, True)]
)
def test_a_pass_under_load_is_repeated_and_the_fastest_counts(
    loads: tuple[float, ...], count: int, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[float] = []

    def measured(tasks: dict[str, object], protocol: Protocol) -> dict[str, Timing]:
        load, slow = loads[len(passes)], (3.0, 1.0, 2.0)[len(passes)]
        passes.append(load)
        timing = Timing(slow, slow, slow, 0.01, (slow,), 1, 1.0, (load, load), 0.0, 0.0, protocol)
        return dict.fromkeys(tasks, timing)

    monkeypatch.setattr(host, "measure", measured)
    monkeypatch.setattr(host, "compiled", lambda: dict.fromkeys(host.STREAMS, lambda *_: 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    rates = host._bandwidths({"L1": 16384}, Protocol())
    assert len(passes) == count
    stream = host.STREAMS["load"]
    moved = 16384 // (8 * stream.arrays) * int(4e6 / 16384) * stream.traffic
    assert next(rate for rate in rates if rate.benchmark == "load").value == pytest.approx(
        moved / min((3.0, 1.0, 2.0)[:count])
    )
    flags = [flag for rate in rates for flag in rate.flags]
    assert any("under load (8.0 a core): the fastest of 3 passes" in flag for flag in flags) == warned
    told = (
        HostMeasurement(SMALL, tuple(rates), Protocol(), "today", 8.0).machine().source_of("memory.L1.bytes_per_cycle")
    )
    assert ("under load: may be higher" in told) == warned


def results(value: float) -> tuple[HostRate, ...]:
    return (HostRate("bandwidth", "L1", "load", 1, value, "byte/s", 0.0),)


def test_too_fast_to_be_true_is_refused() -> None:
    host._check_plausible(list(results(3e11)), SMALL)
    with pytest.raises(InputError, match=r"L1 load: measured 3.9e\+13 byte/s, more than 1 cores can move"):
        host._check_plausible(list(results(3.9e13)), SMALL)


def test_unmeasured_levels_keep_their_assumption() -> None:
    machine = HostMeasurement(SMALL, results(1e11), Protocol(), "2026-01-01", None).machine()
    assert machine.memory["L1"].bytes_per_cycle == 50
    assert "assumed" in machine.source_of("memory.L2.bytes_per_cycle")


def test_detection_reads_lscpu_and_falls_back_on_hwloc() -> None:
    xml = (Path(__file__).parents[1] / "data" / "hwloc_two_complexes.xml").read_text()
    fields = {"Model name": "x @ 3.40GHz", "Core(s) per socket": "4", "Thread(s) per core": "2", "Socket(s)": "1"}
    lscpu = json.dumps({"lscpu": [{"field": f"{k}:", "data": v} for k, v in fields.items()]})
    topology = detect(lambda command: lscpu if command[0] == "lscpu" else xml)
    assert [cache.name for cache in topology.caches] == ["L1", "L2", "L3"]
    assert topology.clock == 3.4e9


def test_command_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = Path(__file__).parents[1] / "data" / "kerncraft_cod.yml"
    saved = tmp_path / "cod.yaml"
    assert cli.run(["machines", "import", str(source), "--out", str(saved), "--format", "json"]) == 0
    fields = {row["field"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert fields["clock"] == 2.3e9
    again = load_machine(saved)
    assert again.bandwidth("MEM") == 2 * 1.5 * 17.84e9
    assert cli.run(["machines", "import", str(tmp_path / "nowhere.yml")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_command_import_of_the_hosts_own_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    xml = Path(__file__).parents[1] / "data" / "hwloc_two_complexes.xml"
    assert cli.run(["machines", "import", str(xml), "--clock", "3.4GHz", "--format", "json"]) == 0
    fields = {row["field"]: row["value"] for row in json.loads(capsys.readouterr().out)}
    assert (fields["clock"], fields["cores_per_cluster"]) == (3.4e9, 2)
    assert cli.run(["machines", "import", str(xml)]) == 2
    assert "states no clock" in capsys.readouterr().err
    listed = tmp_path / "box.json"
    entries = {"Model name:": "x @ 2.00GHz", "Core(s) per socket:": "8", "L2 cache:": "8 MiB (8 instances)"}
    listed.write_text(json.dumps({"lscpu": [{"field": k, "data": v} for k, v in entries.items()]}))
    assert cli.run(["machines", "import", str(listed), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["value"] == 2e9
    assert cli.run(["machines", "import", str(tmp_path / "box.ini")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_command_detect(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(host_topology, "detect", lambda clock=None: SMALL)
    assert cli.run(["machines", "detect", "--format", "json"]) == 0
    fields = {row["field"]: row["source"] for row in json.loads(capsys.readouterr().out)}
    assert "assumed" in fields["memory.DRAM.bandwidth"]


def test_command_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = HostMeasurement(SMALL, results(1e11), Protocol(), "2026-01-01", 0.5)
    monkeypatch.setattr(host, "measure_host", lambda *_, **__: measured)
    saved = tmp_path / "host.yaml"
    assert cli.run(["measure", "host", "--out", str(saved), "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert (row["quantity"], row["value"], row["unit"]) == ("bandwidth", 1e11, "byte/s")
    assert load_machine(saved).memory["L1"].bytes_per_cycle == 50


def test_a_latency_is_read_in_nanoseconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rate = HostRate("latency", "L1", "pointer chase", 1, 2.01e-9, "s", 0.0)
    monkeypatch.setattr(host, "measure_host", lambda *_, **__: HostMeasurement(SMALL, (rate,), Protocol(), "now", None))
    assert cli.run(["measure", "host"]) == 0
    said = capsys.readouterr().out
    assert "2.01 ns" in said and "e-09" not in said
