"""What-ifs as a user puts them: a question, the numbers of it that change, and how much longer that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from slipstick.common.errors import InputError
from slipstick.common.records import FrozenDict
from slipstick.estimators.base.protocols import Estimator, Fitted
from slipstick.experiments.question.question import Question, question
from slipstick.experiments.question.space import Space
from slipstick.experiments.scoreboards.whatif.machine_pairs import changes, difference
from slipstick.experiments.scoreboards.whatif.ratios import ALIKE, Ratios
from slipstick.experiments.scoring.score import progress
from slipstick.experiments.studies.sweep import task
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

MACHINE = "machine."


@dataclass(frozen=True)
class Change:
    """What is asked, what becomes of it (name -> value in SI units), and measured seconds then over now.

    `fitted`, `estimator`: what answers instead of the default, as `question` takes them.
    `settings`: numbers of the run today.
    """

    workload: Workload
    machine: Machine
    then: Mapping[str, float]
    measured: float
    fitted: Fitted | None = None
    estimator: Estimator | None = None
    settings: Mapping[str, float] = FrozenDict()

    @property
    def today(self) -> Question:
        """The question as it stands.

        Raises InputError where it cannot be put.
        """
        return question(self.workload, self.machine, self.estimator, self.settings, calibration=self.fitted)


@dataclass(frozen=True)
class MovedRatio:
    """Ratio of times, half of its 80 % band in log, largest change of a field that is read, the roofline's ratio."""

    ratio: float
    half: float
    change: float
    roofline: float


def answered(change: Change) -> MovedRatio:
    """What the what-if says.

    Raises InputError where the question cannot be answered.
    """
    query = change.today
    axes: FrozenDict[tuple[float, ...]] = FrozenDict({name: (value,) for name, value in change.then.items()})
    work = task(replace(query, vary=Space(axes)))
    row = work.columns(0, 1)
    ratio = float(row["time_ratio"][0])
    half = float(np.log(row["high_ratio"][0] / ratio)) if "high_ratio" in row else 0.0
    moved = work.fields.change({name: np.asarray(values) for name, values in axes.items()}, 1)[0]
    fields = {name.removeprefix(MACHINE): value for name, value in change.then.items() if name.startswith(MACHINE)}
    plain = [
        question(query.workload, one, "roofline").answer().time for one in (query.machine, query.machine.using(fields))
    ]
    return MovedRatio(ratio, half, float(moved), plain[1] / plain[0])


def ratios(
    case: str, held_out: str, differs: str, pairs: Iterable[Change], note: str = "", noise: float = ALIKE
) -> list[Ratios]:
    """The ratios of a case; none where every question was refused.

    `held_out`, `differs`, `noise`: as `Ratios` has them.
    `note`: beside how many questions were refused.
    """
    progress(case)
    answers, measured, refused = [], [], 0
    for one in pairs:
        try:
            answers.append(answered(one))
        except InputError:
            refused += 1
            continue
        measured.append(one.measured)
    if not answers:
        return []
    ours, half, change, plain = (
        np.array([getattr(one, name) for one in answers]) for name in ("ratio", "half", "change", "roofline")
    )
    text = "; ".join(filter(None, (note, f"{refused} refused" if refused else "")))
    baselines = {"roofline": plain} if np.any(plain != 1.0) else {}
    return [Ratios(case, held_out, differs, np.array(measured), ours, half, change, baselines, text, noise)]


def of_machines(
    case: str,
    before: Machine,
    after: Machine,
    pairs: Iterable[tuple[Workload, float]],
    fitted: Fitted | None = None,
    note: str = "",
    noise: float = ALIKE,
) -> list[Ratios]:
    """The same of workloads on one machine whose fields become another's, with the measured ratio of each."""
    then = {MACHINE + path: value for path, value in changes(before, after).items()}
    every = (Change(work, before, then, ratio, fitted) for work, ratio in pairs)
    return ratios(case, after.name, difference(before, after), every, note, noise)
