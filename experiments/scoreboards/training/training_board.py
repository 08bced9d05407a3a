"""Scoreboard: steps of published training runs; held out: scale, accelerator, model, release, cluster size, trainer.

One law is fitted to Megatron (MLPerf and Megatron-Bridge), FSDP (llm-foundry) and other people's trainers. What is left
out of a fit is left out of all sources. Baselines: a roofline with one fitted share of the peak, and the nearest known
run at the same flop/s a device, both of the same stack; and the rule of thumb.

Scoreboard: MLPerf training rows whose layout is not published, under the layout that the planner picks.

Each row is its model, accelerators and batch; the layout is the fastest that fits in memory by terms fitted without
what is scored. Rows whose layout is published are scored so too: what the search costs stands beside the figures with
the published one. GPT-3 is in no fit. Left out: LoRA, TPUs and Gaudi (other stacks), rows without a step, marked ones.

Larger sizes of published runs from measured steps at smaller ones, as `plan training --measured` calibrates them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from slipstick.estimators.training.own_steps import UpdatedStep, calibrated
from slipstick.estimators.training.time_breakdown import TrainingTerms
from slipstick.estimators.training.training_law import TrainingFit
from slipstick.estimators.training.training_step_answer import TrainedBatch
from slipstick.experiments.calibrate.public_data import scored_file
from slipstick.experiments.methods.training_plan.training_search import TrainingSearch
from slipstick.experiments.scoreboards.training.training_coverage import memory_row, memory_scored
from slipstick.experiments.scoreboards.training.training_fit import (
    NEWEST,
    OUTER,
    TRAINER,
    LeftOutRuns,
    by_software,
    fitted,
    groups_of,
    judged,
    key_of,
    left_out,
    outer_folds,
    terms_of,
    together,
    trainers_left_out,
    unplaced,
)
from slipstick.experiments.scoreboards.training.training_rows import (
    COMMUNITY,
    FILES,
    SOFTWARE,
    TrainingRun,
    software_of,
    training_runs,
    unplaced_runs,
)
from slipstick.experiments.scoreboards.training.training_scores import (
    baseline_errors,
    figures,
    peak_share,
)
from slipstick.experiments.scoring.model_inputs import machine_inputs, model_inputs
from slipstick.experiments.scoring.rules_of_thumb import RULE
from slipstick.experiments.scoring.score import Board, Data, Front, MissingError, Part, Scored
from slipstick.experiments.scoring.score_rows import ValidationRow
from slipstick.experiments.scoring.scored_cases import Case, CaseSet, Input, Measured, StatedTime

"""Devices up to which a source's steps are known; else the smaller half of each run's sizes."""


def grown(source: str, runs: Sequence[TrainingRun], stack: Sequence[TrainingRun]) -> Scored:
    """Each model on each system: steps at its smaller sizes calibrate, the larger are predicted.

    The terms that are calibrated are fitted without any step that is predicted.
    """
    groups: dict[tuple[object, ...], list[TrainingRun]] = {}
    for run in runs:
        groups.setdefault((run.system, run.model.name, run.precision), []).append(run)
    parts = [(mine, _border(source, mine)) for mine in groups.values()]
    pairs = [
        ([run for run in mine if run.devices <= border], [run for run in mine if run.devices > border])
        for mine, border in parts
    ]
    pairs = [(known, later) for known, later in pairs if known and later]
    scored = {run for _, later in pairs for run in later}
    rest = [run for run in stack if run not in scored]
    start = fitted(rest, "model")
    made_parts: list[LeftOutRuns] = []
    for known, later in pairs:
        first = known[0]
        levels = [groups_of(run) for run in known]
        made_of = calibrated(first.model, first.machine, [step_of(run) for run in known], start, levels)
        made_parts.append(judged(made_of.fit, later, f"{first.model.name} on {first.system}"))
    made, seen = together(made_parts), [run for known, _ in pairs for run in known]
    base = baseline_errors(made.runs, seen)
    return figures("larger sizes, calibrated on measured steps at smaller ones", "scale", made, base, GOALS_OF_SCALE)


def step_of(run: TrainingRun) -> UpdatedStep:
    """A published run as a measured step."""
    return UpdatedStep(run.layout, run.batch, run.sequence, run.precision, run.seconds)


def _border(source: str, runs: Sequence[TrainingRun]) -> int:
    sizes = sorted({run.devices for run in runs})
    return MOST_KNOWN if source == "mlperf" else sizes[max(0, len(sizes) // 2 - 1)]


CASES: Mapping[str, tuple[str, tuple[float, float]]] = {
    "accelerator unseen": ("system", (0.08, 0.20)),
    "model unseen": ("model", (0.13, 0.22)),
}
SEARCHED = "layout searched"


def searched(run: TrainingRun, terms: TrainingTerms) -> TrainingRun:
    """The run under the fastest layout that fits; `InputError` where none does."""
    trained = TrainedBatch(run.model, run.machine, run.batch, run.sequence, run.precision, "megatron", terms=terms)
    return replace(run, layout=TrainingSearch(trained, run.devices).run(1).best[0].layout)


def searched_scores(path: Path, stack: Sequence[TrainingRun], most: int) -> Iterator[Scored]:
    """Scale, accelerator and model left out, each with terms fitted without them.

    Parameters
    ----------
    stack
        Runs with published layouts, which the terms are fitted to.
    most
        Devices of the largest run that the fit for larger ones sees.
    """
    runs = unplaced_runs(path)
    small, large = [run for run in stack if run.devices <= most], [run for run in runs if run.devices > most]
    near = [run for run in runs if run.devices <= most]
    made = _judged(fitted(small, "model"), large, "scale")
    yield figures(
        f"above {most} accelerators, {SEARCHED}",
        "scale",
        made,
        baseline_errors(large, near),
        (0.08, 0.20),
        ", ".join(f"{run.model.name} on {run.devices} {run.system}" for run in large),
    )
    for case, (key, goals) in CASES.items():
        parts, base = [], dict[str, list[float]]()
        for one in sorted(set(key_of(runs, key))):
            mine, others = ([run for run in runs if (key_of([run], key) == [one]) is same] for same in (True, False))
            known = [run for run in stack if key_of([run], key) != [one]]
            parts.append(_judged(fitted(known, key), mine, one))
            for name, values in baseline_errors(mine, others).items():
                base.setdefault(name, []).extend(values)
        yield figures(
            f"{case}, {SEARCHED}", case, together(parts), base, goals,
            "; ".join(f"{p.held_out[0]}: {np.median(np.abs(np.expm1(p.errors))):.1%} median" for p in parts),
        )  # fmt: skip


def _judged(fit: TrainingFit, runs: Sequence[TrainingRun], held_out: str) -> LeftOutRuns:
    return judged(fit, [searched(run, terms_of(fit, run)) for run in runs], held_out)


GOALS_OF_SCALE = (0.03, 0.08)
MOST_KNOWN = 512
"""Accelerators of the largest MLPerf run that the fit of larger ones may see."""
GOALS = {
    ("mlperf", "accelerator unseen"): (0.08, 0.20),
    ("megatron-bridge", "accelerator unseen"): (0.10, 0.28),
    ("megatron-bridge", "model unseen"): (0.13, 0.22),
    ("megatron-bridge", NEWEST): (0.10, 0.28),
    ("llm-foundry", "system left out"): (0.12, 0.30),
    ("llm-foundry", "cluster size left out"): (0.05, 0.12),
}
MEMORY_STATED = ("internevo", "bigscience")
"""Of the other trainers those whose rows state what is computed again."""
TRAINER_GOALS = (0.20, 0.60)
OTHERS = "training: other trainers"
NOISE = {"mlperf": (0.002, 0.005), "megatron-bridge": (0.029, 0.15)}


def _scores(source: str, data: Data) -> Iterator[Scored | ValidationRow]:
    """Medians and 90th percentiles of a source's cases."""
    known = _known(data)
    runs = [run for each in known.values() for run in each]
    if source == "mlperf":
        yield _scale(known[source], runs)
    for one, key, case in OUTER:
        if one == source:
            yield _left_out(source, key, case, runs)
    if source in ("mlperf", "llm-foundry"):
        yield grown(source, known[source], runs)
    if source == "mlperf":
        yield from searched_scores(data.known(FILES[source]), runs, MOST_KNOWN)
    yield memory_row(source, known[source])


def _known(data: Data) -> dict[str, list[TrainingRun]]:
    return {name: training_runs(name, data.known(file))[0] for name, file in FILES.items()}


def _trainers(data: Data) -> Iterator[Scored | ValidationRow]:
    """Each trainer's runs as questions that name none, from the runs of all others; then whether memory fits."""
    known = _known(data)
    made = trainers_left_out([*(run for each in known.values() for run in each), *unplaced()])
    base = dict[str, list[float]]()
    for name, mine in by_software(made.runs).items():
        others = [run for run in made.runs if software_of(run) != name]
        for baseline, values in baseline_errors(mine, others).items():
            base.setdefault(baseline, []).extend(values)
    yield figures(TRAINER, TRAINER, made, base, TRAINER_GOALS, _worst(made), dataset=OTHERS)
    for name in dict.fromkeys(made.held_out):
        at = [place for place, one in enumerate(made.held_out) if one == name]
        some = LeftOutRuns(tuple(made.runs[i] for i in at), (name,) * len(at), made.errors[at], made.half[at])
        part = {baseline: [values[i] for i in at] for baseline, values in base.items()}
        yield figures(f"{TRAINER}: {name}", TRAINER, some, part, (), dataset=OTHERS)
    yield from (memory_row(source, known[source]) for source in MEMORY_STATED)
    yield memory_scored([run for each in known.values() for run in each], OTHERS)


def _stack(source: str, runs: Sequence[TrainingRun]) -> list[TrainingRun]:
    """Runs of the software that a source ran: what baselines know."""
    return [run for run in runs if SOFTWARE[run.source] == SOFTWARE[source]]


def _scale(mine: Sequence[TrainingRun], runs: Sequence[TrainingRun]) -> Scored:
    """MLPerf above 512 accelerators from all runs of at most so many."""
    small = [run for run in runs if run.devices <= MOST_KNOWN]
    large = [run for run in mine if run.devices > MOST_KNOWN]
    made = judged(fitted(small, "model"), large, "scale")
    base = baseline_errors(large, [run for run in mine if run.devices <= MOST_KNOWN])
    return figures(f"Llama 3.1 405B above {MOST_KNOWN} accelerators", "scale", made, base, GOALS_OF_SCALE)


def _left_out(source: str, key: str, case: str, runs: Sequence[TrainingRun]) -> Scored:
    """Each group predicted from the others; its band from groups left out among these."""
    made, base = left_out(runs, source, key), dict[str, list[float]]()
    for fold in outer_folds(runs, source, key):
        others = _stack(source, [runs[at] for at in fold.known])
        for name, values in baseline_errors([runs[at] for at in fold.scored], others).items():
            base.setdefault(name, []).extend(values)
    return figures(case, case, made, base, GOALS[source, case], _worst(made), NOISE.get(source))


def _worst(made: LeftOutRuns) -> str:
    """The group of the largest median error."""
    medians: Mapping[str, float] = {
        name: float(np.median([abs(np.expm1(e)) for e, n in zip(made.errors, made.held_out, strict=True) if n == name]))
        for name in set(made.held_out)
    }
    worst = max(sorted(medians), key=lambda name: medians[name])
    return f"worst: {worst} ({medians[worst]:.0%} median)"


def _kept_aside(source: str, data: Data) -> Iterator[Scored]:
    """Rows of another file, from a fit to all rows here but those that stand in it, or in another of its folder."""
    given, refused = training_runs(source, data.judged(FILES.get(source, FILES["internevo"])))
    left = "; ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
    if not given:
        raise MissingError(f"left out: {left}")
    there = [(name, path) for name, file in FILES.items() if (path := scored_file(file, data.scored)) is not None]
    scored = [run for name, path in there for run in training_runs(name, path)[0]]
    runs = [run for name, file in FILES.items() for run in training_runs(name, data.known(file))[0]]
    known = data.learnt(runs, scored, _key)
    if not _stack(source, known):
        raise MissingError("every public run of its software is among the rows given: nothing is left to learn from")
    made = judged(fitted(known, "model"), given, "file")
    base = baseline_errors(given, _stack(source, known))
    aside = figures("rows kept aside", "file", made, base, (0.10, 0.28), f"left out: {left}")
    yield replace(aside, least=np.array([peak_share(run) for run in made.runs]))


def _others_kept_aside(data: Data) -> Iterator[Scored]:
    for source in COMMUNITY:
        yield from _kept_aside(source, data)


def _key(run: TrainingRun) -> tuple[object, ...]:
    """What makes two rows one measurement: scored ones are taken out of the known."""
    return run.source, run.system, run.model.name, run.devices, run.batch, run.sequence, run.precision, run.seconds


LAYOUT = ("tensor", "pipeline", "data", "context", "expert", "chunks", "micro", "shard", "recompute")


def _case_set(data: Data) -> CaseSet:
    """Inputs: model and its sizes, system, devices, layout, batch, sequence, precision; times are of one step.

    Raises InputError where the public data are missing.
    """
    paths = {source: scored_file(file, data.scored) for source, file in FILES.items()}
    if not any(paths.values()):
        data.judged(FILES["mlperf"])  # says which is missing
    runs = {source: training_runs(source, path)[0] if path else [] for source, path in paths.items()}
    flat = [run for source in runs for run in runs[source]]
    measured = tuple(Measured(_case(run, number), run.seconds) for number, run in enumerate(flat))

    @cache
    def held_out() -> LeftOutRuns:
        """Each system's runs from a fit without them, in the order of the runs."""
        made = together([left_out(flat, source, "system") for source in FILES if runs[source]])
        place = {run: at for at, run in enumerate(made.runs)}
        order = np.array([place[run] for run in flat], dtype=np.intp)
        return LeftOutRuns(tuple(flat), tuple(run.system for run in flat), made.errors[order], made.half[order])

    def ours() -> list[StatedTime | None]:
        made = held_out()
        return [_banded(*one) for one in zip(flat, made.errors.tolist(), made.half.tolist(), strict=True)]

    @cache
    def baselines() -> dict[str, list[float]]:
        """Log errors of the baselines, by run; each system's from the others of its stack."""
        base: dict[str, list[float]] = {}
        for source, system in sorted({(run.source, run.system) for run in flat}):
            places = [place for place, run in enumerate(flat) if (run.source, run.system) == (source, system)]
            stack = [run for run in flat if SOFTWARE[run.source] == SOFTWARE[source]]
            others = [run for run in stack if run.system != system] or stack
            for name, values in baseline_errors([flat[place] for place in places], others).items():
                column = base.setdefault(name, [0.0] * len(flat))
                for place, value in zip(places, values, strict=True):
                    column[place] = value
        return base

    def baseline(name: str) -> Sequence[StatedTime | None]:
        return [StatedTime(run.seconds * float(np.exp(e))) for run, e in zip(flat, baselines()[name], strict=True)]

    names = ("roofline with one fitted share", "nearest known run, scaled", RULE)
    references = {"ours": ours} | {name: lambda name=name: baseline(name) for name in names}
    return CaseSet("training", "system", measured, references)


def _banded(run: TrainingRun, error: float, half: float) -> StatedTime:
    middle = run.seconds * float(np.exp(error))
    return StatedTime(middle, middle * float(np.exp(-half)), middle * float(np.exp(half)))


def _case(run: TrainingRun, number: int) -> Case:
    layout, model = run.layout, run.model
    inputs: dict[str, Input] = {
        **model_inputs(model), "source": run.source, "system": run.system, "devices": run.devices, "batch": run.batch,
        "sequence": run.sequence, "precision": run.precision, **machine_inputs(run.machine),
        **{name: getattr(layout, name) for name in LAYOUT},
    }  # fmt: skip
    return Case(f"{number}: {run.source}, {model.name} on {run.devices} {run.system}", run.system, inputs, run.source)


BOARD = Board(
    "How long does a training step take on accelerators, models or cluster sizes never measured?",
    {
        **{
            f"training: {source}": Part(partial(_scores, source), partial(_kept_aside, source))
            for source in FILES
            if source not in COMMUNITY
        },
        OTHERS: Part(_trainers, _others_kept_aside),
    },
    (
        Front(
            "Training step (MLPerf)", "the accelerator", "accelerator unseen", "accelerator unseen", "training: mlperf"
        ),
        Front("Training step (Megatron)", "the model", "model unseen", "model unseen", "training: megatron-bridge"),
        Front("Training step, trainer not named", "the trainer", TRAINER, TRAINER, OTHERS),
        Front("Training step (FSDP)", "the system", "system left out", "system left out", "training: llm-foundry"),
    ),
    cases=_case_set,
)
