"""Broken files and options: one clear line each, exit code 2, nothing half-done."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slipstick.common.errors import InputError
from slipstick.experiments.cli.cli import run

GOOD = """
name: mine
clock: 2 GHz
cores: 4
engines: {vector: {flop_per_cycle: {float32: 16}}}
memory:
  L1: {capacity: 32 KiB, per: core, bytes_per_cycle: 64}
  DRAM: {capacity: 16 GiB, bandwidth: 20 GB/s}
sources: {clock: data sheet}
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


MACHINES: dict[str, tuple[str, str]] = {
    "wrong unit": (changed("2 GHz", "2 KiB"), "unit 'KiB' does not convert to Hz"),
    "unknown unit": (changed("2 GHz", "2 Gherz"), "unknown unit 'Gherz'"),
    "negative clock": (
        changed("2 GHz", "-2 GHz"),
        "clock = -2000000000.0 Hz: want a number >= 1000",
    ),
    "zero clock": (changed("2 GHz", "0"), "want a number >= 1000"),
    "a number of 5,000 digits": (changed("2 GHz", "9" * 5000), "4300 digits"),
    "not a number": (changed("2 GHz", ".nan"), "clock = nan"),
    "infinite": (changed("2 GHz", ".inf"), "clock = inf"),
    "a list for a number": (changed("2 GHz", "[1, 2]"), "clock = [1, 2]"),
    "a truth for a number": (changed("2 GHz", "true"), "clock = True"),
    "a text for a number": (changed("2 GHz", "fast"), "'fast' is no quantity"),
    "a very long text": (changed("2 GHz", "x" * 5000), "is no quantity"),
    "a clock without its unit": (
        changed("2 GHz", "3.2"),
        "clock = 3.2 Hz: want a number >= 1000",
    ),
    "a truth for cores": (changed("cores: 4", "cores: true"), "mine.yaml: cores = True: want a number or a text"),
    "a source of nothing": (
        changed("clock: data sheet}", "memory.XRAM.bandwidth: STREAM}"),
        "mine.yaml: sources: unknown field of machine",
    ),
    "half a core": (changed("cores: 4", "cores: 4.5"), "cores = 4.5"),
    "no cores": (changed("cores: 4", "cores: 0"), "cores = 0: want a number >= 1"),
    "too many cores": (changed("cores: 4", "cores: 100000000000"), "want a number <= 10000000"),
    "missing clock": (changed("clock: 2 GHz\n", ""), "field 'clock' is missing"),
    "missing sources": (changed("sources: {clock: data sheet}\n", ""), "field 'sources' is missing"),
    "unknown field": (GOOD + "colour: blue\n", "unknown field 'colour' (known: aliases, base_clock, clock, cores"),
    "unknown field below": (changed("32 KiB,", "32 KiB, speed: 1,"), "unknown field 'memory.L1.speed'"),
    "field twice": (GOOD + "clock: 3 GHz\n", "line 10: field 'clock' is given twice"),
    "negative capacity": (changed("16 GiB", "-16 GiB"), "memory.DRAM.capacity"),
    "two bandwidths": (changed("bandwidth: 20 GB/s", "bandwidth: 20 GB/s, bytes_per_cycle: 3"), "not both"),
    "no bandwidth": (
        changed(", bandwidth: 20 GB/s", ""),
        "mine.yaml: memory.DRAM: a level needs bandwidth or bytes_per_cycle",
    ),
    "unknown sharing": (changed("per: core", "per: rack"), "memory.L1.per = 'rack'"),
    "core counts descend": (
        changed("bandwidth: 20 GB/s", "bandwidth: 20 GB/s, bandwidth_by_cores: [[4, 9], [2, 8]]"),
        "core counts must ascend",
    ),
    "python tag": (changed("2 GHz", "!!python/object:os.system x"), "only plain values are accepted"),
    "python apply tag": (changed("2 GHz", "!!python/object/apply:os.system [id]"), "only plain values are accepted"),
    "alias bomb": ("a: &a [x]\n" + "".join(f"b{i}: [*a, *a]\n" for i in range(9)), "aliases (*name) are not accepted"),
    "not YAML": ("name: [", "not YAML"),
    "tabs": ("name:\n\t- x", "not YAML"),
    "a list": ("- 1\n- 2\n", "want named fields"),
    "empty": ("", "want named fields"),
    "deep": ("a: " + "[" * 200 + "]" * 200, "nested deeper"),
    "numbers for names": ("1: 2\n", "want named fields"),
    "too large": ("# " + "x" * 1_100_000, "more than 1 MB"),
    "sources are numbers": (changed("{clock: data sheet}", "{clock: 3}"), "sources.clock = 3"),
}


@pytest.mark.parametrize("case", sorted(MACHINES))
def test_broken_machine_files(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, words = MACHINES[case]
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    complains(["machines", "show", str(path)], words, capsys)


def test_the_good_machine_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    assert run(["machines", "show", str(path), "--format", "json"]) == 0
    rows = {row["field"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["clock"]["value"] == 2e9 and rows["clock"]["source"] == "data sheet"


def complains(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert words in captured.err, captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.err.startswith("slipstick: ")
    assert captured.out == ""


NOT_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "a folder": (lambda path: path.mkdir(), "is a folder"),
    "binary": (lambda path: path.write_bytes(b"\x80\xfe\x00\x01"), "not UTF-8"),
}


@pytest.mark.parametrize("case", sorted(NOT_FILES))
def test_what_is_no_file(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, words = NOT_FILES[case]
    path = tmp_path / "mine.yaml"
    make(path)
    complains(["machines", "show", str(path)], words, capsys)


ON = ["--on", "xeon-phi-7120p"]
OPTIONS: dict[str, tuple[list[str], str]] = {
    "unknown machine": (["estimate", "phi-cnn-small", "--on", "xeon-phy"], "unknown machine 'xeon-phy'; did you mean"),
    "unknown workload": (["estimate", "phi-cnn-tiny", *ON], "unknown workload 'phi-cnn-tiny'"),
    "unknown estimator": (["estimate", "phi-cnn-small", *ON, "--estimator", "magic"], "unknown estimator 'magic'"),
    "unknown paper": (["reproduce", "einstein"], "unknown paper 'einstein'"),
    "unknown scoreboard": (["validate", "everything"], "unknown scoreboard 'everything'"),
    "unknown format": (["machines", "list", "--format", "xml"], "unknown format 'xml' (known: table, json, csv)"),
    "unknown verb": (["guess"], "No such command 'guess'"),
    "unknown option": (["machines", "list", "--colour"], "unknown option --colour"),
    "missing option": (["estimate", "phi-cnn-small"], "give --on MACHINE"),
    "set without value": (["estimate", "phi-cnn-small", *ON, "--set", "run.threads"], "want NAMESPACE.NAME=VALUE"),
    "set without namespace": (["estimate", "phi-cnn-small", *ON, "--set", "threads=3"], "want NAMESPACE.NAME=VALUE"),
    "unknown namespace": (["estimate", "phi-cnn-small", *ON, "--set", "go.threads=3"], "unknown namespace 'go'"),
    "unknown field": (["estimate", "phi-cnn-small", *ON, "--set", "machine.clok=1"], "did you mean 'clock'"),
    "set twice": (["estimate", "phi-cnn-small", *ON, "--set", "run.threads=1", "--set", "run.threads=2"], "set twice"),
    "no batch": (["estimate", "mlp", *ON, "--set", "workload.batch=0"], "workload.batch = 0: want a whole number >= 1"),
    "no columns": (["estimate", "gemm", "--on", "h100", "--set", "run.n=0"], "run.n = 0: want a whole number >= 1"),
    "half a column": (
        ["estimate", "gemm", "--on", "h100", "--set", "workload.m=1.5"],
        "workload.m = 1.5: want a whole",
    ),
    "half a row": (["estimate", "gemm", "--on", "h100", "--set", "run.m=1.5"], "run.m = 1.5: want a whole number"),
    "half a size": (["whatif", "gemm", "--on", "h100", "--vary", "workload.m=1.5,2"], "workload.m = 1.5: want a whole"),
    "endless columns": (
        ["estimate", "gemm", "--on", "h100", "--set", "workload.m=1e300"],
        "at most 9,007,199,254,740,992",
    ),
    "a context below zero": (
        ["estimate", "decode:llama-3-8b", "--on", "h100", "--set", "run.context=-3"],
        "run.context = -3: want a whole number >= 0",
    ),
    "weight for a time": (
        ["estimate", "mlp", *ON, "--estimator", "roofline", "--set", "estimator.operation.overhead=2kg"],
        "estimator.operation.overhead: unit 'kg' does not convert to s",
    ),
    "no threads": (
        ["estimate", "phi-cnn-small", *ON, "--set", "run.threads=0"],
        "run.threads = 0: want a whole number >= 1",
    ),
    "a misspelt number of the run": (
        ["estimate", "phi-cnn-small", *ON, "--set", "run.thread=2"],
        "did you mean 'run.threads'",
    ),
    "a number nobody reads": (
        ["estimate", "phi-cnn-small", *ON, "--estimator", "roofline", "--set", "run.threads=2"],
        "unknown number of the run for this estimator",
    ),
    "threads of a sparse workload": (
        ["estimate", "spmv-uniform", "--on", "xeon-gold-6148", "--threads", "20"],
        "slipstick spmv predict FILE.mtx --threads 20",
    ),
    "a collective of one device": (
        ["estimate", "all-reduce", "--on", "h100-dgx", "--set", "workload.devices=1"],
        "a collective of one device moves nothing: want >= 2",
    ),
    "a picture into nowhere": (
        ["whatif", "phi-cnn-small", *ON, "--vary", "run.threads=1,2", "--report", "/proc/nowhere/x.html"],
        "/proc/nowhere",
    ),
    "threads in GHz": (
        ["estimate", "phi-cnn-small", *ON, "--set", "run.threads=3 GHz"],
        "does not convert to a plain number",
    ),
    "threads as words": (["estimate", "phi-cnn-small", *ON, "--set", "run.threads=many"], "'many' is no quantity"),
    "endless threads": (["estimate", "phi-cnn-small", *ON, "--set", "run.threads=1e999"], "want a finite number"),
    "clock in bytes": (["estimate", "phi-cnn-small", *ON, "--set", "machine.clock=1 GB"], "does not convert to Hz"),
    "unknown parameter": (
        ["estimate", "phi-cnn-small", *ON, "--set", "estimator.operation.factor=1"],
        "unknown estimator parameter 'operation.factor'",
    ),
    "parameter out of bounds": (
        ["estimate", "phi-cnn-small", *ON, "--set", "estimator.operation.operation_factor=-1"],
        "want a value in",
    ),
    "unknown symbol": (["estimate", "phi-cnn-small", *ON, "--set", "workload.batch=2"], "unknown symbol of workload"),
    "what-if on measured times": (
        ["estimate", "phi-cnn-small", *ON, "--estimator", "phi-b", "--set", "machine.clock=2GHz"],
        "measured times do not answer a what-if",
    ),
    "no data folder": (["validate", "all", "--data", "/nowhere/at/all"], "no such folder"),
}


@pytest.mark.parametrize("case", sorted(OPTIONS))
def test_broken_options(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, words = OPTIONS[case]
    complains(arguments, words, capsys)


FORMULAS = {
    "a call": ("__import__('os').system('id')", "only these functions may be called"),
    "an attribute": ("(1).__class__", "names in a formula"),
    "a lambda": ("(lambda: 1)()", "only these functions may be called"),
    "an index": ("batch[0]", "Subscript is not accepted"),
    "a comparison": ("batch < 3", "Compare is not accepted"),
    "a text": ("'x' * 9", "Constant is not accepted"),
    "a huge power": ("9**9**9**9", "exponent"),
    "a huge number": ("1" + "0" * 60, "number too large"),
    "not a formula": ("2 +", "cannot be read"),
    "division by zero": ("1/0", "divides by zero"),
    "too long": ("1+" * 12_000 + "1", "no text of at most"),
    "too deep": ("(" * 500 + "1" + ")" * 500, "cannot be read"),
    "a walrus": ("(x := 3)", "NamedExpr is not accepted"),
}


@pytest.mark.parametrize("case", sorted(FORMULAS))
def test_formulas_in_files(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = FORMULAS[case]
    node = {"id": "a", "kind": "gemm", "cost": {"flop.matrix.float32": text}}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"schema": "slipstick-workload-1", "name": "x", "nodes": [node], "links": []}))
    complains(["workloads", "show", str(path)], words, capsys)


def workload_file(**changes: object) -> str:
    document = {"schema": "slipstick-workload-1", "name": "x", "nodes": [{"id": "a", "kind": "gemm"}], "links": []}
    return json.dumps({**document, **changes})


WORKLOADS: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ("{", "not JSON"),
    "a list": ("[]", "want named fields"),
    "another schema": (workload_file(schema="other"), "want a 'schema'"),
    "no nodes": (workload_file(nodes=None), "field 'nodes': want a list"),
    "a node without kind": (workload_file(nodes=[{"id": "a"}]), "a node needs texts 'id' and 'kind'"),
    "an unknown field": (workload_file(nodes=[{"id": "a", "kind": "gemm", "color": 1}]), "unknown field in"),
    "an unknown resource": (
        workload_file(nodes=[{"id": "a", "kind": "gemm", "cost": {"magic": 1}}]),
        "unknown resource 'magic'",
    ),
    "a negative cost": (
        workload_file(nodes=[{"id": "a", "kind": "gemm", "cost": {"read": -1}}]),
        "want a finite amount >= 0",
    ),
    "NaN": (workload_file().replace('"gemm"', '"gemm", "times": NaN'), "NaN is no JSON number"),
    "two nodes of a name": (workload_file(nodes=[{"id": "a", "kind": "k"}] * 2), "two operations are named 'a'"),
    "an edge to nowhere": (workload_file(links=[{"source": "a", "target": "b"}]), "unknown operation in an edge"),
    "a circle": (
        workload_file(
            nodes=[{"id": n, "kind": "k"} for n in "ab"],
            links=[{"source": "a", "target": "b"}, {"source": "b", "target": "a"}],
        ),
        "wait for each other: a -> b",
    ),
    "deep": ("[" * 5000 + "]" * 5000, "nested deeper"),
    "nothing to do": (workload_file(nodes=[]), "mine.json: field 'nodes': want at least one"),
    "uncounted is a number": (workload_file(uncounted=5), "mine.json: field 'uncounted': want a list"),
    "a default of itself": (workload_file(defaults={"batch": "batch"}), "defaults.batch = 'batch': want a finite"),
    "a formula for a default": (workload_file(defaults={"b": "floor(3.5)"}), "defaults.b = 'floor(3.5)': want a"),
    "a default of nothing": (workload_file(defaults={"b": 0}), "defaults.b = '0': want a finite number > 0"),
    "an endless default": (workload_file(defaults={"b": 1}).replace("1}", "1e999}"), "defaults.b = 'inf': want a"),
    "endless times": (workload_file().replace('"gemm"', '"gemm", "times": 1e999'), "times = inf: want a finite amount"),
    "more times than digits": (workload_file(nodes=[{"id": "a", "kind": "k", "times": 10**400}]), "beyond 1e40"),
    "half a surrogate pair": (workload_file(name="\ud800"), "half of a surrogate pair"),
}


@pytest.mark.parametrize("case", sorted(WORKLOADS))
def test_broken_workload_files(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, words = WORKLOADS[case]
    path = tmp_path / "mine.json"
    path.write_text(content if isinstance(content, str) else content.decode())
    complains(["workloads", "show", str(path)], words, capsys)


def test_truncated_and_exploding_gzip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = gzip.compress(workload_file().encode() * 50)
    path = tmp_path / "mine.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    complains(["workloads", "show", str(path)], "broken or truncated gzip", capsys)
    path.write_bytes(b"not gzip at all")
    complains(["workloads", "show", str(path)], "broken or truncated gzip", capsys)
    path.write_bytes(gzip.compress(b" " * 80_000_000))
    complains(["workloads", "show", str(path)], "unpacks to more than 200 times its size", capsys)


IMAGINARY = "sqrt(-1)*machine.clock"
ASKED_TOO_MUCH: dict[str, tuple[list[str], str]] = {
    "values of an axis": (["machine.clock=1GHz..2GHz:10000000"], "want a whole number from 2 to 1000000"),
    "points of a table": (["machine.clock=1GHz..2GHz:2000", "machine.cores=1..2000"], "4,000,000 points of"),
    "an imaginary condition": (
        ["machine.clock=1GHz,2GHz", "--where", f"{IMAGINARY} < 3"],
        "I is no real number",
    ),
    "an imaginary objective": (
        ["machine.clock=1GHz,2GHz", "--objective", "time", "--objective", f"a={IMAGINARY}"],
        "I is no real number",
    ),
}


@pytest.mark.parametrize("case", sorted(ASKED_TOO_MUCH))
def test_what_ifs_that_ask_too_much(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    (first, *rest), words = ASKED_TOO_MUCH[case]
    more = [part for text in rest for part in (["--vary", text] if text.startswith("machine.cores") else [text])]
    complains(["whatif", "mlp-inference", "--on", "v100-sxm", "--vary", first, *more], words, capsys)


@pytest.mark.parametrize(
    ("name", "content", "clock", "words"),
    [
        ("a.xml", "<t/>", "2GHz", "a.xml: hwloc: no object of type Core"),
        ("a.xml", "<t/>", "2kg", "--clock: unit 'kg' does not convert to Hz"),
        ("a.json", '{"lscpu": []}', "", "a.json: lscpu: no list 'lscpu'"),
    ],
)
def test_broken_files_of_hosts(
    name: str, content: str, clock: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / name).write_text(content)
    complains(["machines", "import", name, *(["--clock", clock] if clock else [])], words, capsys)


@pytest.mark.parametrize("shape", ["batch,4:os", "batch,0", "batch,²", "batch,4:float99"])
def test_inputs_that_are_none(shape: str) -> None:
    pytest.importorskip("torch", reason="models of torch need the extra torch")
    from slipstick.workloads.importers.torch.named_program import inputs_from_text

    with pytest.raises(InputError, match=f"input '{shape}'"):
        inputs_from_text([shape])
