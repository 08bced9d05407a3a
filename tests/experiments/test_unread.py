"""What is set is read, or said: no effect here, something else that bounds, and no place in the answer, told apart."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import slipstick as ss
from slipstick.common.array_types import FloatArray
from slipstick.estimators.base.conditions import release_note
from slipstick.estimators.base.estimate import Estimate
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.question import question
from slipstick.experiments.question.unused_inputs import BOUNDED, NOT_READ, _stays

L2 = "machine.memory.L2.capacity"


def _estimate(workload: str, machine: str, **options: object) -> Estimate:
    answer: Estimate = ss.estimate(workload, machine, **options)  # type: ignore[arg-type]
    return answer


@pytest.mark.parametrize("state", ["hot", "warm", "cold"])
def test_the_state_of_the_caches_moves_no_stencil_of_a_cpu_and_the_answer_says_so(state: str) -> None:
    made = _estimate("jacobi-2d-5pt", "xeon-platinum-8480", settings={"machine.runtime.cache": state})
    assert [(one.name, one.value, one.why) for one in made.not_used] == [("machine.runtime.cache", state, NOT_READ)]
    assert any("not used: machine.runtime.cache" in text for text in made.heads)


@pytest.mark.parametrize("rate", ["0.1 TB/s", "1.5 TB/s"])
def test_a_link_between_devices_moves_no_single_device(rate: str) -> None:
    made = _estimate("gpt2-inference", "h100-dgx", settings={"machine.links.nvswitch.bandwidth": rate})
    assert [one.name for one in made.not_used] == ["machine.links.nvswitch.bandwidth"]


def test_what_is_read_and_bounds_nothing_is_no_dropped_number() -> None:
    made = _estimate("gpt2-inference", "xeon-platinum-8480", settings={L2: "3 MiB"})
    assert not made.not_used
    assert next(one for one in made.conditions if one.name == L2).note == BOUNDED


def test_what_moves_bytes_or_joules_alone_says_so() -> None:
    made = _estimate("gpt2", "h100-sxm", settings={"machine.memory.HBM3.capacity": "100 GB"})
    assert (
        next(one for one in made.conditions if one.name.endswith("capacity")).note == "moves memory there, not the time"
    )
    assert not made.not_used


def test_an_operator_that_is_not_counted_is_a_condition_and_widens() -> None:
    """Half of a network's time by bytes alone cannot be surer than the same network counted whole."""
    counted = ss.workload("gpt2-inference")
    ops = tuple(replace(op, kind="uncounted") if op.kind == "elementwise" else op for op in counted)
    plain = question(counted, "h100-sxm").answer()
    other = question(replace(counted, operations=ops, uncounted=("aten::foo x 12",)), "h100-sxm").answer()
    assert (other.spread.total or 0.0) > (plain.spread.total or 0.0)
    assert [one.value for one in other.conditions if one.name == "not counted"] == ["aten::foo x 12"]


def test_a_word_that_is_the_default_is_used() -> None:
    made = _estimate("gpt2-inference", "h100-sxm", dtype="float32", mode="eager")
    assert not made.not_used and {"dtype", "mode"} <= {one.name for one in made.conditions if one.origin == "given"}


def test_a_formula_says_what_it_reads() -> None:
    """Arithmetic bounds a square product, so that bandwidth changes nothing; the formula holds it."""

    def read(estimator: str, name: str) -> bool:
        asked = question("gemm", "v100-sxm", estimator)
        known = asked.estimator.compile(asked.workload, asked.machine, (name,), asked.run).read
        return known is not None and name in known

    assert not read("roofline", L2) and read("tiled-roofline", L2)
    assert read("roofline", "machine.memory.HBM2.bandwidth") and read("roofline", "workload.m")
    assert not read("roofline", "machine.power.cap") and read("tiled-roofline", "machine.power.cap")


def test_verbs_say_what_is_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["whatif", "gemm", "--on", "a100-sxm-80gb", "--estimator", "roofline", "--vary", f"{L2}=8MiB,128MiB"]
    words = f"not used: {L2}"
    assert run([*asked, "--save", str(tmp_path / "s.toml")]) == 0
    assert words in capsys.readouterr().out
    assert run([*asked, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all([one["name"] for one in row["not_used"]] == [L2] for row in rows)
    assert run([*asked, "--vary", "machine.power.idle=50W,60W"]) == 0
    assert "this answer's time does not read it (energy_J does)" in capsys.readouterr().out.replace("\n  ", " ")
    assert run(["study", "run", str(tmp_path / "s.toml"), "--folder", str(tmp_path / "out")]) == 0
    assert words in capsys.readouterr().err
    assert run(["estimate", "gemm", "--on", "h100-sxm", "--set", "machine.runtime.streams=4", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["not_used"] == [{"name": "machine.runtime.streams", "value": "4", "why": NOT_READ}]
    assert {"name", "value", "origin", "note", "band_factor"} == set(row["conditions"][0])


@pytest.mark.parametrize(
    "words",
    [
        ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--count", "8"],
        ["plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "8", "--batch", "16"],
        ["explain", "gemm", "--on", "h100-sxm"],
        ["estimate", "decode:llama-3.1-8b", "--on", "h100-sxm"],
    ],
)
def test_every_verb_names_a_dropped_number(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    name = "machine.runtime.streams"
    assert run([*words, "--set", f"{name}=4"]) == 0
    assert f"not used: {name} = 4: {NOT_READ}" in capsys.readouterr().out
    assert run([*words, "--set", f"{name}=4", "--format", "json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)[0]["not_used"]] == [name]


def test_a_job_names_what_its_formula_does_not_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The slowest stage's mean decides by formula; the scatter of its service moves the simulated run alone."""
    path, name = tmp_path / "job.yaml", "job.load.variation"
    stages = "[{name: load, service: 3 ms, variation: 0.3}, {name: step, service: 1 ms}]"
    path.write_text(f"name: a loader\nsteps: 20\nruns: 4\nstages: {stages}\n")
    for value in ("0.9", "0.3"):
        assert run(["estimate", str(path), "--set", f"{name}={value}", "--format", "json"]) == 0
        assert [one["name"] for one in json.loads(capsys.readouterr().out)[0]["not_used"]] == [name]
    for setting in (f"{name}=0.9", f"{name}=0.3", "job.load.service=3 ms"):
        assert run(["estimate", str(path), "--simulate", "--set", setting, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["not_used"] == []
    assert run(["whatif", str(path), "--vary", f"{name}=0.1,0.5", "--format", "json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)[0]["not_used"]] == [name]


def test_an_import_refuses_a_clock_that_its_file_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "host.json").write_text("{}")
    assert run(["machines", "import", str(tmp_path / "host.json"), "--clock", "2 GHz"]) == 2
    assert "--clock 2 GHz: not used" in capsys.readouterr().err


def test_a_page_of_a_study_says_what_is_not_read_and_what_passes_the_cap(tmp_path: Path) -> None:
    file, folder = str(tmp_path / "s.toml"), ["--folder", str(tmp_path / "out")]
    vary = ["--vary", "machine.power.cap=300W,1200W", "--save", file]
    assert run(["whatif", "gemm", "--on", "h200-sxm", "--estimator", "roofline", *vary]) == 0
    assert run(["study", "run", file, *folder]) == 0 and run(["study", "report", file, *folder]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "not used: machine.power.cap" in page and "above the power cap at 1 of 2 points" in page


def test_a_release_lies_beside_those_that_were_measured() -> None:
    known = ["0.9.2", "0.10.1", "nightly"]
    assert release_note("0.2", known, "0.9.2") == "older than the measured 0.9.2 .. 0.10.1: answered as 0.9.2"
    assert release_note("0.11", known, "x").startswith("newer") and release_note("0.10", known, "x").startswith(
        "not among"
    )


MACHINES = (
    *("h100-dgx", "mi300x", "apple-m2-max", "xeon-platinum-8480", "epyc-7452", "graviton4", "thunderx2-cn9980"),
    *("xeon-phi-7120p", "tpu-v5e", "tpu-v2-8", "gaudi3", "trainium2"),
)
"""Of all kinds."""
WORK = ("gemm", "mlp-inference", "jacobi-2d-5pt")
FASTER = re.compile(
    r"machine\.(clock|cores|engines\..*flop_per_cycle.*|memory\.[^.]+\.(bandwidth|bytes_per_cycle)|links\..*bandwidth)$"
)
SLOWER = re.compile(r"machine\.(cycles_per_instruction.*|.*latency|runtime\.(issue|launch)_overhead)$")
EVERY = [
    (machine, work, f"machine.{name}", factor)
    for machine in MACHINES
    for work in WORK
    for name, value in ss.machine(machine).numbers.items()
    for factor in (2.0, 0.5)
    if value and value * factor >= 1e-12
]
"""Each numeric field of the machines, set to twice and half."""


def _said_of(machine: str, work: str, name: str, factor: float) -> str:
    """What is wrong with the answer to a field that is set; "" where it moves physically, or says why it does not."""
    value = ss.machine(machine).get(name.removeprefix("machine.")) * factor
    try:
        before = question(work, machine).answer()
        after = _estimate(work, machine, settings={name: value})
    except ss.InputError:
        return ""  # refused in words
    ratio = after.time / before.time
    if abs(ratio - 1) > 1e-9:
        faster = ratio < 1
        wrong = (FASTER.search(name) and faster != (factor > 1)) or (SLOWER.search(name) and faster != (factor < 1))
        return f"time x {ratio:.4g}" if wrong else ""
    moved = before.interval() != after.interval() or before.energy != after.energy
    if moved or name in {one.name for one in after.not_used}:
        return ""
    notes = [one.note for one in after.conditions if one.name == name]
    return "" if any(notes) else "dropped in silence"


def _wrong(cases: list[tuple[str, str, str, float]]) -> list[str]:
    made = ((case, _said_of(*case)) for case in cases)
    return [f"{' '.join(map(str, case))}: {text}" for case, text in made if text]


def test_a_field_that_is_set_moves_the_time_or_is_said() -> None:
    assert not _wrong(random.Random(7).sample(EVERY, 20))


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_every_field_that_is_set_moves_the_time_or_is_said(machine: str) -> None:
    """Each field of a machine once: the work and the factor in turn."""
    cases = [case for case in EVERY if case[0] == machine]
    fields = list(dict.fromkeys(name for _, _, name, _ in cases))
    turn = [[case for case in cases if case[2] == name] for name in fields]
    assert not _wrong([some[place % len(some)] for place, some in enumerate(turn)])


@pytest.mark.parametrize("name", ["xeon-gold-5122", "xeon-phi-7120p", "tpu-v3-8", "h100-sxm"])
def test_a_check_of_a_machine_answers_whatever_engines_it_has(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["machines", "check", name]) == 0
    assert "numbers are read by some answer" in capsys.readouterr().out


def test_a_check_of_a_machine_names_what_reads_each_field(capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel's time stands still for a field that the check says it does not read, and for no other."""
    assert run(["machines", "check", "xeon-platinum-8480", "--format", "json"]) == 0
    readers = {row["field"]: row["read_by"] for row in json.loads(capsys.readouterr().out)}
    machine = ss.machine("xeon-platinum-8480")
    assert readers["memory.DRAM.capacity"].endswith("memory") and "kernel" in readers["clock"]
    before = question("gemm", machine).answer().time
    for field in ("memory.L2.line", "threads_per_core", "runtime.streams", "memory.DRAM.bandwidth", "clock"):
        slower = machine.using({field: type(machine.get(field))(machine.get(field) * 0.5) or 1})
        assert ("kernel" in readers[field]) == (question("gemm", slower).answer().time != before), field


@pytest.mark.parametrize(("count", "stays"), [(3, False), (6, False), (7, True)])
def test_an_axis_that_moves_at_one_corner_of_two_others_is_no_bounded_one(count: int, *, stays: bool) -> None:
    """It moves where the first is at its least and the second at its most; of seven, two corners are looked at."""
    names = tuple(f"machine.n{i}" for i in range(count))

    @dataclass(frozen=True)
    class Formula:
        free = names
        read = None
        vectorised = True
        alone = False

        def __call__(self, values: Mapping[str, npt.ArrayLike]) -> FloatArray:
            first, second, third = (np.asarray(values[name]) for name in names[:3])
            return np.where((first < 2) & (second > 2), third, 1.0)

    assert _stays(Formula(), dict.fromkeys(names, (1.0, 3.0)), names[2]) is stays  # type: ignore[arg-type]
