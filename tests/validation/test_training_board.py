"""The board of published training runs: what its rows were, and layouts that are searched where none is published."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstick.estimators.fitting.fit_model import fit
from slipstick.estimators.fitting.fitted_file import digest, load_fitted
from slipstick.estimators.training.time_breakdown import TrainingTerms
from slipstick.estimators.training.training_domain import fitted_runs, groups_at, training_fit
from slipstick.estimators.training.training_law import TRAINING_LAW
from slipstick.experiments.calibrate.public_data import training_file
from slipstick.experiments.scoreboards.training.training_board import searched
from slipstick.experiments.scoreboards.training.training_coverage import memory_row
from slipstick.experiments.scoreboards.training.training_fit import law_rows, outer_folds, release_of
from slipstick.experiments.scoreboards.training.training_rows import (
    FILES,
    TrainingRun,
    training_runs,
    unplaced_runs,
)
from slipstick.hwmodels.catalog import machine
from slipstick.workloads.language_catalog import language_model


def rows(source: str) -> list[TrainingRun]:
    path = training_file(FILES[source])
    if path is None:
        pytest.skip(f"{FILES[source]} is not there: set SLIPSTICK_DATA")
    return training_runs(source, path)[0]


def test_what_ships_is_what_the_public_runs_give() -> None:
    """The rows are those that the file names, and a fit to them gives its numbers again."""
    runs = [run for source in FILES for run in rows(source)]
    shipped, made = load_fitted("training"), fit(TRAINING_LAW, law_rows(runs))
    assert shipped.used == len(runs) and fitted_runs("fsdp").runs == len(rows("llm-foundry"))
    assert {file: digest(path) for file in FILES.values() if (path := training_file(file))} == shipped.rows
    assert shipped.fit(TRAINING_LAW.name).logs == pytest.approx(made.logs, abs=1e-3)


def test_a_run_is_foretold_from_releases_before_it() -> None:
    runs = rows("megatron-bridge")
    folds = outer_folds(runs, "megatron-bridge", "release")
    names = [release_of(run) for run in runs]
    assert len(folds) == 6
    for fold in folds:
        assert max(names[at] for at in fold.known) < min(names[at] for at in fold.scored)


def test_a_release_that_was_not_measured_is_like_the_newest_before_it() -> None:
    made = training_fit()
    groups = groups_at(language_model("qwen3-30b-a3b"), machine("gb200"), "mxfp8", "megatron")
    newest = made.known(groups)["release"]
    assert newest == max(name for name in made.fit.seen("release") if name.startswith("megatron-bridge"))
    assert made.known({**groups, "release": "megatron-bridge 99.01"})["release"] == newest
    assert made.known({**groups, "software": "fsdp"})["release"] == ""


def test_what_was_not_measured_has_a_wider_band() -> None:
    """Another vendor, another chip, another precision: the less of a question was seen, the wider."""
    model, made = language_model("llama-3.1-70b"), training_fit()
    run = next(run for run in rows("megatron-bridge") if run.model == model and run.system == "gb200")
    columns = law_rows([run]).columns
    seen = groups_at(model, machine("gb200"), run.precision, "megatron")
    questions = [seen, {**seen, "chip": "unknown", "recipe": "unknown"}]
    questions.append({**questions[1], "vendor": "unknown"})
    widths = [float(made.half_width(columns, [one])[0]) for one in questions]
    assert widths == sorted(widths) and widths[2] > 1.3 * widths[0]
    there = made.known(groups_at(model, machine("tpu-v5p"), "bf16", "megatron"))
    assert there["software"] not in made.fit.seen("software"), "NVIDIA's stack does not run on a TPU"


def test_layouts_that_ran_are_counted_by_what_the_band_says_of_them() -> None:
    row = memory_row("mlperf", rows("mlperf"))
    assert row.n == 12 and row.ours == 1.0 and row.reason.endswith("does not fit: 0")


def test_a_row_without_a_layout_gets_one_of_its_devices_and_batch() -> None:
    """GPT-3 on 64 B200 took 40.4 s a step (MLPerf training v4.1, NVIDIA); no row of GPT-3 is in a fit."""
    rows("mlperf")
    path = training_file(FILES["mlperf"])
    assert path is not None
    runs = unplaced_runs(path)
    assert {run.model.name for run in runs} == {"gpt3-175b", "llama-3.1-405b"}
    run = min(runs, key=lambda run: run.devices)
    placed = searched(run, TrainingTerms())
    assert run.devices == 64 and placed.layout.devices <= 64 and placed.batch == 2048
    assert placed.layout.tensor * placed.layout.pipeline >= 8  # 175e9 parameters do not fit otherwise


def test_rows_that_cannot_be_read_are_left_out_by_their_reasons_and_the_others_are_kept(tmp_path: Path) -> None:
    """The catalogue's models count, whether a public row had them or not; an unknown word costs its own row."""
    head = (
        "release,phase,model,system,gpus,precision,global_batch_size,micro_batch_size,sequence_length,"
        "tensor_parallel,pipeline_parallel,context_parallel,step_s\n"
    )
    rows = [
        "26.08,Pre-Training Performance,LLAMA3_8B,DGX-H100,8,BF16,128,1,8192,1,1,2,3.2",
        "26.08,Pre-Training Performance,Frobnicator 7B,DGX-H100,8,BF16,128,1,8192,1,1,2,3.2",
        "26.08,Pre-Training Performance,LLAMA3_8B,Frobnicator 9000,8,BF16,128,1,8192,1,1,2,3.2",
        "26.08,Pre-Training Performance,LLAMA3_8B,DGX-H100,8,FP3,128,1,8192,1,1,2,3.2",
        "26.08,Pre-Training Performance,LLAMA3_8B,DGX-H100,8,BF16,128,1,8192,1,1,,3.2",
        "26.08,LoRA Performance,LLAMA3_8B,DGX-H100,8,BF16,128,1,8192,1,1,2,3.2",
    ]
    path = tmp_path / "bridge.csv"
    path.write_text(head + "\n".join(rows) + "\n")
    (run,), left = training_runs("megatron-bridge", path)
    assert run.model.name == "llama-3-8b" and run.seconds == 3.2
    assert sum(left.values()) == 5 and {
        "model Frobnicator 7B: no configuration here",
        "the catalogue lacks Frobnicator 9000",
        "no context_parallel",
        "no pre-training",
    } < set(left)
    assert any("fp3" in reason for reason in left)
