"""Every verb at 80 columns: no line is wider, no number loses its unit, no word is cut, keys stay inside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipstick.experiments.cli.cli import run

PHI = ["phi-cnn-small", "--on", "xeon-phi-7120p", "--set", "run.threads=240"]
TIMES = "threads,time_s\n1,16.0\n2,8.2\n4,4.3\n8,2.4\n16,1.5\n"
LOG = "seq_len,time_s\n" + "".join(f"{10 + n % 7},{0.1 + n % 7 / 100}\n" for n in range(40))
VERBS = {
    "estimate": ["estimate", "gpt2", "--on", "h100-sxm"],
    "estimate of several": ["estimate", "resnet50", "--on", "h100-sxm,a100-sxm,vega-fe"],
    "estimate of parts": ["estimate", *PHI, "--top", "4"],
    "whatif": ["whatif", "gpt2", "--on", "h100-sxm", "--vary", "workload.seq_len=128,1024"],
    "explain": ["explain", "gemm", "--on", "h100-sxm"],
    "extrapolate": ["extrapolate", "times.csv", "--to", "32,64"],
    "serve": ["serve", "llama-3.1-8b", "--on", "h100-sxm", "--concurrency", "2", "--output-tokens", "8"],
    "plan serving": ["plan", "serving", "llama-3.1-8b", "--on", "h100-sxm", "--devices", "1"],
    "plan training": ["plan", "training", "llama-3.1-8b", "--on", "h100-sxm", "--devices", "8", "--batch", "64"],
    "plan power-limit": ["plan", "power-limit", "--time", "240s", "--power", "220W", "--rated", "250W"],
    "seqpoint": ["seqpoint", "log.csv"],
    "machines list": ["machines", "list"],
    "machines show": ["machines", "show", "h100-sxm"],
    "machines check": ["machines", "check", "gaudi2"],
    "machines compare": ["machines", "compare", "h100-sxm", "a100-sxm"],
    "workloads list": ["workloads", "list"],
    "workloads show": ["workloads", "show", "phi-cnn-small"],
    "estimators list": ["estimators", "list"],
    "bricks split": ["bricks", "split", "resnet50"],
    "study list": ["study", "list"],
    "data list": ["data", "list"],
}
NAMED = {"mixnet_s"}
"""Names of networks that end as a key does."""
UNITS = r"(?:[pnµmkMGTP]?(?:s|J|W|Hz|B|B/s|flop/s)|min|h|%|\$)"
SPLIT = re.compile(rf"\d\n +{UNITS}(?![\w/])")
KEY = re.compile(r"(?<![\w.:'])[a-z]+(?:_[a-z0-9]+)*_(?:s|J|W|B|Hz|gb|per_s)(?![\w.])")


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_fits(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "times.csv").write_text(TIMES)
    (tmp_path / "log.csv").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(VERBS[verb]) == 0
    printed = capsys.readouterr().out
    wide = [line for line in printed.splitlines() if len(line) > 80]
    assert wide == []
    assert SPLIT.findall(printed) == []
    assert set(KEY.findall(printed)) <= NAMED


def test_texts_are_cut_between_words(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands before ``...`` is the beginning of a line of --verbose, up to a blank."""
    monkeypatch.setenv("COLUMNS", "400")
    words = ["estimate", "resnet50", "--on", "mi300x", "--dtype", "bf16"]
    assert run(words) == 0
    short = [line for line in capsys.readouterr().out.splitlines() if line.endswith(" ... (--verbose)")]
    assert run([*words, "--verbose"]) == 0
    whole = capsys.readouterr().out
    assert short
    for line in short:
        begun = line.removesuffix(" ... (--verbose)")
        assert f"{begun} " in whole or f"{begun}, " in whole or f"{begun}; " in whole or f"{begun}: " in whole


def test_typed_numbers_come_back_as_typed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    bandwidth = "machine.memory.HBM2e.bandwidth=1728GB/s,2TB/s"
    assert run(["whatif", "stream-triad", "--on", "A100", "--vary", bandwidth]) == 0
    assert {"1.728 TB/s", "2 TB/s"} <= set(re.findall(r"[\d.]+ TB/s", capsys.readouterr().out))
    assert run(["whatif", "gemm", "--on", "H100", "--vary", "workload.m=1024,4097", "--dtype", "bf16"]) == 0
    printed = capsys.readouterr().out
    assert "1,024" in printed and "4,097" in printed
