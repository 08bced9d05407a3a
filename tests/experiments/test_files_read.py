"""`slipstick read`, and the verbs that go on with what it names: profilers' and benchmarks' files by their content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.calibrate.measured_serving import AnchorRun, model_of_size, traffic_of
from slipstick.experiments.cli.cli import run
from slipstick.experiments.extrapolate.series_files import read
from slipstick.experiments.replay.read_files import ReadOptions, read_any
from slipstick.workloads.importers.serving.llama_bench import read_llama_bench
from slipstick.workloads.importers.serving.vllm_bench import read_vllm_bench
from slipstick.workloads.language_catalog import shipped_name
from tests import files_made, runs_made

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return files_made.write_all(tmp_path)


def test_every_file_is_named_and_leads_on(files: dict[str, Path]) -> None:
    for name, path in files.items():
        found = read_any(str(path))
        assert found.line.startswith(f"{path}: {found.kind.name}; "), name
        why = "no point under a roofline" in found.line or "a series wants 2 values" in found.line
        assert found.commands or why, name
        assert all(command.startswith("slipstick ") for command in found.commands), name


def test_a_profile_leads_to_replay_and_phases(files: dict[str, Path], capsys: Captured) -> None:
    path = str(files["nsys.sqlite"])
    found = read_any(path)
    assert "6 cuda_runtime, 4 kernel, 2 gpu_memcpy, 2 user_annotation" in found.line
    assert "NVIDIA A100-SXM4-80GB (A100 SXM4 80 GB)" in found.line
    marker = r"--step-pattern 'iteration (\d+)'"
    assert found.commands == (f"slipstick replay {path} --on MACHINE {marker}", f"slipstick phases {path} {marker}")
    assert run(["replay", path, "--on", "h100-sxm", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert 0.3 < row["time_ratio"] < 1.0 and row["low_s"] < row["step_s"] < row["high_s"]
    assert run(["phases", path, "--step-pattern", r"iteration (\d+)", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["steps"]


def test_a_file_of_no_known_kind_is_bad_input(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "a").write_text("a poem\n")
    assert run(["read", str(tmp_path / "a")]) == 2
    said = capsys.readouterr().err
    assert "no known kind of file" in said and "Nsight Systems, GGUF model" in said


@pytest.mark.parametrize("words", [["read"], ["extrapolate", "--to", "16"]])
@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"threads,time_s\n1,10\0\xff\xfe\n2,5\n", "bad.csv: not UTF-8 text, and no known kind of file"),
        (b"threads,time_s\n1,10,\n2,5\n4,3\n", "bad.csv: line 2: 3 values for 2 columns"),
    ],
)
def test_a_table_that_is_broken_says_where(
    words: list[str], content: bytes, wanted: str, tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    assert run([words[0], str(tmp_path / "bad.csv"), *words[1:]]) == 2
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words", "next_"),
    [
        ("threads,time_s\n1,10\n2,5.5\n4,3.2\n", "3 times over threads", "extrapolate"),
        ("n,run_time [ms]\n100,10\n200,41\n", "2 times over n", "extrapolate"),
        ("%%MatrixMarket matrix coordinate pattern general\n3 2 1\n1 1\n", "3 x 2, 1 non-zeros", "spmv predict"),
    ],
)
def test_tables_of_times_and_matrices_are_known(text: str, words: str, next_: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.mtx" if text.startswith("%") else "a.csv")
    path.write_text(text)
    found = read_any(str(path))
    assert words in found.line and found.commands[0].startswith(f"slipstick {next_} {path}")


def test_a_trace_that_was_cut_says_so(tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 2, "args": {"stream": 7, "device": 0}}'
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json"
    whole.write_text(f'{{"traceEvents": [{event}, {event}]}}')
    cut.write_text(f'{{"traceEvents": [{event}, {event[:40]}')
    assert "ends in the middle" not in read_any(str(whole)).line
    line = read_any(str(cut)).line
    assert "1 kernel in 2 µs" in line and "the file ends in the middle of an event" in line


def test_served_runs_and_their_load(files: dict[str, Path]) -> None:
    (one,) = read_vllm_bench(files["vllm.json"])
    assert (one.users, one.rate, one.input_tokens, one.output_tokens) == (16, None, 1024.0, 128.0)
    assert one.times["ttft p99"] == pytest.approx(0.7) and one.times["tpot mean"] == pytest.approx(0.02)
    load = traffic_of(one)
    assert (load.users, load.input_tokens, load.output_tokens, load.length_range) == (16, 1024, 128, 0.0)
    assert shipped_name(one.model) == "llama-3.1-8b" and shipped_name("facebook/opt-125m") is None


def test_the_estimate_stands_beside_what_was_measured(files: dict[str, Path]) -> None:
    found = read_any(str(files["vllm.json"]), ReadOptions("a100-sxm-80gb"))
    rows = {str(row["measure"]): row for row in found.rows}
    assert list(rows) == ["ttft_s", "tpot_s", "output_tokens_per_s"]
    row = rows["tpot_s"]
    assert row["measured"] == pytest.approx(0.02) and row["low"] <= row["estimated"] <= row["high"]
    assert row["ratio"] == pytest.approx(row["measured"] / row["estimated"])
    assert "--concurrency 16 --input-tokens 1024 --output-tokens 128 --length-range 0" in found.commands[0]


def test_all_that_is_wrong_with_a_benchmark_is_said_at_once(tmp_path: Path) -> None:
    wrong = runs_made.SERVED | {"duration": "long", "output_throughput": -1}
    del wrong["total_input_tokens"]
    (tmp_path / "a").write_text(json.dumps([runs_made.SERVED, wrong]))
    with pytest.raises(InputError, match="run 1: duration.*run 1: no field total_input_tokens.*output_throughput = -1"):
        read_vllm_bench(tmp_path / "a")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"duration": 7.0}, r"request_throughput = 5.714 contradicts completed / duration = 57.1.*output_throughput"),
        ({"output_throughput": 7314.0}, r"output_throughput = 7314 contradicts total_output_tokens / duration = 731"),
        (
            {"total_token_throughput": 700.0},
            r"contradicts \(total_input_tokens \+ total_output_tokens\) / dur.* = 658",
        ),
        ({"p99_ttft_ms": 90_000.0}, "ttft p99 = 90 s is longer than duration = 70 s"),
    ],
)
def test_a_benchmark_that_contradicts_itself_is_refused(tmp_path: Path, wrong: dict[str, float], said: str) -> None:
    (tmp_path / "a").write_text(json.dumps(runs_made.SERVED | wrong))
    with pytest.raises(InputError, match=f"the run: .*{said}"):
        read_vllm_bench(tmp_path / "a")


def test_what_a_program_says_is_not_set_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(json.dumps(runs_made.SERVED | {"max_concurrency": "not set", "burstiness": "N/A"}))
    assert read_vllm_bench(tmp_path / "a")[0].users is None


def test_a_rate_of_llama_bench_that_contradicts_its_time_is_refused(tmp_path: Path) -> None:
    one = runs_made.llama_tests()[0]
    (tmp_path / "a").write_text(json.dumps([one | {"avg_ts": 2 * one["avg_ts"]}]))
    with pytest.raises(
        InputError, match=r"tests\[0\]: avg_ts = 20480 contradicts \(n_prompt \+ n_gen\) / avg_ns = 10240"
    ):
        read_llama_bench(tmp_path / "a")


def test_llama_bench_is_an_anchor_and_a_series(files: dict[str, Path], capsys: Captured) -> None:
    runs = read_llama_bench(files["llama-bench.json"])
    assert runs == read_llama_bench(files["llama-bench.jsonl"])
    assert {run.stored for run in runs} == {"q4_k_m"} and model_of_size(runs[0].parameters) == "qwen2.5-7b"
    anchor = AnchorRun.parse(str(files["llama-bench.json"]))
    assert anchor.model.name == "qwen2.5-7b" and anchor.rate == pytest.approx(128 / 0.9)
    made = ["serve", "llama-3.1-8b", "--on", "rtx-4090", "--engine", "llama.cpp", "--format", "json"]
    assert run([*made, "--measured", str(files["llama-bench.json"])]) == 0
    (with_file,) = json.loads(capsys.readouterr().out)
    assert run([*made, "--measured", f"qwen2.5-7b:q4_k_m={128 / 0.9}"]) == 0
    (with_text,) = json.loads(capsys.readouterr().out)
    assert with_file["output_tokens_per_s"] == pytest.approx(with_text["output_tokens_per_s"])
    asked = ["extrapolate", str(files["llama-bench.json"]), "--region", f"{runs[0].model} prompt", "--to", "8192"]
    assert run([*asked, "--format", "json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert 0.7 < answer["predictions"][0]["time_s"] < 1.1


def test_caliper_profiles_are_a_series_over_their_ranks(tmp_path: Path) -> None:
    for ranks in (1, 2, 4, 8, 16):
        (tmp_path / f"run{ranks}.cali").write_text(files_made.cali(ranks))
    found = read(tmp_path)
    assert found.parameters == ("jobsize",) and set(found.regions) == {"main", "main/solve,once"}
    series = {one.name: one for one in found.series()}
    assert list(series["main/solve,once"].x) == [1, 2, 4, 8, 16]
    assert list(series["main"].y) == pytest.approx([64 / p + 1 for p in (1, 2, 4, 8, 16)])


def test_caliper_json_is_the_mean_over_ranks(files: dict[str, Path]) -> None:
    found = read(files["caliper.json"])
    assert dict(zip(found.regions, found.times.tolist(), strict=True)) == {
        "main": pytest.approx(2.1), "main/solve": pytest.approx(1.1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ref=41", "ref=99", "line 10: ref = '99': no such node"),
        ("id=40,attr=31,data=main", "id=40,attr=31,data=main,parent=41", "parent = 41: no such node"),
        ("attr=21,data=", "attr=21=21,data=", "values in data"),
        ("__rec=globals", "__rec=poem", "line 14: __rec = 'poem'"),
    ],
)
def test_broken_records_of_caliper_are_bad_input(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "a").write_text(files_made.cali(4).replace(old, new))
    with pytest.raises(InputError, match=said):
        read(tmp_path / "a")


def test_llama_bench_leads_to_a_command_that_runs(files: dict[str, Path]) -> None:
    (command,) = read_any(str(files["llama-bench.json"])).commands
    assert "--on rtx-4090 " in command


def test_a_trace_of_rocprof_without_an_event_is_a_broken_trace(tmp_path: Path) -> None:
    """rocprof writes a lone comma where it recorded nothing (ROCm/rocprofiler#104)."""
    (tmp_path / "a.json").write_text(',{"args":{"name":"COPY"},"ph":"M","pid":1,"name":"process_name"}\n')
    with pytest.raises(InputError, match="a trace starts with .* not ',': broken, or no event recorded"):
        read_any(str(tmp_path / "a.json"))


def test_a_trace_without_its_host_leads_to_no_replay(tmp_path: Path, capsys: Captured) -> None:
    """What `read` offers must work: kernels alone are listed, and it says what to record."""
    kernels = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 9 * i, "dur": 5, "args": {"correlation": i}}
        for i in range(3)
    ]
    path = tmp_path / "device.json"
    path.write_text(json.dumps({"traceEvents": kernels}))
    found = read_any(str(path))
    assert found.commands == () and "record CPU and device together" in found.line
    assert run(["replay", str(path), "--on", "h100-sxm", "--recorded-on", "a100-sxm-80gb"]) == 2
    assert "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]" in capsys.readouterr().err


def test_measurements_in_place_of_a_study_are_led_on(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "times.csv"
    path.write_text("cores,seconds\n1,100\n2,51\n4,27\n8,15\n")
    assert run(["calibrate", str(path)]) == 2
    assert f"slipstick read {path} says what it holds" in capsys.readouterr().err


def test_files_that_other_options_take_are_named(tmp_path: Path, capsys: Captured) -> None:
    """A calibration is no saved workload, though both are JSON with a schema of ours; a program is estimated."""
    made, program = tmp_path / "host-calibration.json", tmp_path / "net.py"
    made.write_text('{"schema": "slipstick-calibration-1", "estimator": "cpu-kinds", "parameters": {}}')
    program.write_text("import torch\n")
    for path, said in ((made, f"--on MACHINE --calibration {made}"), (program, f"estimate {program}:FUNCTION")):
        assert run(["read", str(path)]) == 2
        assert said in capsys.readouterr().err


def test_the_next_command_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is folded at 80 columns cannot be copied."""
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / f"{'long-' * 12}times.csv"
    path.write_text("threads,time_s\n1,16.0\n2,8.2\n4,4.3\n")
    assert run(["read", str(path)]) == 0
    assert [f"next: {command}" for command in read_any(str(path)).commands] == [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("next: ")
    ]
