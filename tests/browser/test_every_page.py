"""Every kind of answer that ships a page, in a browser: no error, no value that is none, no chart without a mark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slipstick as ss
from slipstick.common.answer import Answer
from slipstick.experiments.cli.cli import run
from tests.experiments.test_answer_faces import ANSWERS
from tests.files_made import nsys
from tests.verbs_there import options

pytestmark = pytest.mark.browser
OWN_JOB = """
name: my loader and its GPU
steps: 40
device: step
resources: {cores: 4}
vary: ["job.resources.cores=2,4,8"]
stages:
  - {name: decode, service: 30 ms, variation: 0.6, workers: 8, buffer: 4, resource: cores}
  - {name: step, gather: 4, service: 12 ms}
"""
OWN_TIMES = "threads,time_s\n1,103\n2,54.3\n4,29.7\n8,17.6\n16,12.1\n24,10.4\n"
OWN_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
OWN_MATRIX = "%%MatrixMarket matrix coordinate pattern general\n3 3 4\n1 1\n2 2\n3 3\n3 1\n"
SERVED = ["--on", "h100-sxm", "--devices", "1", "--concurrency", "4", "--output-tokens", "16"]
PHI = ["phi-cnn-medium", "--on", "xeon-phi-7120p", "--set", "run.threads=240"]
PAGES = {
    "estimate": ["estimate", "gemm", "--on", "h100-sxm"],
    "estimate of several": ["estimate", "gemm", "--on", "h100-sxm,a100-sxm,vega-fe"],
    "estimate of a step": ["estimate", "train:llama-3.1-8b", "--on", "h100-dgx"],
    "estimate of a job": ["estimate", "phi-memory", "--simulate", "--runs", "3", "--set", "job.steps=200"],
    "estimate of an own job": ["estimate", "job.yaml", "--simulate", "--runs", "3"],
    "whatif": ["whatif", "gemm", "--on", "h100-sxm", "--vary", "workload.m=1024..8192:4log"],
    "whatif of two": ["whatif", *PHI, "--vary", "run.threads=15,240", "--vary", "machine.clock=1GHz,2GHz"],
    "explain": ["explain", "mlp-inference", "--on", "h100", "--dtype", "bf16"],
    "explain a large one": ["explain", "gpt2", "--on", "h100", "--dtype", "bf16"],
    "explain a fit": ["explain", *PHI],
    "explain by tables": ["explain", "decode:llama-3.1-8b", "--on", "h100-sxm"],
    "explain bounds": ["explain", "gemm", "--on", "v100-sxm", "--estimator", "roofline"],
    "extrapolate": ["extrapolate", "times.csv", "--to", "48,128"],
    "serve an own model": ["serve", "config.json", *SERVED],
    "plan serving": ["plan", "serving", "llama-3.1-8b", "--on", "h100-sxm", "--devices", "1"],
    "plan training": ["plan", "training", "llama-3.1-8b", "--on", "h100-dgx", "--devices", "8", "--batch", "8"],
    "plan power-limit": ["plan", "power-limit", "--time", "240s", "--power", "220W", "--rated", "250W"],
    "machines compare": ["machines", "compare", "h100-sxm", "rtx-5060-ti"],
    "replay": ["replay", "steps.sqlite", "--on", "h100-sxm"],
    "spmv predict": ["spmv", "predict", "own.mtx"],
}
"""Commands without their `--report`."""
LONG = ("explain a large one",)
STUDY = ["whatif", "gemm", "--on", "v100-sxm", "--vary", "workload.m=1024,2048", "--save", "study.toml"]
NO_NUMBERS = r"/(?<![\w.-])(NaN|-?Infinity|undefined|nan|-?inf|\[object \w+\])(?![\w-])/"
WRONG = (
    "(() => { const said = []; document.querySelectorAll('details').forEach(one => { one.open = true; });"
    f"const text = document.body.innerText.match({NO_NUMBERS}); if (text) said.push('shows ' + text[0]);"
    "for (const one of document.querySelectorAll('td, .card b, output'))"
    "  if (/^(null|None)$/.test(one.textContent.trim())) said.push('a cell shows ' + one.textContent);"
    "for (const one of document.querySelectorAll('.figure')) {"
    "  const name = one.id || one.querySelector('h3')?.textContent;"
    "  const svgs = [...one.querySelectorAll('svg')]; if (!svgs.length) said.push(name + ': no chart');"
    "  for (const svg of svgs) {"
    "    const placed = e => ![...e.attributes].some(a => /NaN|Infinity|undefined/.test(a.value));"
    "    if (![...svg.querySelectorAll('*')].every(placed))"
    "      said.push(name + ': a mark has no place');"
    "    const groups = svg.querySelectorAll('g[id^=axes_]');"
    "    const drawn = group => [...group.children].some(e => /^(line2d|PathColl|PolyColl|FillBetw|LineColl|QuadMesh)/"
    "      .test(e.id) || e.querySelector('image') || (e.id.startsWith('patch_') && e !== group.firstElementChild"
    "      && [...e.querySelectorAll('path')].some(p => getComputedStyle(p).fill !== 'none'"
    "      && p.getBBox().width > 0 && p.getBBox().height > 0)));"
    "    if (groups.length ? ![...groups].every(drawn) : ![...svg.querySelectorAll('polyline, path, circle, rect')]"
    "      .some(e => e.getBBox().width > 0)) said.push(name + ': nothing is drawn'); } }"
    "return [...new Set(said)]; })()"
)
"""JavaScript: what a page shows that is no answer."""
TURNED = (
    "(() => { if (!window.slipstick || !slipstick.now) return []; const said = [];"
    "about.today.forEach((today, place) => { for (const factor of [0.125, 1, 8]) {"
    "  const there = [...about.today];"
    "  there[place] = Math.min(about.high[place], Math.max(about.low[place], today * factor));"
    "  const band = slipstick.band(there), memory = slipstick.memory(there);"
    "  const numbers = [slipstick.time(there), ...(band ? [band.time, band.ratio] : []),"
    "    ...(memory ? [memory.needed, memory.there] : [])];"
    "  if (!numbers.every(Number.isFinite)) said.push(model.names[place] + ' x ' + factor + ': ' + numbers); } });"
    "return said; })()"
)
"""JavaScript: the sliders at whose ends a page computes no number."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Own files that the commands read."""
    made = tmp_path_factory.mktemp("pages")
    (made / "job.yaml").write_text(OWN_JOB)
    (made / "times.csv").write_text(OWN_TIMES)
    (made / "own.mtx").write_text(OWN_MATRIX)
    (made / "config.json").write_text(json.dumps(OWN_MODEL))
    nsys(made / "steps.sqlite")
    return made


@pytest.fixture(scope="module")
def tab(browser: Callable[[], Any]) -> Any:
    """One tab for all pages."""
    return browser()


def _problems(tab: Any, page: Path) -> list[str]:
    tab.errors.clear()
    tab.open(page)
    return [*tab.evaluate(WRONG), *tab.evaluate(TURNED), *tab.errors]


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow) if kind in LONG else kind for kind in sorted(PAGES)]
)
def test_a_page_shows_numbers_and_charts(
    kind: str, tab: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    page = folder / f"{kind.replace(' ', '-')}.html"
    assert run([*PAGES[kind], "--report", str(page)]) == 0, capsys.readouterr().err
    assert _problems(tab, page) == []


def test_the_page_of_a_study(tab: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for words in (
        STUDY,
        ["study", "run", "study.toml", "--folder", "run"],
        ["study", "report", "study.toml", "--folder", "run"],
    ):
        assert run(words) == 0
    (page,) = folder.glob("run/**/report.html")
    assert _problems(tab, page) == []


@pytest.mark.parametrize("make", ANSWERS, ids=lambda make: make.__name__)
def test_the_page_of_any_answer(make: Callable[[], Answer], tab: Any, folder: Path) -> None:
    assert _problems(tab, ss.page(make(), folder / f"{make.__name__}-alone.html")) == []


def test_every_verb_that_writes_a_page_is_looked_at() -> None:
    writing = {verb for verb, words in options().items() if "--report" in words}
    assert writing <= {" ".join(words[:2]) for words in PAGES.values()} | {words[0] for words in PAGES.values()}
