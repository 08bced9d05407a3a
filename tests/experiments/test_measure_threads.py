"""Measuring threads: contention, programs of one's own, the file between, and clocks that nobody states."""

import json
import queue
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.common.trusted_code import TrustedName
from slipstick.estimators.cpu import thread_file
from slipstick.estimators.cpu.thread_calibration import ThreadMeasurement
from slipstick.experiments.cli import cli
from slipstick.experiments.measure.clocks.core_clock import counted_clock, stated_clock
from slipstick.experiments.measure.host import host_topology
from slipstick.experiments.measure.host.host_topology import detect
from slipstick.experiments.measure.threads import network_threads as training_times
from slipstick.experiments.measure.threads.network_threads import layer_weights, measure_contention, thread_counts
from slipstick.experiments.measure.threads.scaling_runs import is_function, measure_scaling, sizes_of, write_csv
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.importers.cpuinfo import parse_cpufreq, parse_cpuinfo, system_topology
from slipstick.hwmodels.importers.lscpu import Topology
from slipstick.workloads.networks.phi_cnn import all_weights, training_step

ON = machine("epyc-7451")
MEASURED = ThreadMeasurement(
    "net", 6405.0, 431_960.0, ON.clock, ON.name, ON.family or "", ON.fingerprint,
    ((1, 1e-5), (2, 2e-5), (4, 4.1e-5)), ((1, 1.01e-2), (2, 1.02e-2), (4, 1.04e-2)), 3e-3, 7e-3, 0.5, (1.0, 1.6), 24,
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("processor : 0\ncpu MHz\t\t: 2600.000\n\nprocessor : 1\ncpu MHz\t: 3100.5\n", 3100.5e6),
        ("model name\t: Intel(R) Xeon(R) CPU E5 @ 2.30GHz\ncpu MHz\t: 800.000\n", 2.3e9),
        ("clock\t\t: 3550.000000MHz\n", 3.55e9),
        ("cpu MHz\t\t: 0.000\n", None),
        ("processor : 0\nFeatures : fp asimd\n", None),
    ],
)
def test_clock_of_cpuinfo(text: str, clock: float | None) -> None:
    assert parse_cpuinfo(text) == (None if clock is None else pytest.approx(clock))


def test_clock_of_cpufreq_is_in_khz() -> None:
    assert parse_cpufreq("2600000\n") == 2.6e9
    assert parse_cpufreq("unknown") is None
    assert parse_cpufreq("9" * 40) is None


def test_a_host_without_a_stated_clock_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {"Model name": "virtual", "Core(s) per socket": "1", "Thread(s) per core": "1", "Flags": "avx2 fma"}
    said = json.dumps({"lscpu": [{"field": f"{k}:", "data": v} for k, v in fields.items()]})
    said = said[:-2] + ', {"field": "L1d cache:", "data": "32 KiB (1 instance)"}]}'
    monkeypatch.setattr(host_topology, "stated_clock", lambda: (2.6e9, "/proc/cpuinfo"))
    assert detect(lambda _: said).machine("host").source_of("clock") == "/proc/cpuinfo"
    monkeypatch.setattr(host_topology, "stated_clock", lambda: None)
    monkeypatch.setattr(host_topology, "counted_clock", lambda: 3.1e9)
    counted = detect(lambda _: said).machine("host")
    assert counted.clock == 3.1e9
    assert counted.source_of("clock") == "counted by a chain of dependent additions"
    assert detect(lambda _: said, clock=2e9).clock == 2e9


def test_the_system_without_lscpu(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "index0"
    cache.mkdir(parents=True)
    for name, text in {"level": "1", "type": "Data", "size": "48K", "shared_cpu_list": "0-1"}.items():
        (cache / name).write_text(text)
    (tmp_path / "topology").mkdir()
    (tmp_path / "topology" / "thread_siblings_list").write_text("0-1\n")
    info = tmp_path / "cpuinfo"
    info.write_text("model name\t: bare\nflags\t\t: fpu fma avx2\n")
    found = system_topology(8, 1e9, tmp_path, info)
    assert (found.cores, found.threads_per_core, found.model) == (4, 2, "bare")
    assert found.caches[0].capacity == 48 * 1024
    assert found.caches[0].instances == 4
    assert stated_clock(info, tmp_path) is None
    assert replace(found, clock=1e9).machine().cores == 4


def test_a_core_is_counted_at_a_clock_that_cores_have() -> None:
    pytest.importorskip("numba")
    assert 5e8 < counted_clock() < 8e9


def test_contention_of_a_network_here() -> None:
    pytest.importorskip("numba")
    layers = layer_weights(training_step("small"))
    assert sum(layers) == all_weights("small")
    one, two = measure_contention(layers, (1, 2), repeats=3)
    assert one.threads == 1
    assert 0 < one.seconds < 0.1
    assert two.seconds > 0.5 * one.seconds
    with pytest.raises(InputError, match="threads = 0"):
        measure_contention(layers, (0,))


def test_counts_and_sizes_as_text() -> None:
    assert thread_counts("1..8") == (1, 2, 4, 8)
    assert thread_counts("1..6") == (1, 2, 4, 6)
    assert thread_counts("6,1,2") == (1, 2, 6)
    assert sizes_of(["n=10,20"]) == {"n": (10.0, 20.0)}
    for text in ("8..1", "a", "", "0"):
        with pytest.raises(InputError):
            thread_counts(text)
    for size in ("n", "threads=2", "n=-1", "n=a"):
        with pytest.raises(InputError):
            sizes_of([size])


def test_a_program_of_ones_own_by_threads_and_size(tmp_path: Path) -> None:
    program = f"{sys.executable} -c \"import os; assert os.environ['OMP_NUM_THREADS'] == '{{threads}}'; {{n}}\""
    runs = measure_scaling(program, (1, 2), {"n": (10.0, 20.0)}, repeats=1)
    assert [dict(run.point) for run in runs][:2] == [{"threads": 1.0, "n": 10.0}, {"threads": 1.0, "n": 20.0}]
    assert all(run.seconds > 0 for run in runs)
    write_csv(runs, tmp_path / "times.csv")
    assert (tmp_path / "times.csv").read_text().startswith("threads,n,rep,time_s,cpu_time_s\n")
    assert is_function("package.module:function")
    assert not is_function("./stencil 10")
    with pytest.raises(InputError, match="failed with exit code 3"):
        measure_scaling(f"{sys.executable} -c 'raise SystemExit(3)'", (1,), {}, 1)
    with pytest.raises(InputError, match="no such command"):
        measure_scaling("no-such-program-here", (1,), {}, 1)


def test_cpu_time_of_a_function_is_that_of_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sleeping takes wall time alone; a loop takes as much CPU time as it says itself; extrapolation reads either."""
    (tmp_path / "own_loop.py").write_text(
        "import time\ndef work(n):\n    time.sleep(0.2)\n    end = time.thread_time() + n / 100\n"
        "    while time.thread_time() < end:\n        pass\n"
        "def ended(n):\n    import threading\n    one = threading.Thread(target=work, args=(n,))\n"
        "    one.start()\n    one.join()\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["measure", "scaling", "own_loop:work", "--threads", "1", "--size", "n=3,5,8", "--repeats", "1"]
    assert cli.run([*command, "--out", "own.csv", "--format", "json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        assert row["time_s"] > row["cpu_time_s"] + 0.15
        assert row["cpu_time_s"] == pytest.approx(row["n"] / 100, rel=0.15, abs=0.01)
        assert row["busiest_time_s"] == pytest.approx(row["cpu_time_s"], rel=0.1, abs=0.005)
    assert cli.run(["extrapolate", "own.csv", "--column", "busiest_time_s", "--to", "n=10", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["predictions"][0]["time_s"] == pytest.approx(0.1, rel=0.25)
    assert cli.run(["extrapolate", "own.csv", "--to", "n=10"]) == 0
    ended = measure_scaling("own_loop:ended", (1,), {"n": (5.0,)}, 1)[
        0
    ]  # the kernel may list the thread a moment longer
    assert ended.busiest is None or ended.busiest == pytest.approx(ended.cpu, rel=0.1, abs=0.005)


def test_short_functions_are_called_until_clocks_can_tell_and_threads_wait_asleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that takes so much of its thread's CPU time says itself what is to be measured."""
    (tmp_path / "own_short.py").write_text(
        "import os, time\ndef work(ms, policy):\n"
        "    assert os.environ['OMP_WAIT_POLICY'] == ('PASSIVE', 'ACTIVE')[policy - 1]\n"
        "    end = time.thread_time() + ms / 1000\n    while time.thread_time() < end:\n        pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    (short,) = measure_scaling("own_short:work", (1,), {"ms": (2.0,), "policy": (1.0,)}, repeats=1)
    # Of one call: at least its own clock's 2 ms, and never a whole step of a coarse clock (10 ms) more.
    assert 0.0015 < short.cpu < 0.013
    assert short.busiest is None or 0.0015 < short.busiest < 0.013
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    measure_scaling("own_short:work", (1,), {"ms": (2.0,), "policy": (2.0,)}, repeats=1)


def test_the_file_of_a_measuring_answers_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "threads.json"
    thread_file.save(MEASURED, path)
    assert thread_file.from_fields(json.loads(path.read_text()), path) == MEASURED
    question = ["estimate", "mlp", "--on", "epyc-7451", "--estimator", "threads-counted", "--format", "json"]
    assert cli.run([*question, "--calibration", str(path), "--set", "run.images=1000"]) == 0
    answer = json.loads(capsys.readouterr().out)[0]
    assert answer["low_s"] < answer["time_s"] < answer["high_s"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": "other"}, "schema"),
        ({"contention": [[1]]}, "contention.0.1. is missing"),
        ({"contention": [[0, 1.0]]}, "whole number >= 1"),
        ({"contention": [[1, "x"]]}, "contention.0.1 = .x.: want a number"),
        ({"training": []}, "want at least one"),
        ({"clock": -1.0}, "finite and > 0"),
        ({"cores": 2.5}, "cores = 2.5: want a whole number"),
    ],
)
def test_a_broken_file_is_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    path = tmp_path / "threads.json"
    thread_file.save(MEASURED, path)
    with pytest.raises(InputError, match=words):
        thread_file.from_fields({**json.loads(path.read_text()), **change}, path)


def test_a_topology_says_how_its_clock_was_got() -> None:
    host = Topology("m", 1, 1, 1, 1, (), clock=1e9, memory=1e9, clock_source="cpufreq: base_frequency")
    assert host.machine().source_of("clock") == "cpufreq: base_frequency"


OWN = """
import multiprocessing, os
from torch import nn

class Mine(nn.Sequential):
    pass

def mine():
    return Mine(nn.Flatten(), nn.Linear(16, 4), nn.Tanh(), nn.Linear(4, 2))

def gone():
    if multiprocessing.parent_process() is not None:
        os._exit(9)
    return mine()

def wrong():
    if multiprocessing.parent_process() is not None:
        raise ValueError("no such thing in a worker")
    return mine()
"""


@pytest.mark.slow
def test_an_own_module_of_a_fresh_folder_is_trained_by_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_network_here.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    times = training_times.measure_training(
        TrustedName("own_network_here:mine"), (2,), ("batch,16",), images=3, repeats=1
    )
    assert [one.threads for one in times] == [2] and times[0].seconds > 0
    for name, words in (("gone", "ended without an answer (exit code 9)"), ("wrong", "no such thing in a worker")):
        start = time.monotonic()
        with pytest.raises(InputError, match=re.escape(words)):
            training_times.measure_training(
                TrustedName(f"own_network_here:{name}"), (2,), ("batch,16",), images=3, repeats=1
            )
        assert time.monotonic() - start < 120  # starting two processes with torch; it was 600 s


@dataclass
class Worker:
    exitcode: int | None


@pytest.mark.parametrize(
    ("codes", "there", "words"),
    [
        ((None, -9), [], "exit code -9: killed, perhaps for want of memory"),
        ((0, 0), [0.5], "ended without an answer (exit code 0)"),
        ((None, None), [0.5, "ValueError: mine at my.py:3: x"], "a training process failed: ValueError: mine"),
        ((0, None), [0.5, 0.25], ""),
    ],
)
def test_a_worker_that_is_gone_is_noticed_at_once(
    codes: tuple[int | None, ...], there: list[object], words: str
) -> None:
    answers: queue.Queue[object] = queue.Queue()
    for one in there:
        answers.put(one)
    workers = [Worker(code) for code in codes]
    if not words:
        assert training_times._answers("my:net", workers, answers) == there
        return
    with pytest.raises(InputError, match=re.escape(words)):
        training_times._answers("my:net", workers, answers)
