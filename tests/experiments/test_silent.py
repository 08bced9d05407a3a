"""No verb drops in silence what it is given: a random (verb, option or field, value) moves the answer, or is said."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.experiments.cli.cli import run
from slipstick.experiments.serve.llama_cpp import ALONE
from tests.verbs_there import verbs

BASES: dict[str, tuple[str, ...]] = {
    "estimate gpt2": ("estimate", "gpt2-inference", "--on", "h100-sxm"),
    "estimate cpu": ("estimate", "resnet18-inference", "--on", "xeon-platinum-8480"),
    "estimate decode": ("estimate", "decode:llama-3.1-8b", "--on", "h100-dgx"),
    "estimate train": ("estimate", "train:llama-3.1-8b", "--on", "h100-dgx"),
    "whatif": ("whatif", "mlp-inference", "--on", "h100-sxm", "--vary", "machine.clock=1.2GHz,1.5GHz"),
    "whatif serve": ("whatif", "serve:llama-3.1-8b", "--on", "h100-dgx", "--vary", "run.concurrency=1,4"),
    "explain": ("explain", "mlp-inference", "--on", "h100-sxm"),
    "serve": ("serve", "llama-3.1-8b", "--on", "h100-dgx", "--num-requests", "8", "--output-tokens", "16"),
    "serve llama.cpp": ("serve", "llama-3.1-8b", "--on", "rtx-4090", "--engine", "llama.cpp"),
    "plan serving": ("plan", "serving", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "2"),
    "plan training": ("plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "8", "--batch", "16"),
    "extrapolate": ("extrapolate", "times.csv", "--to", "64"),
}
"""A question of each verb, by a name."""
SHOWS = {
    *("--format", "--report", "--out", "--timeline", "--verbose", "--rows", "--top", "--save", "--plot", "--help"),
    *("--allow-code", "--quantity", "--counters", "--calibration", "--measured", "--fit", "--trace", "--estimator"),
    *("--input", "--recorded-on", "--on", "--simulate", "--runs", "--seed", "--train", "--work", "--vary"),
}
"""Options that shape what is shown, name a file, or ask another question."""
WORDS: dict[str, tuple[str, ...]] = {
    "--dtype": ("float32", "bfloat16", "float16", "fp8", "int8", "bf16", "nvfp4", "q4_k_m"),
    "--engine": ("vllm 0.2", "vllm 0.19.0", "sglang", "trtllm 1.0", "llama.cpp", "tgi"),
    "--trainer": ("megatron", "megatron 24.07", "fsdp", "deepspeed"),
    "--attention": ("flash", "parts"),
    "--mode": ("eager", "compiled", "graphs"),
    "--cache-dtype": ("auto", "fp8", "bf16", "int4"),
    "--limit": ("tpot=30ms", "ttft=1s,tpot=20ms", "latency=9s"),
    "--price": ("h100-dgx=2.5", "h100-sxm=3", "a100-sxm-80gb=1"),
    "--host-power": ("500W", "2kW"),
    "--link-bandwidth": ("50 GB/s", "400 GB/s"),
    "--chunked-prefill": ("on", "off"),
    "--preemption": ("cached", "recompute", "swap"),
    "--tokens": ("300B", "1.5T"),
    "--kind": ("strong", "weak", "problem_size"),
    "--unit": ("s", "ms", "min"),
    "--where": ("machine.clock >= 1.3e9",),
    "--objective": ("machine.clock", "time_ratio"),
    "--cost": ("machine.clock=3",),
    "--against": ("a100-sxm-80gb",),
    "--length-range": ("0", "0.5"),
    "--link": ("50 GB/s",),
    "--number": ("batch=4",),
    "--machine": ("xeon-platinum-8480",),
    "--borders": ("48",),
}
NUMBERS = (0.0, 0.25, 0.5, 0.9, 1.0, 1.5, 2.0, 4.0, 8.0, 64.0, 1000.0)
FACTORS = (0.5, 2.0, 1.2)
ECHO = {"conditions", "not_used", "note", "notes", "remarks", "assumptions", "schema_version"}
"""Keys that say what was asked."""


def _values(option: Any) -> tuple[str, ...]:
    """What is typed behind an option, by its type; nothing for a flag."""
    kind = option.type_descriptor.annotation
    if getattr(option, "is_flag", False):
        return ("",)
    if option.opts[0] in WORDS:
        return WORDS[option.opts[0]]
    if kind is int:
        return ("0", "1", "2", "4", "8", "64", "1000")
    if kind is float:
        return tuple(f"{value:g}" for value in NUMBERS)
    return ()


@cache
def _fields(machine: str) -> tuple[str, ...]:
    """Each numeric field of a machine, set to half, twice and 1.2 x."""
    return tuple(
        f"machine.{name}={value * factor:g}"
        for name, value in ss.machine(machine).numbers.items()
        for factor in FACTORS
        if value
    )


def triples() -> list[tuple[str, str, str]]:
    """Every question with every option and value, and with every field of its machine."""
    return list(_triples())


def _triples() -> Iterator[tuple[str, str, str]]:
    for name, words in BASES.items():
        verb = " ".join(words[:2]) if words[0] == "plan" else words[0]
        for option in verbs()[verb]:
            word = next((each for each in option.opts if each.startswith("--")), "")
            if not word or word in SHOWS or word in words:
                continue
            if word == "--set":
                if "--on" in words:
                    yield from ((name, word, value) for value in _fields(words[words.index("--on") + 1]))
                continue
            yield from ((name, word, value) for value in _values(option))


STUDY = """
schema = "slipstick-study-1"
name = "one"
workloads = ["mlp-inference"]
machines = ["h100-sxm"]
[set]
{set}
[vary]
"machine.clock" = ["1.2 GHz", "1.5 GHz"]
"""
"""A file of a study, with what stays."""


def _studied(field: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, set[str]] | None:
    """The rows of the study with a field set ("": none), and what it says that it does not use; None if refused."""
    name, _, value = field.partition("=")
    Path("study.toml").write_text(STUDY.format(set=f'"{name}" = {value}' if field else ""))
    folder = f"out-{random.Random(field).randrange(10**9)}"
    if run(["study", "run", "study.toml", "--folder", folder]) == 2:
        capsys.readouterr()
        return None
    capsys.readouterr()
    assert run(["study", "report", "study.toml", "--folder", folder, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    return _plain(rows), {one["name"] for one in rows[0].get("not_used", ())}


def _answered(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON of a command; None where it refuses in words."""
    code = run([*words, "--format", "json"])
    out, err = capsys.readouterr()
    assert code in (0, 1, 2), f"{words}: {err}"
    return json.loads(out) if code != 2 else None


def _plain(document: Any) -> Any:
    """A document without what echoes the question."""
    if isinstance(document, dict):
        return {key: _plain(value) for key, value in document.items() if key not in ECHO}
    return [_plain(one) for one in document] if isinstance(document, list) else document


def _said(document: Any, name: str) -> bool:
    """Whether an answer says of a name that it was not used, or why it moves nothing."""
    row = document[0] if isinstance(document, list) and document else document
    if not isinstance(row, dict):
        return False
    named = [one for key in ("not_used", "conditions") for one in row.get(key, ())]
    notes = [row.get("note") or "", *(row.get("notes") or ()), *(row.get("remarks") or ())]
    return any(one["name"] == name and (one.get("why") or one.get("note")) for one in named) or any(
        name in str(text) for text in notes
    )


KNOWN: dict[str, Any] = {}


def silent(triple: tuple[str, str, str], capsys: pytest.CaptureFixture[str]) -> str:
    """ "" where a triple moves the answer, is refused or is said; else the triple in words."""
    name, option, value = triple
    words = list(BASES[name])
    if name not in KNOWN:
        KNOWN[name] = _plain(_answered(words, capsys))
    made = _answered([*words, option, *([value] if value else [])], capsys)
    field = value.partition("=")[0] if option == "--set" else option.removeprefix("--").replace("-", "_")
    if made is None or _plain(made) != KNOWN[name]:
        return ""
    usual = option != "--set" and _is_default(name, option, value)
    if usual or _said(made, field) or _said(made, f"run.{field}"):
        return ""
    return "" if option in WORDS and _read(name, option, capsys) else " ".join(triple)


def _read(name: str, option: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether another word of an option moves the answer, so that the one that was given is read."""
    others = (_answered([*BASES[name], option, word], capsys) for word in WORDS[option])
    return any(other is not None and _plain(other) != KNOWN[name] for other in others)


def _is_default(name: str, option: str, value: str) -> bool:
    """Whether a value is what is taken where none is typed: each question is of one device."""
    if value == "1" and option in (
        "--concurrency",
        "--tp",
        "--devices",
    ):
        return True
    words = BASES[name]
    if "llama.cpp" in words and value in map(str, ALONE.get(option.removeprefix("--").replace("-", "_"), ())):
        return True
    verb = " ".join(words[:2]) if words[0] == "plan" else words[0]
    (one,) = (each for each in verbs()[verb] if option in each.opts)
    try:
        return one.default is not None and float(value) == float(one.default)
    except (TypeError, ValueError):
        return value == one.default


@pytest.fixture(autouse=True)
def _a_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("threads,time_s\n1,100\n2,52\n4,27\n8,15\n16,9\n32,6\n")


def test_a_sample_of_what_is_given_moves_the_answer_or_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    dropped = [silent(one, capsys) for one in random.Random(47).sample(triples(), 12)]
    assert not list(filter(None, dropped))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_what_a_study_sets_moves_its_rows_or_is_said(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    plain = _studied("", capsys)
    fields = [one for one in _fields("h100-sxm") if not one.startswith("machine.clock")]
    drawn = [*random.Random(seed).sample(fields, 3 + 22 * seed), "machine.links.nvswitch.bandwidth=1e9"]
    answers = {field: _studied(field, capsys) for field in drawn}
    assert plain is not None
    silent = [
        field
        for field, made in answers.items()
        if made is not None and made[0] == plain[0] and field.partition("=")[0] not in made[1]
    ]
    assert not silent
    assert sum(made is not None for made in answers.values()) > len(drawn) / 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_two_thousand_of_what_is_given_move_the_answer_or_are_said(
    part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = random.Random(2000).choices(triples(), k=2000)
    assert not list(filter(None, (silent(one, capsys) for one in drawn[part::20])))
