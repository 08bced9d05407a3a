"""PyTorch programs (KernelBench v0.1) on GPUs: a program nobody timed, a device nobody timed, and compiled or eager.

What is scored is the default answer to a question, from fits that never saw the program, the device, or any of the
device's generation. Baselines: the rule of thumb of each operation, and the time on the nearest device that is known,
scaled by bandwidth, which a user has who timed the program there. Four machines of two generations: no more is known of
devices. The time of a host's issue that ships was fitted to these hosts among fifteen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from slipstick.common.array_types import FloatArray
from slipstick.common.records import Same
from slipstick.estimators.base.machine_family import shared_words
from slipstick.estimators.fitting.prediction_bands import Fold
from slipstick.experiments.scoreboards.programs.program_data import EAGER, INDUCTOR, ProgramRun, programs, runs_of
from slipstick.experiments.scoreboards.programs.program_refit import ProgramTimes, some_networks
from slipstick.experiments.scoreboards.programs.vision_rows import FILE, read_rows
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import GIVEN, LOGARITHMIC, Board, Data, Front, MissingError, Rows, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow, skipped
from slipstick.experiments.scoring.unseen_answers import Answers, Fits, answers_left_out, unseen
from slipstick.hwmodels.catalog import machine
from slipstick.hwmodels.machine import Machine
from slipstick.workloads.graph.workload import Workload

DATASET, COMPILED = "PyTorch programs", "compiled PyTorch programs"
FOLDS = 5
GOALS = {"program unseen": (0.13, 0.40), "device unseen": (0.10, 0.30), GIVEN: (0.13, 0.40)}
NOISE = 0.010
"""Standard deviation of a program's trials over their mean in this cohort: median."""
CHANGED, RIGHT = 0.05, 0.88
"""Log change of the time below which there is no direction; the goal of the share of right directions."""


def _programs(data: Data) -> Iterator[Scored | ValidationRow]:
    """Eager times, then what compiling changes of them, by what was left out."""
    traced = programs(data.folder) | programs(data.judged_folder)
    public, given = runs_of(data.folder), runs_of(data.judged_folder)
    if not given or not traced:
        raise MissingError(f"no times of programs (cohort v0.1) in {data.judged_folder}")
    strange = sorted({run.device for run in given if not run.machine})
    yield from (skipped(DATASET, f"the catalogue lacks {device}") for device in strange)
    if unread := {run.source for run in given} - set(traced):
        yield skipped(DATASET, f"{len(unread)} programs without a trace: not scored")
    known, judged = ([run for run in runs if run.machine and run.source in traced] for runs in (public, given))
    rows = data.rows(known, judged, lambda run: run.key)
    networks = some_networks(read_rows(data.known(FILE)))

    def ask(run: ProgramRun) -> tuple[Workload, Machine]:
        mode = "eager" if run.mode == EAGER else "compiled"
        return traced[run.source].workload, machine(run.machine).using({"runtime.mode": mode})

    def fitted(seen: Sequence[ProgramRun], wanted: Sequence[Machine]) -> Fits:
        there = {machine(run.machine).name: machine(run.machine) for run in seen}
        made = ProgramTimes(seen, traced, networks).fit()
        return Fits(replace(unseen(wanted, list(there.values())), programs=Same(made)))

    for case, held, key, at_most in (
        ("program unseen", "program", [run.source for run in rows.rows], FOLDS),
        ("device unseen", "device and its generation", [run.generation for run in rows.rows], 0),
        ("device unseen, its relatives known", "device", [run.machine for run in rows.rows], 0),
    ):
        turns = rows.turns(key, at_most=at_most)
        made = answers_left_out(rows.rows, turns, ask, fitted)
        if rows.first:
            yield from _scores("all hosts", GIVEN, rows, made, _copied(rows, turns))
            return
        yield from _scores(case, held, rows, made, _copied(rows, turns))


def _copied(rows: Rows[ProgramRun], turns: Sequence[Fold]) -> FloatArray:
    """Seconds on the nearest device that is known, times the ratio of bandwidths; nan where none ran the program."""
    made = np.full(len(rows.rows), np.nan)
    for fold in turns:
        seen = [rows.rows[at] for at in fold.known]
        for at in fold.scored:
            run, device = rows.rows[at], machine(rows.rows[at].machine)
            others = [one for one in seen if (one.source, one.mode) == (run.source, run.mode) and one.host != run.host]
            if others:
                near = max(others, key=lambda one: shared_words(machine(one.machine).family, device.family))
                made[at] = near.seconds * _bandwidth(machine(near.machine)) / _bandwidth(device)
    return made


def _bandwidth(device: Machine) -> float:
    return device.bandwidth(device.main_memory)


def _scores(
    case: str, held: str, rows: Rows[ProgramRun], made: Answers, copied: FloatArray
) -> Iterator[Scored | ValidationRow]:
    """Of eager times over all hosts and host by host, and of what compiling changes."""
    seconds = np.array([run.seconds for run in rows.rows])
    hosts = np.array([run.host for run in rows.rows])
    eager = np.array([run.mode == EAGER for run in rows.rows]) & np.isfinite(made.seconds)
    for host in ("", *sorted(set(hosts[eager]))):
        at = np.flatnonzero(eager & ((hosts == host) | (not host)))
        yield Scored(
            f"{case}, {host}" if host else case, held, seconds[at], made.seconds[at], LOGARITHMIC,
            () if host else GOALS.get(held if rows.first else case, ()),
            {RULE: made.rule[at], "nearest device by bandwidth": copied[at]},
            low=made.low[at], high=made.high[at], noise=NOISE,
            groups=[rows.rows[place].source if held == "program" else hosts[place] for place in at.tolist()],
        )  # fmt: skip
    yield from _changes(case, held, rows, made, copied)


def _changes(
    case: str, held: str, rows: Rows[ProgramRun], made: Answers, copied: FloatArray
) -> Iterator[Scored | ValidationRow]:
    """Time compiled over eager, and whether a program becomes faster at all."""
    place = {run.key: at for at, run in enumerate(rows.rows)}
    compiled_runs = [(run, at) for at, run in enumerate(rows.rows) if run.mode == INDUCTOR]
    pairs = [(place.get((run.host, EAGER, run.source), -1), at) for run, at in compiled_runs]
    both = np.array([pair for pair in pairs if pair[0] >= 0 and np.isfinite(made.seconds[[*pair]]).all()])
    if not len(both):
        return
    seconds = np.array([run.seconds for run in rows.rows])
    true, ours, near = (values[both[:, 1]] / values[both[:, 0]] for values in (seconds, made.seconds, copied))
    groups = [rows.rows[at].source if held == "program" else rows.rows[at].host for at in both[:, 1]]
    bases = {"no change": np.ones(len(true)), "nearest device": near}
    yield Scored(case, held, true, ours, LOGARITHMIC, (), bases, dataset=COMPILED, unit="1", groups=groups)
    turned = np.abs(np.log(true)) > CHANGED
    right = float(np.mean((np.log(ours) > CHANGED)[turned] == (true > 1)[turned]))
    plain = {"always faster": float(np.mean(true[turned] < 1))}
    metric = f"share of the right direction, of changes by more than {CHANGED:.0%}"
    yield ValidationRow(COMPILED, case, held, int(turned.sum()), metric, "1", right, plain, RIGHT, right >= RIGHT)


BOARD = Board(
    "How long does a PyTorch program take that nobody timed, or on a GPU never seen, and does compiling help?",
    {DATASET: _programs},
    (
        Front("A PyTorch program", "the program", "program unseen", "program", DATASET),
        Front("A PyTorch program", "the GPU", "device unseen", "device and its generation", DATASET),
    ),
)
