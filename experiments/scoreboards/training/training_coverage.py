"""What the published runs were, and how the memory band judges their layouts: all of them ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from slipstick.estimators.training.layout_memory import FITS, fit_of, fullest, stages
from slipstick.estimators.training.training_law import vendor_of
from slipstick.experiments.scoreboards.training.training_rows import MACHINES, TrainingRun, software_of
from slipstick.experiments.scoring.score import PERCENT, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.workloads.language.memory_band import StageMemory

GOAL = 0.9
"""An 80 % band leaves a tenth below it."""
STATES = 18.0
"""Bytes of a parameter under mixed precision and Adam: two copies, gradients and two moments."""


def judged(run: TrainingRun) -> str:
    """`fits`, `may not fit` or `does not fit`, of a layout that ran."""
    main = run.machine.memory[run.machine.main_memory]
    return fit_of(_stages(run), main.capacity)


def _stages(run: TrainingRun) -> tuple[StageMemory, ...]:
    return stages(run.model, run.layout, run.batch, run.sequence, software_of(run))


def memory_row(source: str, runs: Sequence[TrainingRun]) -> ValidationRow:
    """Share of a source's layouts that the band lets run; nothing is fitted to them."""
    counts = Counter(judged(run) for run in runs)
    ran = 1 - counts["does not fit"] / len(runs)
    return ValidationRow(
        dataset=f"training: {source}",
        case="layouts that ran: memory at the low end of the band fits",
        held_out="nothing is fitted; the band's low end was chosen with these layouts seen",
        n=len(runs),
        metric="share of layouts that are not said not to fit",
        unit="1",
        ours=ran,
        baselines={"memory at the high end of the band fits": counts["fits"] / len(runs)},
        goal=GOAL,
        ok=ran >= GOAL,
        reason=", ".join(f"{name}: {counts[name]}" for name in FITS),
    )


def memory_scored(runs: Sequence[TrainingRun], dataset: str) -> Scored:
    """Memory of the fullest stage beside that of the fullest device, of runs that publish it; nothing is fitted."""
    mine = [run for run in runs if run.memory is not None]
    made = [fullest(_stages(run)) for run in mine]
    states = [run.model.parameters * STATES / (run.layout.tensor * run.layout.pipeline) for run in mine]
    return Scored(
        "memory of the fullest device", "nothing is fitted", np.array([run.memory for run in mine]),
        np.array([one.counted.total for one in made]), PERCENT, (20.0, 40.0),
        {"18 bytes a parameter": np.array(states)}, low=np.array([one.low for one in made]),
        high=np.array([one.high for one in made]), groups=[run.source for run in mine], dataset=dataset, unit="",
        reason="by nvidia-smi, with the context",
    )  # fmt: skip


def facts_of(runs: Sequence[TrainingRun]) -> dict[str, Any]:
    """What a plan must know of the runs behind its terms (`FittedRuns`)."""
    systems = sorted({run.system for run in runs}, key=list(MACHINES).index)
    return {
        "precisions": {MACHINES[one]: sorted({run.precision for run in runs if run.system == one}) for one in systems},
        "vendors": sorted({vendor_of(run.machine) for run in runs}),
        "experts": any(run.model.experts is not None for run in runs),
        "devices": max(run.devices for run in runs),
        "sequences": [min(run.sequence for run in runs), max(run.sequence for run in runs)],
        "runs": len(runs),
    }
