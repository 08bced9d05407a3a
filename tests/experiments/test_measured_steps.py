"""What to measure on one's own machine, and what the measured rows change, on every verb alike."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import slipstick as ss
from slipstick.common.errors import InputError
from slipstick.estimators.engine_steps.fitted_steps import serving_fit
from slipstick.estimators.engine_steps.measured_steps import (
    ServerStep,
    TimedServerStep,
    next_steps,
    usual_steps,
    with_measured,
)
from slipstick.estimators.engine_steps.step_amounts import Batch
from slipstick.estimators.engine_steps.step_law import STEP_LAW, columns_of
from slipstick.experiments.calibrate.calibrated import read_calibration
from slipstick.experiments.calibrate.measured_steps import read_measured_steps
from slipstick.experiments.calibrate.next_measurements import operations_to_measure, steps_to_measure
from slipstick.experiments.cli.cli import run
from slipstick.experiments.question.defaults import gpu_kernels
from slipstick.experiments.serve.plan_serving import Search
from slipstick.experiments.serve.serving_question import ServingOptions
from slipstick.experiments.serve.user_runs import steps_of_runs
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.graph.kinds import operation
from slipstick.workloads.graph.workload import Workload
from slipstick.workloads.language.layout import Layout
from slipstick.workloads.language_catalog import language_model
from slipstick.workloads.runs.traffic import Traffic

MODEL = "llama-3.1-8b"


def filled(lines: tuple[str, ...], seconds: list[float], path: Path) -> Path:
    """A CSV that was written to fill in, with its times: the last column."""
    path.write_text("\n".join([lines[0], *(f"{line}{time!r}" for line, time in zip(lines[1:], seconds, strict=True))]))
    return path


def seconds_of(known: Path | None, decodes: float, context: float) -> tuple[float, float, float]:
    """By `estimate` under vLLM, whose steps are measured, with its band."""
    fitted = None if known is None else read_calibration(None, known, "h100-sxm")
    sizes = {"workload.decodes": decodes, "workload.context": context, "machine.runtime.library": "vllm"}
    answer = ss.question(f"decode:{MODEL}", "h100-sxm", settings=sizes, calibration=fitted).answer()
    low, high = answer.interval() or (0.0, 0.0)
    return answer.time, low, high


def test_two_measured_steps_move_estimate_serve_and_plan_alike(tmp_path: Path) -> None:
    """A server that takes 1.3 x what ours takes: named, measured, given back; another batch moves as far."""
    wanted = steps_to_measure(f"decode:{MODEL}", machine("h100-sxm"), 2)
    times = [1.3 * float(row["predicted_s"]) for row in wanted.rows]
    path = filled(wanted.lines, times, tmp_path / "steps.csv")
    plain, known = seconds_of(None, 32, 2048), seconds_of(path, 32, 2048)
    assert known[0] / plain[0] == pytest.approx(1.3, rel=0.06)
    assert known[1] <= 1.3 * plain[0] <= known[2]
    assert math.log(known[2] / known[1]) < 0.9 * math.log(plain[2] / plain[1])
    wanted = ServingOptions(MODEL, "h100-sxm")
    served = replace(wanted, steps=steps_of_runs(str(path), wanted, Traffic(1024, 256, 1))).deployment()
    assert served.step.seconds(Batch(32.0, 2048.0)) == pytest.approx(known[0], rel=1e-9)
    assert np.exp(2 * served.half_width(Batch(32.0, 2048.0))) == pytest.approx(known[2] / known[1], rel=1e-6)
    assert "2 measured steps (x1.3 of what others say): used" in served.assumptions()
    with_plan, without = (
        Search(MODEL, ("h100-sxm",), devices=1, known=name).run().candidates for name in (str(path), None)
    )
    assert {c.users for c in with_plan} == {c.users for c in without}
    ratios = {more.users: more.tpot / less.tpot for more, less in zip(with_plan, without, strict=True)}
    assert ratios[1] == pytest.approx(1.3, rel=0.1)
    assert min(ratios.values()) > 1.1, "prompts share the steps of large loads, and none was measured"


def test_what_a_stranger_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What to measure for my model on my machine; I measured it; what do my other batches take?"""
    path = tmp_path / "steps.csv"
    words = ["measure", "anchors", "--workload", f"decode:{MODEL}", "--on", "mi300x", "--next", "2", "--out", str(path)]
    assert run(words) == 0
    assert f"then --measured {path}" in capsys.readouterr().out
    filled(tuple(path.read_text().splitlines()), [0.015, 0.05], path)
    ask = [f"decode:{MODEL}", "--on", "mi300x", "--decodes", "32", "--format", "json"]
    assert run(["estimate", *ask]) == 0
    plain = json.loads(capsys.readouterr().out)[0]
    assert run(["estimate", *ask, "--measured", str(path)]) == 0
    known = json.loads(capsys.readouterr().out)[0]
    assert 1.2 < known["time_s"] / plain["time_s"] < 1.8
    assert known["high_s"] / known["low_s"] < 0.8 * plain["high_s"] / plain["low_s"]
    for rest in (
        ["serve", MODEL, "--concurrency", "2", "--num-requests", "4"],
        ["plan", "serving", MODEL, "--devices", "1"],
    ):
        assert run([*rest, "--on", "mi300x", "--measured", str(path)]) == 0
        assert "2 measured steps" in " ".join(capsys.readouterr().out.split())
    vary = ["whatif", f"decode:{MODEL}", "--on", "mi300x", "--vary", "machine.clock=1.1x", "--measured", str(path)]
    assert run(vary) == 0
    assert "2 measured steps" in " ".join(capsys.readouterr().out.split())


def test_known_steps_of_one_machine_are_for_one_machine(tmp_path: Path) -> None:
    path = filled(steps_to_measure(MODEL, machine("h100-sxm"), 1).lines, [0.03], tmp_path / "steps.csv")
    with pytest.raises(InputError, match="are of one machine, not of h100-sxm, h200-sxm"):
        Search(MODEL, ("h100-sxm", "h200-sxm"), devices=1, known=str(path)).run()
    with pytest.raises(InputError, match="measured steps are of serving, gpt2 is no step of it"):
        ss.question("gpt2", "h100-sxm", calibration=read_calibration(None, path, "h100-sxm"))


def test_a_choice_of_steps_leaves_less_unknown_than_those_next_to_each_other() -> None:
    """The first two: compared with the first and its neighbour in the list, by what is left afterwards."""
    at = machine("mi300x")
    offered = usual_steps(language_model(MODEL), "bf16", at, "vllm", Layout(), "mixed")
    best = next_steps(offered, 2)
    assert best[1].left < best[0].left < np.mean([one.spread for one in next_steps(offered, len(offered))[:1]])
    places = [offered.index(one.step) for one in best]
    pair = [offered[places[0]], offered[places[0] - 1]]
    assert best[1].left <= next_steps(pair, 2, wanted=offered)[1].left


def test_steps_that_contradict_each_other_are_not_used() -> None:
    """Times that scatter by a factor of two, in no order: the law alone predicts each better than the others do."""
    at, model = machine("h100-sxm"), language_model(MODEL)
    steps = usual_steps(model, "bf16", at, "vllm", Layout(), "decode")[:8]
    law, fit = STEP_LAW, serving_fit()
    groups = {name: [group] * len(steps) for name, group in steps[0].groups().items()}
    plain = fit.steps.seconds(law, columns_of([step.row() for step in steps]), groups)
    noise = np.array([2.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 2.0])
    made = with_measured([TimedServerStep(s, float(t)) for s, t in zip(steps, plain * noise, strict=True)])
    assert made.known.share == 0 and "not used" in made.text()
    after = made.fit.steps.seconds(law, columns_of([step.row() for step in steps]), groups)
    assert after == pytest.approx(plain, rel=1e-9)


def test_a_step_faster_than_the_data_sheet_is_refused() -> None:
    step = ServerStep(language_model(MODEL), "bf16", machine("h100-sxm"), "vllm", Batch(1.0, 1024.0))
    with pytest.raises(InputError, match=r"needs at least 4\.\d+ ms by its data sheet"):
        with_measured([TimedServerStep(step, 2e-3)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("step,decodes,context,time_s\ntrain:x,1,1,1\n", "line 2: step = 'train:x': want decode:MODEL or prompt:MODEL"),
        ("step,decodes,context,time_s\ndecode:llama-3.1-8b,1,,1\n", "line 2: context is empty"),
        ("step,decodes,context,time_s\ndecode:llama-3.1-8b,1,1,\n", "no line has a time_s"),
        ("step,decodes,context,time_s\ndecode:llama-3.1-8b,1,1,6 ms\n", "time_s = '6 ms' is no number"),
        ("step,decodes,contxt,time_s\ndecode:llama-3.1-8b,1,1,1\n", "contxt"),
        ("step,prompt,engine,time_s\nprompt:llama-3.1-8b,1,vlm,1\n", "serving engine"),
        ("step,prompt,tensor,time_s\nprompt:llama-3.1-8b,1,two,1\n", "tensor = 'two'"),
    ],
)
def test_files_that_cannot_be_used_say_where(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "steps.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_measured_steps(path, machine("h100-sxm"))
    assert words in str(caught.value) and str(path) in str(caught.value)


def test_operations_of_ones_own_program_are_chosen_by_their_share(tmp_path: Path) -> None:
    """One large product takes nearly all of the time: it is measured first, and its time moves the whole."""
    large = operation("large", "gemm", {"batch": 1, "m": 8192, "n": 8192, "k": 8192}, "float32")
    small = operation("small", "gemm", {"batch": 1, "m": 64, "n": 64, "k": 64}, "float32")
    work = Workload("two products", (large, small), (("large", "small"),))
    at = machine("rtx-5090")
    wanted = operations_to_measure(work, at, gpu_kernels(), 1)
    assert wanted.rows[0]["sizes"] == "batch = 1, m = 8192, n = 8192, k = 8192"
    path = filled(wanted.lines, [1.4 * float(wanted.rows[0]["predicted_s"])], tmp_path / "operations.csv")
    before, after = (
        ss.question(work, at, calibration=read_calibration(file, anchors, at)).answer()
        for file, anchors in (("gpus", None), (None, path))
    )
    assert 1.2 < after.time / before.time <= 1.41
    low, high = after.interval() or (0.0, 0.0)
    assert low < 1.4 * before.time < high
