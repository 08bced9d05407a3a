"""Pages in headless Chromium: they load alone, hover, filter and sort, and their sliders compute what Python does."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstick.common.records import FrozenDict
from slipstick.common.trusted_code import TrustedName
from slipstick.experiments.explain.evaluator import Evaluator
from slipstick.experiments.papers.xeon_phi import xeon_phi_report
from slipstick.experiments.question.facts import facts
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.space import Range, Space
from slipstick.experiments.question.user_code import own_program
from slipstick.experiments.report import whatif_page
from slipstick.experiments.report.answer_page import write_answers
from slipstick.experiments.report.slide_rule import data_of
from slipstick.experiments.studies.whatif import answer

pytestmark = pytest.mark.browser
ASKED = {
    "phi": ("phi-cnn-medium", "xeon-phi-7120p", "phi-a", ["run.threads=240"]),
    "gnmt": ("gnmt", "v100-sxm", "roofline", []),
    "resnet": ("resnet50", "tpu-v3-8", "roofline", []),
    "product": ("gemm", "h100-sxm", None, ["workload.m=4096"]),
}
DEFAULTS = {
    "gpt2": ("gpt2", "h100-sxm", None, []),
    "resnet50": ("resnet50", "a100-sxm", None, []),
    "decode": ("decode:llama-3.1-8b", "h100-sxm", None, []),
    "amd": ("resnet50", "vega-fe", None, []),
}
"""Default answers, of which some choose tiles and splits of each product; `OWN` is a module of one's own."""
OWN = """
import torch
from torch import nn


def network():
    layers = nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(64, 10)), (torch.zeros(64, 3, 128, 128),)
"""


def _question(name: str) -> Question:
    workload, machine, estimator, settings = (ASKED | DEFAULTS)[name]
    return question(workload, machine, estimator, settings)


def _slide_rule(asked: Question, path: Path) -> Path:
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("bottlenecks", "elasticities", "crossovers", "tornado", "changes")
    }
    return whatif_page.write_explanation(asked, asked.answer(), tables, 0.9, path)


def _fits(page: Any, width: int) -> None:
    """Nothing sticks out to the side, and letters are large enough to read."""
    page.size(width, 900)
    page.until("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") >= 14
    outside = (
        "[...document.querySelectorAll('h1,h2,p,.card')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
    )
    assert page.evaluate(f"{outside}.length") == 0


@pytest.fixture(scope="module")
def phi_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return xeon_phi_report.write(tmp_path_factory.mktemp("phi"))[0]


def test_the_demonstration_loads_alone_and_shows_its_numbers(page: Any, phi_page: Path) -> None:
    page.size(1280, 900)
    page.open(phi_page)
    page.until("document.querySelectorAll('.figure > svg').length > 1")
    text = page.evaluate("document.body.innerText")
    assert "4.6 min" in text and "3.5 .. 6.0 min" in text
    assert "no measured run time is drawn here" in text
    assert page.evaluate("document.querySelector('math').getBoundingClientRect().height") > 60
    assert page.errors == []


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_are_readable(page: Any, phi_page: Path, width: int) -> None:
    page.open(phi_page)
    page.until("document.querySelectorAll('.figure > svg').length > 1")
    _fits(page, width)
    assert page.errors == []


def test_a_point_says_its_numbers_under_the_mouse(page: Any, phi_page: Path) -> None:
    page.size(1280, 900)
    page.open(phi_page)
    page.evaluate("document.getElementById('times').scrollIntoView()")
    place = page.evaluate(
        "(() => { const drawn = document.querySelector('#times > svg'), box = drawn.getBoundingClientRect();"
        "const [x, y] = JSON.parse(drawn.dataset.points).find(one => /^small, the paper.* at 480$/.test(one[2]));"
        "const scale = box.width / drawn.viewBox.baseVal.width; return [box.x + x * scale, box.y + y * scale]; })()"
    )
    page.move(*place)
    page.until("!document.querySelector('#times .tip').hidden")
    said = page.evaluate("document.querySelector('#times .tip').textContent")
    assert re.match(r"small, .*: 6\.[56]\d* min.* at 4(79|80)", said)  # the small network's line or mark at 480 threads
    page.move(2, 2)
    page.until("document.querySelector('#times .tip').hidden")


def test_tables_filter_and_sort(page: Any, phi_page: Path) -> None:
    page.open(phi_page)
    rows = "[...document.querySelectorAll('#parameters tbody tr')].filter(r => !r.hidden)"
    everything = page.evaluate(f"{rows}.length")
    page.evaluate(
        "(() => { const box = document.querySelector('input[data-table=parameters]'); box.value = 'large 240';"
        "box.dispatchEvent(new Event('input')); })()"
    )
    assert 0 < page.evaluate(f"{rows}.length") < everything
    assert page.evaluate(f"{rows}.every(r => r.textContent.includes('large'))")
    page.evaluate("document.querySelectorAll('#answers th')[4].click()")
    times = page.evaluate(
        "[...document.querySelectorAll('#answers tbody tr')].map(r => Number(r.cells[4].dataset.value))"
    )
    assert times == sorted(times) and len(times) == 6


def test_tables_and_pictures_are_saved(page: Any, tmp_path: Path) -> None:
    """What a click saves: a table's values unrounded, as CSV; a picture three times as large, as PNG."""
    written = write_answers([_question("gnmt")], str(tmp_path / "gnmt.html"))
    page.open(written)
    page.evaluate(
        "window.saved = []; URL.createObjectURL = (make => blob => { saved.push(blob); return make(blob); })"
        "(URL.createObjectURL.bind(URL)); HTMLAnchorElement.prototype.click = () => {};"
        "for (const word of ['CSV', 'PNG']) [...document.querySelectorAll('button.save')]"
        ".find(button => button.textContent === word).click();"
    )
    page.until("saved.some(blob => blob && blob.type === 'image/png')")
    table = page.evaluate("saved.find(blob => blob.type === 'text/csv').text()")
    rows = list(csv.reader(table.splitlines()))
    assert rows[0][:3] == ["kind", "count", "time"] and len({len(row) for row in rows}) == 1
    times = [float(row[2]) for row in rows[1:]]
    assert sum(times) == pytest.approx(_question("gnmt").answer().time, rel=1e-9)
    assert page.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_stand_out_in_both_schemes(page: Any, tmp_path: Path, scheme: str) -> None:
    """Contrast of at least 4.5 to 1 between letters and paper (WCAG 2.2, 1.4.3)."""
    written = write_answers([_question("gnmt")], str(tmp_path / "gnmt.html"))
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.open(written)
    paper = _luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert (paper < 0.2) == (scheme == "dark")
    for seen in ("h1", "summary", ".card small", "td", "button.save"):
        letters = _luminance(page.evaluate(f"getComputedStyle(document.querySelector('{seen}')).color"))
        assert (max(letters, paper) + 0.05) / (min(letters, paper) + 0.05) >= 4.5, seen
    page.call("Emulation.setEmulatedMedia", features=[])


def _luminance(color: str) -> float:
    """Relative luminance of ``rgb(r, g, b)``: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    parts = [int(one) / 255 for one in re.findall(r"\d+", color)[:3]]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", list(ASKED))
def test_javascript_computes_what_python_does(page: Any, tmp_path: Path, name: str) -> None:
    _computes_alike(page, _question(name), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(DEFAULTS))
def test_default_answers_have_sliders_that_compute_what_python_does(page: Any, tmp_path: Path, name: str) -> None:
    asked = _question(name)
    if data_of(asked)[2]:  # tables of what whatif answers: exact for one slider at a time
        page.open(_slide_rule(asked, tmp_path / "rule.html"))
        page.until("window.slipstick !== undefined")
    else:
        _computes_alike(page, asked, tmp_path)
    _is_the_command(page, asked)


@pytest.mark.slow
def test_a_module_of_ones_own_has_sliders(page: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "of_mine.py"
    path.write_text(OWN)
    asked = question(own_program(TrustedName(f"{path}:network"), []), "h100-sxm")
    page.open(_slide_rule(asked, tmp_path / "rule.html"))
    page.until("window.slipstick !== undefined")
    _is_the_command(page, asked)


def _is_the_command(page: Any, asked: Question) -> None:
    """Before a slider moves the page has what `estimate` prints; a moved one has what `whatif` prints."""
    given = asked.answer()
    known = facts(asked, given)
    now = page.evaluate("slipstick.now")
    assert now["time"] == pytest.approx(given.time, rel=1e-6)
    ends = given.interval()
    assert ends is not None
    assert [now["time"] / now["band"]["time"], now["time"] * now["band"]["time"]] == pytest.approx(ends, rel=1e-6)
    if known.memory is not None:
        assert now["memory"]["needed"] == pytest.approx(known.memory.needed, rel=1e-6)
        assert now["memory"]["word"] == known.memory.verdict
    assert known.bounds[0][0] == max(now["bound"], key=now["bound"].get)
    bandwidth = f"machine.memory.{asked.machine.main_memory}.bandwidth"
    at = page.evaluate("slipstick.names").index(bandwidth)
    page.evaluate(
        f"(() => {{ const dial = document.querySelector('[data-dial=\"{at}\"]'); dial.value = -1;"
        "dial.dispatchEvent(new Event('input')); })()"
    )
    page.until("slipstick.now.ratio > 1")
    half = 0.5 * asked.machine.get(bandwidth.removeprefix("machine."))
    found = answer(replace(asked, vary=Space(FrozenDict({bandwidth: (half,)})))).frame.iloc[0]
    now = page.evaluate("slipstick.now")
    assert now["time"] == pytest.approx(found.time_s, rel=1e-6)
    assert now["ratio"] / now["band"]["ratio"] == pytest.approx(found.low_ratio, rel=1e-6)
    assert now["ratio"] * now["band"]["ratio"] == pytest.approx(found.high_ratio, rel=1e-6)


def _computes_alike(page: Any, asked: Question, folder: Path) -> None:
    path = _slide_rule(asked, folder / "rule.html")
    page.open(path)
    page.until("window.slipstick !== undefined")
    _, names, _ = data_of(asked)
    dials = Evaluator.of(asked, names)
    generator = np.random.default_rng(8)
    powers = generator.uniform(-3, 3, (200, len(names)))
    points = np.array([dials.today[n] for n in names]) * 2**powers
    for index, quantity in enumerate(names):
        if quantity in dials.whole or quantity.startswith("run."):
            points[:, index] = np.maximum(1, np.round(points[:, index]))
        if quantity.startswith("estimator."):
            note = dials.function.bounds[quantity.removeprefix("estimator.")]
            points[:, index] = np.clip(points[:, index], note.low, note.high)
    theirs = np.array(page.evaluate(f"{json.dumps(points.tolist())}.map(point => slipstick.time(point))"))
    ours = dials.function({quantity: points[:, index] for index, quantity in enumerate(names)})
    assert page.evaluate("slipstick.names") == names
    assert np.max(np.abs(theirs / ours - 1)) < 1e-12
    assert page.errors == []


def test_sliders_move_ratio_band_and_bottleneck(page: Any, tmp_path: Path) -> None:
    asked = _question("phi")
    path = _slide_rule(asked, tmp_path / "rule.html")
    page.size(1280, 900)
    page.open(path)
    page.until("document.querySelector('#curve svg') !== null")
    assert page.evaluate("document.getElementById('ratio').textContent") == "1.00"
    _, names, _ = data_of(asked)
    clock = names.index("machine.clock")
    page.evaluate(
        f"(() => {{ const dial = document.querySelector('[data-dial=\"{clock}\"]'); dial.value = 1;"
        "dial.dispatchEvent(new Event('input')); })()"
    )
    page.until("document.getElementById('ratio').textContent !== '1.00'")
    found = answer(replace(asked, vary=Space(FrozenDict({"machine.clock": (2 * asked.machine.clock,)})))).frame.iloc[0]
    assert float(page.evaluate("document.getElementById('ratio').textContent")) == pytest.approx(
        found.time_ratio, rel=6e-3
    )
    low, high = map(float, re.findall(r"\d+\.\d+", page.evaluate("document.getElementById('ratio-band').textContent")))
    assert (low, high) == (pytest.approx(found.low_ratio, rel=0.02), pytest.approx(found.high_ratio, rel=0.02))
    _fits(page, 390)
    page.evaluate("document.getElementById('reset').click()")
    page.until("document.getElementById('ratio').textContent === '1.00'")
    assert page.errors == []


@pytest.mark.parametrize("kind", ["estimate", "whatif"])
def test_pages_of_estimates_and_what_ifs_have_sliders(page: Any, tmp_path: Path, kind: str) -> None:
    """Each quantity by its words with the name for `--set` beneath; half the clock is what `whatif` prints."""
    asked = _question("gnmt")
    half = answer(replace(asked, vary=Space(FrozenDict({"machine.clock": (0.5 * asked.machine.clock,)}))))
    written = tmp_path / "page.html"
    write_answers([asked], written) if kind == "estimate" else whatif_page.write(half, written)
    page.open(written)
    page.until("window.slipstick !== undefined")
    page.evaluate(
        "(() => { const dial = [...document.querySelectorAll('label.slider')].find(one =>"
        "one.querySelector('span').innerText === 'clock\\nmachine.clock').querySelector('input'); dial.value = -1;"
        "dial.dispatchEvent(new Event('input')); })()"
    )
    page.until("slipstick.now.ratio > 1")
    assert page.evaluate("slipstick.now.ratio") == pytest.approx(half.frame.time_ratio.iloc[0], rel=1e-9)
    assert page.evaluate("document.querySelectorAll('[id]:not(svg *)').length") == page.evaluate(
        "new Set([...document.querySelectorAll('[id]:not(svg *)')].map(one => one.id)).size"
    )
    assert page.errors == []


def test_a_timeline_zooms_and_says_what_ran(page: Any, tmp_path: Path) -> None:
    """The stretches of a page are those of the answer; the wheel shows a part, a double click the whole."""
    asked = question("gpt2", "h100-sxm", "roofline-dispatch")
    page.size(1100, 900)
    page.open(write_answers([asked], tmp_path / "page.html"))
    drawn = json.loads(page.evaluate("document.querySelector('.timeline').dataset.timeline"))
    events = asked.answer().trace
    assert [(start, end) for _, start, end, *_ in drawn["events"]] == [(one.start, one.end) for one in events]
    page.evaluate("document.querySelector('.timeline').scrollIntoView()")
    canvas = "document.querySelector('.timeline canvas')"
    whole = page.evaluate(f"{canvas}.toDataURL()")
    page.evaluate(f"{canvas}.dispatchEvent(new WheelEvent('wheel', {{deltaY: -1, cancelable: true}}))")
    assert page.evaluate(f"{canvas}.toDataURL()") != whole
    page.evaluate(f"{canvas}.dispatchEvent(new MouseEvent('dblclick'))")
    assert page.evaluate(f"{canvas}.toDataURL()") == whole
    x, y = page.evaluate(
        f"(() => {{ const box = {canvas}.getBoundingClientRect(); return [box.x + box.width / 2, box.y + 10]; }})()"
    )
    page.move(x, y)
    page.until("!document.querySelector('.timeline .tip').hidden")
    said = page.evaluate("document.querySelector('.timeline .tip').textContent")
    assert said.partition(":")[0] in {one.name for one in events}
    assert page.errors == []


@pytest.mark.timed
def test_a_page_of_a_hundred_thousand_points_is_light(page: Any, tmp_path: Path) -> None:
    asked = _question("gnmt")
    bandwidth = f"machine.memory.{asked.machine.main_memory}.bandwidth"
    ranges = {"machine.clock": Range(5e8, 3e9, "log"), bandwidth: Range(2e11, 4e12, "log")}
    found = answer(replace(asked, vary=Space(FrozenDict(), FrozenDict(ranges), 100_000)))
    path, _ = whatif_page.write(found, tmp_path / "many.html")
    assert path.stat().st_size < 1e6
    small, _ = whatif_page.write(
        answer(replace(asked, vary=Space(FrozenDict({"machine.clock": (1e9, 2e9)})))), tmp_path / "few.html"
    )
    drawn = "document.querySelectorAll('.figure svg').length >= 1"
    spent: dict[Path, float] = {}
    for file in (small, path, small, path):
        now = page.open(file)
        page.until(drawn)
        spent[file] = min(now, spent.get(file, now))
    assert spent[path] < 2 * spent[small] + 0.5
    assert page.evaluate("document.querySelectorAll('#points tbody tr').length") <= 500
    assert page.errors == []


def test_the_front_is_highlighted_and_can_be_all_that_is_left(page: Any, tmp_path: Path) -> None:
    asked = question("mlp-inference", "v100-sxm", "roofline", ["machine.price=3", "workload.batch=400"])
    axes = {"machine.cores": (20.0, 40.0, 80.0, 160.0), "machine.clock": (0.8e9, 1.1e9, 1.5e9)}
    found = answer(replace(asked, vary=Space(FrozenDict(axes))))
    path, _ = whatif_page.write(found, tmp_path / "w.html", (), ["time", "area=machine.cores"])
    page.open(path)
    page.until("document.querySelectorAll('#points-front-0 svg').length > 0")
    rows = "[...document.querySelectorAll('#points tbody tr')]"
    front = page.evaluate(f"{rows}.filter(r => r.classList.contains('front')).length")
    assert front == 4  # the fastest clock for each number of cores
    assert page.evaluate(f"{rows}.length") == 12
    toggle = "(() => {{ const box = document.querySelector('input.front'); box.checked = {}; "
    toggle += "box.dispatchEvent(new Event('input')); }})()"
    page.evaluate(toggle.format("true"))
    assert page.evaluate(f"{rows}.filter(r => !r.hidden).length") == front
    page.evaluate(toggle.format("false"))
    assert page.evaluate(f"{rows}.filter(r => !r.hidden).length") == 12
    assert page.errors == []
