"""What torch.compile does to programs: the change of their time, and whether they become faster at all.

The change is the log time compiled (TorchInductor's default mode) over eager. A program that nobody timed is predicted
by the kernels of both modes, fitted without it; on a device that nobody timed, a program also takes what compiling
changed on the others. Baselines: always faster, and the change on the nearest device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slipstick.estimators.engine_steps.step_law import generation_of
from slipstick.estimators.fitting.ensemble_weights import Split, mixture
from slipstick.estimators.fitting.group_effects_model import UNGROUPED
from slipstick.estimators.gpu.programs.program_law import COMPILED
from slipstick.estimators.symbolic.lambdified import FloatArray
from slipstick.experiments.scoreboards.programs.program_data import Program, machine_of
from slipstick.experiments.scoreboards.programs.program_rows import Timed, fitted_change, operations
from slipstick.experiments.scoreboards.programs.program_transfer import nearest
from slipstick.experiments.scoring.score import Scored, logarithmic, of_errors
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.hwmodels.catalog import machine

if TYPE_CHECKING:
    import pandas as pd

DATASET = "compiled PyTorch programs"
MODE = "inductor default"
WAYS = ("formula", "nearest")
FOLDS = 10
CHANGED = 0.05
"""Log change of the time below which there is no direction; a slowdown predicted below it is none."""
GOAL = 0.88
METRICS = tuple(
    logarithmic(*one)
    for one in ((0.5, "median |log ratio| of the change"), (0.9, "90th percentile |log ratio| of the change"))
)


@dataclass(frozen=True, eq=False)
class Modes:
    """A device's programs in both modes; the compiled one's `rows` are of the compiled programs."""

    eager: Timed
    compiled: Timed

    def change(self) -> FloatArray:
        """Log time compiled over eager by program; nan where one is missing."""
        return np.asarray(self.compiled.every() - self.eager.every())


def both(
    frame: pd.DataFrame, known: Mapping[str, Program], sources: Sequence[str], names: Sequence[str]
) -> list[Modes]:
    """Of every host that ran both modes."""
    compiled = {source: known[source].compiled() for source in sources}
    result = []
    for host, part in frame.groupby("machine"):
        device = machine_of(str(part["device"].iloc[0]))
        modes = {mode: times for mode, times in part.groupby("mode") if mode in ("eager", MODE)}
        if len(modes) < 2 or not device:
            continue
        timed = []
        for mode, programs, group in (("eager", known, UNGROUPED), (MODE, compiled, COMPILED)):
            index = np.array([sources.index(source) for source in modes[mode]["source"]], dtype=np.intp)
            logs = np.log(modes[mode]["mean_s"].to_numpy())
            timed.append(Timed(str(host), device, operations(sources, programs, names, device), index, logs, group))
        result.append(Modes(*timed))
    return result


def predicted(
    data: Sequence[Modes], keep: FloatArray, devices: Sequence[Modes], names: Sequence[str]
) -> list[FloatArray]:
    """The change of every program on some devices, by kernels fitted to the kept programs of others.

    `keep`: booleans by program.
    """
    law = fitted_change([one.eager for one in data], [one.compiled for one in data], keep, names)
    return [law.logs(one.compiled) - law.logs(one.eager) for one in devices]


def moved(one: Modes, others: Sequence[Modes], names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """The change of every program on a device by what others' kernels and the nearest device say, and the latter's.

    The weights of the two are those that devices left out have earned; a generation counts as one group.
    """
    splits = []
    for left in others:
        rest = [o for o in others if o.eager.device not in (one.eager.device, left.eager.device)]
        if rest:
            group = generation_of(machine(left.eager.device).family)
            splits.append(Split(_ways(left, rest, names), left.change(), group))
    ways = _ways(one, others, names)
    return mixture(WAYS, splits).mean(ways), ways["nearest"]


def _ways(one: Modes, others: Sequence[Modes], names: Sequence[str]) -> dict[str, FloatArray]:
    near = others[[o.eager.host for o in others].index(nearest(one.eager, [o.eager for o in others]).host)]
    (formula,) = predicted(others, np.ones(one.eager.rows.programs, bool), [one], names)
    return dict(zip(WAYS, (formula, near.change()), strict=True))


def compile_scores(data: Sequence[Modes], names: Sequence[str]) -> Iterator[Scored | ValidationRow]:
    """Programs left out in folds, and each device left out."""
    if not data:
        return
    programs = data[0].eager.rows.programs
    fold = np.random.default_rng(0).integers(0, FOLDS, programs)
    estimated = [np.full(programs, np.nan) for _ in data]
    for number in range(FOLDS):
        for place, change in enumerate(predicted(data, fold != number, data, names)):
            estimated[place][fold == number] = change[fold == number]
    yield from _scores("program unseen", "program", estimated, data, {})
    copied, mixed = [], []
    for one in data:
        others = [o for o in data if o.eager.device != one.eager.device]
        if others:
            change, near = moved(one, others, names)
            copied.append(near)
            mixed.append(change)
    if len(mixed) == len(data):
        yield from _scores("device unseen, a relative known", "each in turn", mixed, data, {"nearest device": copied})


def sealed_scores(
    tested: Sequence[Modes], learnt: Sequence[Modes], names: Sequence[str]
) -> Iterator[Scored | ValidationRow]:
    """Devices of another folder, predicted from those here; what they share with these leaves the training data."""
    for one in tested:
        others = [o for o in learnt if o.eager.host != one.eager.host]
        if others:
            change, near = moved(one, others, names)
            yield from _scores(one.eager.host, "scored rows", [change], [one], {"nearest device": [near]})


def _scores(
    case: str,
    held_out: str,
    predicted: Sequence[FloatArray],
    data: Sequence[Modes],
    copied: Mapping[str, Sequence[FloatArray]],
) -> Iterator[Scored | ValidationRow]:
    true, ours = np.concatenate([one.change() for one in data]), np.concatenate(predicted)
    others = {name: np.concatenate(changes) for name, changes in copied.items()}
    timed = np.isfinite(true) & np.isfinite(ours)
    base = {"no change": -true[timed]} | {name: (other - true)[timed] for name, other in others.items()}
    hosts = np.repeat([one.eager.host for one in data], [len(one.change()) for one in data])
    programs = np.concatenate([np.arange(len(one.change())) for one in data]).astype(str)
    groups = (programs if held_out == "program" else hosts)[timed].tolist()
    yield replace(of_errors(case, held_out, (ours - true)[timed], base), metrics=METRICS, groups=groups)
    changed = timed & (np.abs(np.where(timed, true, 0.0)) > CHANGED)
    right = {"always faster": float(np.mean(true[changed] < 0))}
    for name, other in others.items():
        there = changed & np.isfinite(other)
        right[name] = float(np.mean((other > 0)[there] == (true > 0)[there]))
    value = float(np.mean((ours > CHANGED)[changed] == (true > 0)[changed]))
    metric = f"share of the right direction, of changes by more than {CHANGED:.0%}"
    yield ValidationRow(DATASET, case, held_out, int(changed.sum()), metric, "1", value, right, GOAL, value >= GOAL)
