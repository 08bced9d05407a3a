"""What people paste daily is recognised, with the figures of its own text; every verb knows the others' files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.replay.machine_files import imported_machine, topology
from slipstick.experiments.replay.read_files import read_any
from slipstick.workloads.catalog import workload
from slipstick.workloads.importers.detect import import_file
from slipstick.workloads.importers.formats.registry import COMMANDS, FORMATS, identify
from tests import files_made, pasted
from tools.formats import PAGE, page_with_formats

KEYS = {
    "vllm.txt": "vllm-bench", "sglang.txt": "vllm-bench", "trtllm.txt": "vllm-bench", "trtllm.json": "vllm-bench",
    "genai.json": "vllm-bench", "aiperf.json": "vllm-bench", "guidellm.json": "vllm-bench",
    "one-batch.jsonl": "vllm-bench", "batched.md": "vllm-bench", "ollama.txt": "vllm-bench",
    "ollama.json": "vllm-bench", "llama-timings.txt": "vllm-bench", "llama-log.md": "llama-bench",
    "kern-sum.csv": "summary", "old-kern-sum.csv": "summary", "rocprof-stats.csv": "summary",
    "rocprof-kernels.csv": "summary", "nvprof.csv": "summary", "torch-table.txt": "summary", "smi.csv": "telemetry",
    "dmon.txt": "telemetry", "sacct.json": "slurm", "sacct-bare.txt": "slurm", "talpas.txt": "extrap-lines",
    "extrap.json": "extrap-json", "hyperfine.csv": "hyperfine-csv", "lscpu.txt": "lscpu", "lstopo.txt": "hwloc",
    "lstopo.xml": "hwloc", "cpuinfo.txt": "cpuinfo", "kerncraft-tags.yml": "kerncraft", "scan.hlo": "hlo",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in pasted.PASTED.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_is_recognised_by_its_content(folder: Path) -> None:
    assert {name: getattr(identify(folder / name), "key", None) for name in pasted.PASTED} == KEYS


def rows(path: Path) -> list[Mapping[str, Any]]:
    return list(read_any(str(path)).rows)


@pytest.mark.parametrize(
    ("name", "users", "tokens", "first", "further", "rate"),
    [
        ("vllm.txt", 16, (1024, 128), 0.18213, 0.0231, 656.41),
        ("sglang.txt", 8, (1024, 128), 0.096, None, 409.6),
        ("trtllm.txt", 95, (128, 128), 0.1626706, 0.0073272, 11076.77),
        ("trtllm.json", 95, (128, 128), 0.1626706, 0.0073272, 11076.77),
        ("genai.json", 4, (1024, 128), 0.06, 0.0125, 307.2),
        ("aiperf.json", 4, (1024, 128), 0.06, 0.0125, 307.2),
        ("guidellm.json", 8, (512, 128), 0.09, 0.015, 256.0),
        ("one-batch.jsonl", 1, (1024, 128), 0.021, 0.0076, None),
        ("batched.md", 1, (512, 32), 0.211, 1 / 132.94, None),
        ("ollama.txt", 1, (26, 298), 0.1305, 1 / 60, None),
        ("ollama.json", 1, (26, 298), 0.1305, 1 / 60, None),
        ("llama-timings.txt", 1, (26, 298), 0.1305, 1 / 60, None),
    ],
)
def test_figures_of_servers_are_those_of_the_text(
    folder: Path,
    name: str,
    users: int,
    tokens: tuple[int, int],
    first: float,
    further: float | None,
    rate: float | None,
) -> None:
    row = rows(folder / name)[0]
    assert (row["users"], row["input_tokens"], row["output_tokens"]) == (users, *tokens)
    assert row["ttft_s"] == pytest.approx(first)
    assert row["tpot_s"] == (None if further is None else pytest.approx(further, rel=1e-6))
    if rate is not None:
        assert row["output_tokens_per_s"] == pytest.approx(rate)
    (command,) = read_any(str(folder / name)).commands
    assert f"--concurrency {users} --input-tokens {tokens[0]} --output-tokens {tokens[1]} --length-range 0" in command


def test_what_a_file_does_not_say_is_not_made_up(folder: Path) -> None:
    """GenAI-Perf's older JSON states rates alone, AIPerf's the count of requests."""
    assert [rows(folder / name)[0]["requests"] for name in ("genai.json", "aiperf.json")] == [None, 48]


@pytest.mark.parametrize("name", ["kern-sum.csv", "rocprof-stats.csv", "nvprof.csv", "torch-table.txt"])
def test_summaries_add_up_to_the_shares_of_their_tool(folder: Path, name: str) -> None:
    shares = {"kern-sum.csv": (0.625, 0.375), "rocprof-stats.csv": (0.75, 0.25), "nvprof.csv": (0.8, 0.2)}
    made = rows(folder / name)
    assert [row["share"] for row in made] == pytest.approx(list(shares.get(name, (0.75, 0.25))))
    wanted = {"kern-sum.csv": 8e-4, "rocprof-stats.csv": 2e-3, "nvprof.csv": 2e-3, "torch-table.txt": 8e-4}
    assert sum(row["time_s"] for row in made) == pytest.approx(wanted[name])


def test_a_table_of_pytorch_of_today(tmp_path: Path) -> None:
    """The library that writes the table says the times: those without what an operation calls."""
    torch = pytest.importorskip("torch")
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        x = torch.ones(64, 64)
        for _ in range(3):
            x = (x @ x).relu() / 64
    averages = recorded.key_averages()
    path = tmp_path / "table.txt"
    path.write_text(averages.table(sort_by="self_cpu_time_total", row_limit=100))
    made = {row["region"]: row for row in rows(path)}
    for one in averages:
        if one.key in made and one.self_cpu_time_total > 1:
            assert made[one.key]["count"] == one.count
            assert made[one.key]["time_s"] == pytest.approx(one.self_cpu_time_total * 1e-6, rel=0.01, abs=1e-8)
    assert "aten::mm" in made


def test_devices_report_means_of_what_they_said(folder: Path) -> None:
    found = read_any(str(folder / "smi.csv"))
    power = next(row for row in found.rows if row["quantity"] == "power.draw")
    assert (power["unit"], power["mean"], power["samples"]) == ("W", 390.0, 2)
    assert "1 cells without a value left out" in found.line
    assert found.commands == ("slipstick estimate WORKLOAD --on a100-sxm-80gb --set machine.clock=1410MHz",)
    lines = list(csv.reader(io.StringIO(pasted.SMI), skipinitialspace=True))
    busy = [float(row[2].removesuffix(" %")) for row in lines[1:]]
    assert next(row["mean"] for row in found.rows if row["quantity"] == "utilization.gpu") == sum(busy) / len(busy)
    both = {(row["device"], row["quantity"]): row["mean"] for row in read_any(str(folder / "dmon.txt")).rows}
    assert (both["0", "pwr"], both["1", "pwr"], both["1", "pclk"]) == (390.0, 100.0, 210.0)


@pytest.mark.parametrize(
    ("name", "points", "times"),
    [
        ("sacct.json", [1, 2, 8], [7260, 3660, 960]),
        ("sacct-bare.txt", [1, 2, 4, 8], [7260, 3660, 1860, 960]),
        ("talpas.txt", [4, 8, 16, 32, 64], [4, 6, 10, 18, 34]),
        ("extrap.json", [4, 8, 16, 32, 64], [4, 6, 10, 18, 34]),
        ("hyperfine.csv", [1000, 2000, 4000], [0.03, 0.04, 0.06]),
    ],
)
def test_series_are_read_point_by_point(folder: Path, name: str, points: list[float], times: list[float]) -> None:
    made = read(folder / name)
    assert made.points[:, 0].tolist() == points and made.times.tolist() == times


def test_a_failed_job_of_json_is_left_out_and_counted(folder: Path) -> None:
    assert "1 of 4 jobs left out: 1 FAILED" in read_any(str(folder / "sacct.json")).line


def test_machines_of_other_tools(folder: Path) -> None:
    host = topology(folder / "lscpu.txt")
    assert (host.cores, host.sockets, host.clock) == (32, 2, 2.1e9)
    assert [(one.name, one.capacity) for one in host.caches] == [("L1", 2**15), ("L2", 2**20), ("L3", 22 * 2**20)]
    small = topology(folder / "lstopo.txt")
    assert (small.cores, small.threads_per_core, [c.instances for c in small.caches]) == (2, 2, [2, 2, 1])
    assert topology(folder / "lstopo.xml").model == "2 x IntelAtom + 1 x IntelCore"
    copied = topology(folder / "cpuinfo.txt")
    assert (copied.cores, copied.threads_per_core, copied.sockets) == (4, 2, 2)
    made = imported_machine(folder / "kerncraft-tags.yml")
    assert (made.clock, made.memory["L2"].capacity, made.memory["L1"].capacity) == (2.4e9, 256 * 1024, 32 * 1024)
    assert made.memory["L2"].bytes_per_cycle == 64 / 2  # a line in the cycles that stand at the nearer level
    assert "assumed until measured" in made.sources["memory.L1.bytes_per_cycle"]
    with pytest.raises(InputError, match="give --clock, such as"):
        imported_machine(folder / "lstopo.txt")


PERF = {
    "interval.csv": "     1.000123456,2000,,cycles,1000,100.00,,\n     2.000223456,2400,,cycles,1000,100.00,,\n",
    "interval.txt": "#           time             counts unit events\n"
    "     1.000123456              2,000      cycles\n     2.000223456              2,400      cycles\n",
    "interval.json": '{"interval" : 1.000123456, "counter-value" : "2000.0", "unit" : "", "event" : "cycles"}\n'
    '{"interval" : 2.000223456, "counter-value" : "2400.0", "unit" : "", "event" : "cycles"}\n',
}


@pytest.mark.parametrize("name", PERF)
def test_intervals_of_perf_are_summed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PERF[name])
    found = read_any(str(tmp_path / name))
    assert found.rows == ({"event": "cycles", "value": 4400.0},) and "2 s in all" in found.line


def test_kinds_of_cores_stay_apart_and_rare_counts_are_said(tmp_path: Path) -> None:
    path = tmp_path / "hybrid.txt"
    lines = "   201,334,123      cpu_atom/cycles/     #    0.200 GHz         (2.10%)\n"
    lines += " 4,012,345,678      cpu_core/cycles/     #    3.987 GHz         (97.90%)\n"
    path.write_text(f"\n Performance counter stats for './app':\n\n{lines}\n       1.006500000 seconds time elapsed\n")
    found = read_any(str(path))
    assert [row["event"] for row in found.rows] == ["cpu_atom/cycles/", "cpu_core/cycles/"]
    assert "cpu_atom/cycles/ was counted in 2.1% of the time and scaled up" in found.line
    assert "cpu_core/cycles/ was" not in found.line


def test_a_loop_of_hlo_counts_as_often_as_it_runs(folder: Path) -> None:
    made = import_file(folder / "scan.hlo")
    assert made.uncounted == () and made.cost["flop.matrix.float32"] == 100 * 2 * 16 * 128 * 128
    stated = pasted.HLO.replace(
        "body=%body", 'body=%body, backend_config={"known_trip_count":{"n":"7"}}'
    )  # what XLA found counts
    (folder / "stated.hlo").write_text(stated.replace("constant(100)", "constant(5)"))
    assert import_file(folder / "stated.hlo").cost["flop.matrix.float32"] == 7 * 2 * 16 * 128 * 128
    (folder / "open.hlo").write_text(
        pasted.HLO.replace("%lim = s32[] constant(100)", "%lim = s32[] add(%gte.5, %gte.5)")
    )
    assert import_file(folder / "open.hlo").uncounted == ("while",)
    (folder / "broken.hlo").write_text(pasted.HLO.replace("tuple(%zero, %b, %a)", "tuple(%zero, %nowhere, %a)"))
    with pytest.raises(InputError, match=r"line 32: tuple reads 'nowhere', which is not there"):
        import_file(folder / "broken.hlo")


LOOP = """module @jit_scan {
  func.func public @main(%arg0: tensor<128x128xf32>, %arg1: tensor<16x128xf32>) -> (tensor<16x128xf32>) {
    %c = stablehlo.constant dense<START> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %arg1) : tensor<i32>, tensor<16x128xf32>
     cond {
      %c_1 = stablehlo.constant dense<LIMIT> : tensor<i32>
      %1 = stablehlo.compare  HOW, %iterArg, %c_1,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.dot_general %iterArg_0, %arg0, contracting_dims = [1] x [0] : (tensor<16x128xf32>, tensor<128x128xf32>) -> tensor<16x128xf32>
      %c_1 = stablehlo.constant dense<STEP> : tensor<i32>
      %3 = stablehlo.add %iterArg, %c_1 : tensor<i32>
      stablehlo.return %3, %1 : tensor<i32>, tensor<16x128xf32>
    }
    return %0#1 : tensor<16x128xf32>
  }
}
"""  # noqa: E501 - a line of StableHLO


@pytest.mark.parametrize(
    ("start", "limit", "step", "how"),
    [(0, 100, 1, "LT"), (3, 50, 4, "LT"), (0, 9, 3, "LE"), (0, 12, 4, "NE"), (5, 5, 1, "LT")],
)
def test_a_loop_of_stablehlo_counts_as_python_counts_it(
    tmp_path: Path, start: int, limit: int, step: int, how: str
) -> None:
    path = tmp_path / "while.mlir"
    text = LOOP
    for word, value in (("START", start), ("LIMIT", limit), ("STEP", step), ("HOW", how)):
        text = text.replace(word, str(value))
    path.write_text(text)
    trips = len(range(start, limit + (how == "LE"), step))
    if not trips:
        with pytest.raises(InputError, match="no operation that takes time"):
            import_file(path)
        return
    made = import_file(path)
    assert made.uncounted == () and made.cost["flop.matrix.float32"] == trips * 2 * 16 * 128 * 128


def test_every_verb_names_the_verb_that_takes_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "series.csv").write_text("threads,time_s\n1,10\n2,5.5\n4,3.2\n")
    wrong = {
        ("extrapolate", "scan.hlo", "--to", "8"): "slipstick workloads import",
        ("machines", "import", "series.csv"): "slipstick extrapolate",
        ("estimate", "smi.csv", "--on", "h100-sxm"): "slipstick read",
        ("workloads", "import", "vllm.txt"): "slipstick read",
        ("replay", "series.csv", "--on", "h100-sxm"): "slipstick extrapolate",
        ("serve", "sacct.json", "--on", "h100-sxm"): "slipstick extrapolate",
        ("spmv", "predict", "series.csv"): "slipstick extrapolate",
        ("phases", "lscpu.txt"): "slipstick machines import",
        ("seqpoint", "smi.csv"): "slipstick read",
    }
    said = {}
    for words, other in wrong.items():
        filled = [str(folder / word) if (folder / word).is_file() else word for word in words]
        code = run(filled)
        said[words] = (code, other in " ".join(capsys.readouterr().err.split()))
    assert said == dict.fromkeys(wrong, (2, True))


def test_a_graph_of_another_program_is_a_workload_at_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert workload(str(folder / "scan.hlo")).cost["flop.matrix.float32"] == 100 * 2 * 16 * 128 * 128
    assert run(["estimate", str(folder / "scan.hlo"), "--on", "h100-sxm"]) == 0
    assert "(80 %" in capsys.readouterr().out


def test_the_page_of_files_is_that_of_the_registry() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == page_with_formats(page), "python -m tools.formats writes it"


def test_every_format_says_all_of_itself_and_has_a_file_here(folder: Path) -> None:
    made = {kind.key for path in files_made.write_all(folder).values() if (kind := identify(path))}
    elsewhere = {  # made by test_next_commands.py and by tests of their own
        "gguf", "workload", "caliper", "asv", "chakra", "chrome-trace", "hyperfine", "pytest-benchmark",
        "google-benchmark", "config", "extrap", "mllog", "matrix-market", "iterations", "times", "table", "onnx",
    }  # fmt: skip
    assert {one.key for one in FORMATS} - made - elsewhere == set()
    assert len({one.key for one in FORMATS}) == len(FORMATS)
    for one in FORMATS:
        assert one.made_by and one.holds and COMMANDS[one.target], one.key
        assert not re.search(r"\.$", one.made_by + one.holds + one.left_out)
