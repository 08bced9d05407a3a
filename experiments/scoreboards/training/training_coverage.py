"""What the published runs were, and how the memory band judges their layouts: all of them ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from slipstick.estimators.training.layout_memory import FITS, fit_of, stages
from slipstick.experiments.scoreboards.training.training_rows import MACHINES, TrainingRun
from slipstick.experiments.scoring.score_rows import ValidationRow

GOAL = 0.9
"""An 80 % band leaves a tenth below it."""


def judged(run: TrainingRun) -> str:
    """`fits`, `may not fit` or `does not fit`, of a layout that ran."""
    main = run.machine.memory[run.machine.main_memory]
    return fit_of(stages(run.model, run.layout, run.batch, run.sequence), main.capacity)


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


def facts_of(runs: Sequence[TrainingRun]) -> dict[str, Any]:
    """What a plan must know of the runs behind its terms (`FittedRuns`)."""
    systems = sorted({run.system for run in runs}, key=list(MACHINES).index)
    return {
        "precisions": {MACHINES[one]: sorted({run.precision for run in runs if run.system == one}) for one in systems},
        "experts": any(run.model.experts is not None for run in runs),
        "devices": max(run.devices for run in runs),
        "sequences": [min(run.sequence for run in runs), max(run.sequence for run in runs)],
        "runs": len(runs),
    }
